defmodule ExBurn.Training.Plot do
  @moduledoc """
  Loss curves for a terminal, drawn in braille characters of 2 by 4 dots: the loss as a line, the validation loss dotted.
  """

  import Bitwise

  alias ExBurn.Options
  alias ExBurn.Training.History

  @columns 60
  @rows 12
  @bottom @rows - 1
  @label 10

  # Bits of the dots of a braille character, by column and row.
  @dots %{
    {0, 0} => 0x01,
    {0, 1} => 0x02,
    {0, 2} => 0x04,
    {1, 0} => 0x08,
    {1, 1} => 0x10,
    {1, 2} => 0x20,
    {0, 3} => 0x40,
    {1, 3} => 0x80
  }

  @doc """
  The curves of a history.
  """
  @spec curve(History.t()) :: String.t()
  def curve(history) do
    series = [loss: points(history, :loss), val_loss: points(history, :val_loss)]

    case Enum.flat_map(series, fn {_name, points} -> Enum.map(points, &elem(&1, 1)) end) do
      [] -> "no epochs to plot\n"
      values -> draw(series, length(history), Enum.min_max(values))
    end
  end

  # A value that is not finite leaves a gap, and so does an integer that no float can hold.
  defp points(history, name) do
    for {entry, i} <- Enum.with_index(history), finite?(entry[name]), do: {i, entry[name]}
  end

  defp finite?(value), do: is_number(value) and Options.float?(abs(value))

  defp draw(series, epochs, {low, high}) do
    scale = &scale(&1, epochs, low, high)
    solid = series[:loss] |> Enum.map(scale) |> line()

    dotted =
      series[:val_loss]
      |> Enum.map(scale)
      |> line()
      |> Enum.filter(fn {x, _} -> rem(x, 4) == 0 end)

    cells = Enum.reduce(solid ++ dotted, %{}, &set/2)
    rows = for row <- 0..@bottom, do: [label(row, low, high), "┤", row(cells, row), "\n"]

    IO.iodata_to_binary([rows, axis(epochs), legend(series)])
  end

  defp scale({i, value}, epochs, low, high) do
    x = if epochs == 1, do: 0, else: round(i / (epochs - 1) * (2 * @columns - 1))
    {x, round(share(value, low, high) * (4 * @rows - 1))}
  end

  defp share(_value, same, same), do: 0.5

  # Of parts of the largest, because the difference of two floats may be more than a float can hold.
  defp share(value, low, high) do
    most = max(abs(low), abs(high))
    (high / most - value / most) / (high / most - low / most)
  end

  # Dots from point to point, without gaps in either direction.
  defp line([]), do: []

  defp line([first | rest] = points),
    do: points |> Enum.zip(rest) |> Enum.flat_map(&segment/1) |> then(&[first | &1])

  defp segment({{x0, y0}, {x1, y1}}) do
    steps = max(abs(x1 - x0), abs(y1 - y0))

    for i <- 1..steps//1,
        do: {x0 + round(i * (x1 - x0) / steps), y0 + round(i * (y1 - y0) / steps)}
  end

  defp set({x, y}, cells) do
    bit = @dots[{rem(x, 2), rem(y, 4)}]
    Map.update(cells, {div(x, 2), div(y, 4)}, bit, &(&1 ||| bit))
  end

  defp row(cells, row),
    do: for(column <- 0..(@columns - 1), do: <<0x2800 + Map.get(cells, {column, row}, 0)::utf8>>)

  defp label(0, _low, high), do: pad(History.number(high))
  defp label(@bottom, low, _high), do: pad(History.number(low))
  defp label(_row, _low, _high), do: pad("")

  defp pad(text), do: String.pad_leading(text, @label)

  defp axis(epochs) do
    last = Integer.to_string(epochs)
    gap = @columns - 1 - String.length(last)

    [pad(""), "└", String.duplicate("─", @columns), "\n"] ++
      [pad(""), " 1", String.duplicate(" ", gap), last, "\n"]
  end

  defp legend(series) do
    validation = if series[:val_loss] == [], do: "", else: "   ⠄⠄ val_loss"
    [pad(""), " ⠤⠤ loss", validation, " by epoch\n"]
  end
end
