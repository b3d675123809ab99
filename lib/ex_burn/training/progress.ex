defmodule ExBurn.Training.Progress do
  @moduledoc """
  What a run with `verbose: true` shows: on a terminal one line for each epoch, rewritten as the epoch goes on; elsewhere
  a plain line after each epoch. Of batches that are enumerated it expects as many as there were in the epoch before.
  """

  alias ExBurn.Training.History

  @bar 20
  @clear "\r\e[2K"

  @enforce_keys [:mode, :epochs, :batch_size]
  defstruct [:mode, :epochs, :batch_size, :step, :expected, open?: false]

  @typedoc "`:batch_size` is that of the epoch before, and `:expected` its number of batches, where there was one."
  @type t :: %__MODULE__{
          mode: :off | :plain | :terminal,
          epochs: pos_integer(),
          batch_size: number(),
          step: pos_integer() | nil,
          expected: pos_integer() | nil,
          open?: boolean()
        }

  @doc """
  The display of a run; `:auto` looks whether standard output is a terminal.
  """
  @spec new(:auto | :off | :plain | :terminal, pos_integer(), pos_integer()) :: t()
  def new(:auto, epochs, batch_size),
    do: new(if(terminal?(), do: :terminal, else: :plain), epochs, batch_size)

  def new(mode, epochs, batch_size),
    do: %__MODULE__{mode: mode, epochs: epochs, batch_size: batch_size}

  defp terminal?, do: IO.ANSI.enabled?() and columns() != nil

  defp columns do
    case :io.columns() do
      {:ok, columns} -> columns
      {:error, _} -> nil
    end
  end

  @doc """
  Shows a `:batch` event.
  """
  @spec batch(t(), map()) :: t()
  def batch(%__MODULE__{mode: :terminal} = progress, info) do
    info = Map.update!(info, :steps, &(&1 || expected(progress, info.step)))
    info |> batch_line(progress) |> fit() |> then(&write([@clear, &1]))
    %{progress | open?: true, step: info.step}
  end

  def batch(progress, _info), do: progress

  defp expected(%{expected: count}, step) when is_integer(count) and count >= step, do: count
  defp expected(_progress, _step), do: nil

  defp batch_line(info, progress) do
    [
      heading(info.epoch, progress.epochs),
      bar(info.step, info.steps),
      History.text(info),
      speed(info.samples_per_second),
      eta(info, progress.batch_size)
    ]
    |> join()
  end

  @doc """
  Shows an `:epoch` event.
  """
  @spec epoch(t(), map()) :: t()
  def epoch(%__MODULE__{mode: :off} = progress, _info), do: progress

  def epoch(progress, info) do
    start = if progress.mode == :terminal, do: @clear, else: ""
    write([start, epoch_line(info, progress), "\n"])
    %{counted(progress, info) | open?: false}
  end

  defp counted(%{step: nil} = progress, _info), do: progress

  defp counted(%{step: step} = progress, info),
    do: %{progress | expected: step, batch_size: info.samples / step}

  defp epoch_line(info, progress) do
    [
      heading(info.epoch, progress.epochs),
      History.text(info),
      speed(info.samples / max(info.seconds, 1.0e-9)),
      duration(info.seconds)
    ]
    |> join()
  end

  @doc """
  Leaves an unfinished line, so that what comes next starts on its own.
  """
  @spec close(t()) :: t()
  def close(%__MODULE__{open?: true} = progress) do
    write("\n")
    %{progress | open?: false}
  end

  def close(%__MODULE__{} = progress), do: progress

  # Who looked at the run may be gone; the run goes on.
  defp write(text) do
    IO.write(text)
  rescue
    _gone in [ArgumentError, ErlangError] -> :ok
  end

  defp heading(epoch, epochs), do: "epoch #{epoch}/#{epochs}"

  defp bar(step, nil), do: "step #{step}"

  defp bar(step, steps) do
    full = div(step * @bar, max(steps, 1))

    "#{String.duplicate("━", full)}#{String.duplicate("╌", @bar - full)} #{step}/#{steps}"
  end

  defp speed(samples_per_second) when is_number(samples_per_second),
    do: "#{thousands(round(samples_per_second))} samples/s"

  defp speed(_unknown), do: nil

  defp thousands(number) do
    number
    |> Integer.to_string()
    |> String.replace(~r/(?<=\d)(?=(\d{3})+$)/, ",")
  end

  defp eta(%{steps: nil}, _batch_size), do: nil

  defp eta(%{samples_per_second: speed} = info, batch_size) when is_number(speed) and speed > 0,
    do: "ETA #{duration((info.steps - info.step) * batch_size / speed)}"

  defp eta(_info, _batch_size), do: nil

  defp duration(seconds) when seconds < 60,
    do: "#{:erlang.float_to_binary(seconds * 1.0, decimals: 1)} s"

  defp duration(seconds) do
    seconds = round(seconds)

    "#{div(seconds, 60)}:#{seconds |> rem(60) |> Integer.to_string() |> String.pad_leading(2, "0")} min"
  end

  defp join(parts), do: parts |> Enum.reject(&is_nil/1) |> Enum.join("  ")

  # A longer line would wrap and could not be rewritten.
  defp fit(line) do
    case columns() do
      nil -> line
      columns -> String.slice(line, 0, max(columns - 1, 1))
    end
  end
end
