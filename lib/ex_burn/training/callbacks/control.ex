defmodule ExBurn.Training.Callbacks.Control do
  @moduledoc """
  Callbacks that change the learning rate.
  """

  alias ExBurn.Options
  alias ExBurn.Training.Callbacks
  alias ExBurn.Training.Callbacks.Watch

  @doc """
  Lets the learning rate grow in the first `epochs`.

  Without further arguments epoch `n` of these takes the share `n / epochs` of what it would take otherwise. With `from`
  and `to` the first one takes `from`, the last one `to`, and those between lie on a line. After them the rate is what it
  is without this callback.

  ## Examples

      iex> callback = ExBurn.Training.warmup_callback(4)
      iex> callback.({:start, %{history: [], next_learning_rate: 0.1}}, nil)
      {:learning_rate, 0.025, nil}
      iex> callback = ExBurn.Training.warmup_callback(3, 0.0, 0.5)
      iex> callback.({:epoch, %{epoch: 1, next_learning_rate: 0.1}}, nil)
      {:learning_rate, 0.25, nil}

  """
  @spec warmup(pos_integer()) :: Callbacks.t()
  def warmup(epochs) do
    Options.positive!(:warmup_callback, :epochs, epochs)
    warming(epochs, fn epoch, rate -> rate * epoch / epochs end)
  end

  @spec warmup(pos_integer(), number(), number()) :: Callbacks.t()
  def warmup(epochs, from, to) do
    Options.positive!(:warmup_callback, :epochs, epochs)
    for {name, rate} <- [from: from, to: to], do: number!(:warmup_callback, name, rate)
    warming(epochs, fn epoch, _rate -> from + (to - from) * (epoch - 1) / max(epochs - 1, 1) end)
  end

  defp warming(epochs, at) do
    fn
      {kind, %{next_learning_rate: rate} = info}, state when kind in [:start, :epoch] ->
        next = if(kind == :start, do: length(info.history), else: info.epoch) + 1

        if next <= epochs and rate != nil,
          do: {:learning_rate, at.(next, rate), state},
          else: {:cont, state}

      _event, state ->
        {:cont, state}
    end
  end

  @doc """
  Multiplies the learning rate by `factor` each time that the validation loss, or without validation data the loss, has
  not become smaller by more than `min_delta` for `patience` epochs in a row. Epochs before a resumed run count.

  ## Options

    * `:patience` - (positive integer) Defaults to `5`
    * `:factor` - from 0 to 1. Defaults to `0.5`
    * `:min_delta` - Defaults to `1.0e-4`
    * `:min_lr` - the rate does not fall below this. Defaults to `0.0`
    * `:monitor` - another value of the history that is watched, e.g. `:val_accuracy`
    * `:mode` - `:min` or `:max`, what is better. Needed for metrics of one's own; else it is known

  ## Examples

      iex> callback = ExBurn.Training.reduce_lr_on_plateau_callback(patience: 1)
      iex> {_, _, state} = callback.({:epoch, %{loss: 0.5, val_loss: nil, next_learning_rate: 0.1}}, nil)
      iex> {:learning_rate, rate, _} = callback.({:epoch, %{loss: 0.5, val_loss: nil, next_learning_rate: 0.1}}, state)
      iex> rate
      0.05

  """
  @spec reduce_lr_on_plateau(keyword()) :: Callbacks.t()
  def reduce_lr_on_plateau(opts \\ []) do
    defaults = [patience: 5, factor: 0.5, min_delta: 1.0e-4, min_lr: 0.0, monitor: nil, mode: nil]
    name = :reduce_lr_on_plateau_callback
    opts = name |> Options.validate!(opts, defaults) |> Map.new()
    Options.positive!(name, :patience, opts.patience)
    for key <- [:factor, :min_lr], do: number!(name, key, opts[key])
    start = {Watch.new!(name, opts.monitor, opts.mode, opts.min_delta), 1.0}
    Options.check!(opts.factor <= 1, name, :factor, opts.factor, "a number from 0 to 1")

    fn
      {:start, info}, _state ->
        start |> elem(0) |> Watch.expect!(info.reported)
        info.history |> Enum.reduce(start, &reduce(&1, &2, opts)) |> rate(info, opts)

      {:epoch, info}, state ->
        info |> reduce(state || start, opts) |> rate(info, opts)

      _event, state ->
        {:cont, state}
    end
  end

  # What is watched, and the factor so far.
  defp reduce(entry, {watch, factor}, opts) do
    case Watch.see(watch, entry) do
      %{waited: waited} = watch when waited >= opts.patience ->
        {%{watch | waited: 0}, factor * opts.factor}

      watch ->
        {watch, factor}
    end
  end

  defp rate(state, %{next_learning_rate: nil}, _opts), do: {:cont, state}

  defp rate({_watch, factor} = state, %{next_learning_rate: rate}, opts),
    do: {:learning_rate, max(rate * factor, min(opts.min_lr, rate)), state}

  defp number!(op, name, value) do
    Options.check!(Options.float?(value), op, name, value, Options.float(value))
  end
end
