defmodule ExBurn.Training.Callbacks do
  @moduledoc """
  Functions that a run calls as it goes.

  A callback is `fn event, state -> answer end`. Its state is its own, `nil` at first. Events are

    * `{:batch, info}` - within an epoch, at most ten times a second: `:epoch`, `:step`, `:steps` (`nil` when
      batches are enumerated), `:samples_per_second`, and the means over the epoch so far, `:loss` and the metrics
    * `{:epoch, info}` - after each epoch: its entry of the history (`ExBurn.Training.History`), `:seconds`, `:samples`,
      `:skipped`, the number of batches left out by `nan: :skip`, and with `loss_scale:` the factor as `:loss_scale`
    * `{:end, info}` - once, when the run has ended by itself or by a callback: `:reason`, which is `:finished` or
      `:halted`, and `:history`

  Each `info` also has `:epochs`, `:batch_size` and `:model`, a function of no arguments that answers the model as trained so
  far. That of `:epoch` has `:next_learning_rate`, that of the epoch to come (`nil` when there is none), and `:checkpoint`, a
  function that writes a checkpoint to a path, see `ExBurn.Training.Checkpoint`.

  Answers are

    * `{:cont, state}` - go on
    * `{:halt, state}` - end the run: after an epoch with this epoch's parameters, within an epoch after the step at work
    * `{:learning_rate, rate, state}` - after an epoch: go on, and let `rate` be the learning rate of the epoch to come. The
      callbacks after this one find it in `:next_learning_rate`. With a schedule by steps that is the rate of the next step, and
      those of the whole epoch change by the same factor
    * `{:model, model, state}` - at the end: let the run answer this model, which callbacks after this one find in `:model`

  Callbacks run in the process that called `fit`, one after the other. An exception in one ends the run with an
  `ExBurn.Error` that holds it and the model, see `ExBurn.Training.Failure`. What a callback kept in its state is not in a
  checkpoint. The built-in ones are told of the start of a run, and find in the history of a resumed one what they would
  have seen; the best model that one of them keeps is in the checkpoint.
  """

  alias ExBurn.{Error, Model, Options}

  @built_in [
    __MODULE__.Checkpoints,
    __MODULE__.Control,
    __MODULE__.EarlyStopping,
    __MODULE__.Report
  ]

  # Which of them are told of these events.
  @told %{
    start: @built_in,
    pauses: [__MODULE__.Checkpoints],
    step: [__MODULE__.Checkpoints],
    kept: [__MODULE__.EarlyStopping]
  }

  @typedoc "`:start`, `:pauses`, `:kept` and `:step` come to the built-in callbacks only."
  @type event :: {:start | :pauses | :kept | :step | :batch | :epoch | :end, map()}
  @type answer ::
          {:cont | :halt, term()}
          | {:learning_rate, number(), term()}
          | {:model, ExBurn.Model.t(), term()}
  @type t :: (event(), state :: term() -> answer())

  @opaque running :: [{t(), term()}]

  @doc """
  Callbacks before their first event.
  """
  @spec start([t()]) :: running()
  def start(callbacks), do: Enum.map(callbacks, &{&1, nil})

  @doc """
  After how many steps of an epoch the callbacks want a run to pause for a `:step` event, `nil` for none.

  ## Examples

      iex> callbacks = for n <- [4, 6], do: ExBurn.Training.checkpoint_callback({n, :steps}, "runs")
      iex> callbacks |> ExBurn.Training.Callbacks.start() |> ExBurn.Training.Callbacks.pause_every()
      2

  """
  @spec pause_every(running()) :: pos_integer() | nil
  def pause_every(running) do
    steps =
      for {callback, state} <- running,
          {:every, steps} <- [call(callback, {:pauses, %{}}, state)],
          do: steps

    if steps != [], do: Enum.reduce(steps, &Integer.gcd/2)
  end

  @doc """
  The models that callbacks keep, by their epochs.
  """
  @spec kept(running()) :: %{pos_integer() => ExBurn.Model.t()}
  def kept(running) do
    for {callback, state} <- running,
        {:keep, epoch, model} <- [call(callback, {:kept, %{}}, state)],
        into: %{},
        do: {epoch, model}
  end

  @doc """
  Gives an event to all callbacks.

  Answers `:halt` if one of them says so, and `info` as they leave it: the learning rate to come, and the model at the end.
  """
  @spec notify(running(), event()) :: {:cont | :halt, map(), running()}
  def notify(running, {kind, info}) do
    {running, {verdict, info}} =
      Enum.map_reduce(running, {:cont, info}, fn {callback, state}, {verdict, info} ->
        case call(callback, {kind, info}, state) do
          {:cont, state} ->
            {{callback, state}, {verdict, info}}

          {:halt, state} ->
            {{callback, state}, {:halt, info}}

          {:learning_rate, rate, state} ->
            {{callback, state}, {verdict, put_rate(info, rate)}}

          {:model, %Model{} = model, state} when kind == :end ->
            {{callback, state}, {verdict, put_model(info, model)}}

          other ->
            wrong!(other)
        end
      end)

    {verdict, info, running}
  end

  defp call(callback, {kind, _info} = event, state) when is_map_key(@told, kind) do
    {:module, module} = Function.info(callback, :module)
    if module in @told[kind], do: callback.(event, state), else: {:cont, state}
  end

  defp call(callback, event, state), do: callback.(event, state)

  defp put_model(info, model), do: %{info | model: fn -> model end}

  defp put_rate(%{next_learning_rate: nil} = info, _rate), do: info

  defp put_rate(%{next_learning_rate: _} = info, rate) do
    if not Options.float?(rate) do
      raise Error,
        op: :fit,
        reason:
          "a callback answers the learning rate #{Options.short(rate)}, " <>
            "expected #{Options.float(rate)}"
    end

    %{info | next_learning_rate: rate * 1.0}
  end

  defp put_rate(_info, rate), do: wrong!({:learning_rate, rate, :state})

  defp wrong!(other) do
    raise Error,
      op: :fit,
      reason:
        "a callback must answer {:cont, state} or {:halt, state}, got #{Options.short(other)}; " <>
          "{:learning_rate, rate, state} only answers :epoch, {:model, model, state} only :end"
  end
end
