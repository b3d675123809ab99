defmodule ExBurn.Training.Callbacks do
  @moduledoc """
  Functions that a run calls as it goes.

  A callback is `fn event, state -> {:cont, state} | {:halt, state} end`. Its state is its own, `nil` at first. `:halt`
  ends the run: after an epoch with this epoch's parameters, within an epoch after the step at work. Events are

    * `{:batch, info}` - within an epoch, at most ten times a second: `:epoch`, `:epochs`, `:step`, `:steps` (`nil` when
      batches are enumerated), `:samples_per_second`, and the means over the epoch so far, `:loss` and the metrics
    * `{:epoch, info}` - after each epoch: its entry of the history (`ExBurn.Training.History`), `:epochs`, `:seconds`
      and `:samples`
    * `{:end, info}` - once, when the run has ended by itself or by a callback: `:reason`, which is `:finished` or
      `:halted`, and `:history`. What is answered has no effect

  Each `info` also has `:model`, a function of no arguments that answers the model as trained so far.

  Callbacks run in the process that called `fit`, one after the other. An exception in one ends the run and reaches the
  caller as it is.
  """

  require Logger

  alias ExBurn.Error
  alias ExBurn.Training.History

  @type event :: {:batch | :epoch | :end, map()}
  @type t :: (event(), state :: term() -> {:cont, term()} | {:halt, term()})

  @opaque running :: [{t(), term()}]

  @doc """
  Callbacks before their first event.
  """
  @spec start([t()]) :: running()
  def start(callbacks), do: Enum.map(callbacks, &{&1, nil})

  @doc """
  Gives an event to all callbacks; `:halt` if one of them says so.
  """
  @spec notify(running(), event()) :: {:cont | :halt, running()}
  def notify(running, event) do
    {running, verdicts} = running |> Enum.map(&call(&1, event)) |> Enum.unzip()
    {if(:halt in verdicts, do: :halt, else: :cont), running}
  end

  defp call({callback, state}, event) do
    case callback.(event, state) do
      {verdict, state} when verdict in [:cont, :halt] ->
        {{callback, state}, verdict}

      other ->
        raise Error,
          op: :fit,
          reason:
            "a callback must answer {:cont, state} or {:halt, state}, got #{ExBurn.Options.short(other)}"
    end
  end

  @doc """
  Logs the losses and metrics of each epoch with `Logger`.

  ## Options

    * `:level` - of the messages. Defaults to `:info`
    * `:every` - (positive integer) logs only epochs divisible by it. Defaults to `1`

  ## Examples

      iex> is_function(ExBurn.Training.logging_callback(every: 5), 2)
      true

  """
  @spec logging(keyword()) :: t()
  def logging(opts \\ []) do
    opts = Keyword.validate!(opts, level: :info, every: 1)

    fn event, state ->
      log(event, opts[:level], opts[:every])
      {:cont, state}
    end
  end

  defp log({:epoch, info}, level, every) when rem(info.epoch, every) == 0 do
    text = info |> Map.drop([:epochs, :seconds, :samples, :model]) |> History.text()
    Logger.log(level, "epoch #{info.epoch}/#{info.epochs}: #{text}")
  end

  defp log(_event, _level, _every), do: :ok

  @doc """
  Ends the run when the validation loss, or without validation data the loss, has not become smaller by more than
  `min_delta` for `patience` epochs in a row.
  """
  @spec early_stopping(pos_integer(), number()) :: t()
  def early_stopping(patience \\ 5, min_delta \\ 1.0e-4)
      when is_integer(patience) and patience > 0 and is_number(min_delta) do
    fn
      {:epoch, info}, state -> watch(info.val_loss || info.loss, state, patience, min_delta)
      _event, state -> {:cont, state}
    end
  end

  defp watch(loss, {best, waited}, patience, min_delta) do
    cond do
      is_number(loss) and (best == nil or loss < best - min_delta) -> {:cont, {loss, 0}}
      waited + 1 >= patience -> {:halt, {best, waited + 1}}
      true -> {:cont, {best, waited + 1}}
    end
  end

  defp watch(loss, nil, patience, min_delta), do: watch(loss, {nil, 0}, patience, min_delta)

  @doc """
  Sends `{:training_progress, epoch, loss, val_loss}` to a process after each epoch.

  ## Examples

      iex> callback = ExBurn.Training.screen_callback(self())
      iex> callback.({:epoch, %{epoch: 1, loss: 0.5, val_loss: nil}}, nil)
      {:cont, nil}
      iex> receive do message -> message end
      {:training_progress, 1, 0.5, nil}

  """
  @spec screen(pid()) :: t()
  def screen(pid) when is_pid(pid) do
    fn
      {:epoch, info}, state ->
        send(pid, {:training_progress, info.epoch, info.loss, info.val_loss})
        {:cont, state}

      _event, state ->
        {:cont, state}
    end
  end

  @doc """
  Appends each epoch's entry to the list held by an `Agent`, where other processes can read it while the run goes on.

  ## Examples

      iex> {:ok, agent} = Agent.start_link(fn -> [] end)
      iex> is_function(ExBurn.Training.history_callback(agent), 2)
      true

  """
  @spec history(Agent.agent()) :: t()
  def history(agent) do
    fn
      {:epoch, info}, state ->
        entry = Map.drop(info, [:epochs, :seconds, :samples, :model])
        Agent.update(agent, &(&1 ++ [entry]))
        {:cont, state}

      _event, state ->
        {:cont, state}
    end
  end
end
