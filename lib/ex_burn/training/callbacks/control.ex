defmodule ExBurn.Training.Callbacks.Control do
  @moduledoc """
  Callbacks that change how a run goes, or keep what it has reached.
  """

  alias ExBurn.{Error, Options}
  alias ExBurn.Training.{Callbacks, Checkpoint}

  @doc """
  Ends the run when the validation loss, or without validation data the loss, has not become smaller by more than
  `min_delta` for `patience` epochs in a row. Epochs before a resumed run count.

  ## Examples

      iex> callback = ExBurn.Training.early_stopping_callback(1)
      iex> {:cont, state} = callback.({:epoch, %{loss: 0.5, val_loss: nil}}, nil)
      iex> callback.({:epoch, %{loss: 0.6, val_loss: nil}}, state)
      {:halt, {0.5, 1}}

  """
  @spec early_stopping(pos_integer(), number()) :: Callbacks.t()
  def early_stopping(patience \\ 5, min_delta \\ 1.0e-4) do
    Options.positive!(:early_stopping_callback, :patience, patience)
    number!(:early_stopping_callback, :min_delta, min_delta)

    fn
      {:start, info}, _state ->
        info.history |> Enum.reduce(nil, &watch(&1, &2, min_delta)) |> patient(patience)

      {:epoch, info}, state ->
        info |> watch(state, min_delta) |> patient(patience)

      _event, state ->
        {:cont, state}
    end
  end

  defp patient({_best, waited} = state, patience) when waited >= patience, do: {:halt, state}
  defp patient(state, _patience), do: {:cont, state}

  # The smallest loss so far, and for how many epochs there has been no smaller one.
  defp watch(entry, nil, min_delta), do: watch(entry, {nil, 0}, min_delta)

  defp watch(entry, {best, waited}, min_delta) do
    loss = entry.val_loss || entry.loss

    if is_number(loss) and (best == nil or loss < best - min_delta),
      do: {loss, 0},
      else: {best, waited + 1}
  end

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

  ## Examples

      iex> callback = ExBurn.Training.reduce_lr_on_plateau_callback(patience: 1)
      iex> {_, _, state} = callback.({:epoch, %{loss: 0.5, val_loss: nil, next_learning_rate: 0.1}}, nil)
      iex> {:learning_rate, rate, _} = callback.({:epoch, %{loss: 0.5, val_loss: nil, next_learning_rate: 0.1}}, state)
      iex> rate
      0.05

  """
  @spec reduce_lr_on_plateau(keyword()) :: Callbacks.t()
  def reduce_lr_on_plateau(opts \\ []) do
    defaults = [patience: 5, factor: 0.5, min_delta: 1.0e-4, min_lr: 0.0]
    name = :reduce_lr_on_plateau_callback
    opts = name |> Options.validate!(opts, defaults) |> Map.new()
    Options.positive!(name, :patience, opts.patience)
    for key <- [:factor, :min_delta, :min_lr], do: number!(name, key, opts[key])
    Options.check!(opts.factor <= 1, name, :factor, opts.factor, "a number from 0 to 1")

    fn
      {:start, info}, _state ->
        info.history |> Enum.reduce(nil, &reduce(&1, &2, opts)) |> rate(info, opts)

      {:epoch, info}, state ->
        info |> reduce(state, opts) |> rate(info, opts)

      _event, state ->
        {:cont, state}
    end
  end

  # What is watched, and the factor so far.
  defp reduce(entry, nil, opts), do: reduce(entry, {nil, 1.0}, opts)

  defp reduce(entry, {watched, factor}, opts) do
    case watch(entry, watched, opts.min_delta) do
      {best, waited} when waited >= opts.patience -> {{best, 0}, factor * opts.factor}
      watched -> {watched, factor}
    end
  end

  defp rate(nil, _info, _opts), do: {:cont, nil}
  defp rate(state, %{next_learning_rate: nil}, _opts), do: {:cont, state}

  defp rate({_watched, factor} = state, %{next_learning_rate: rate}, opts),
    do: {:learning_rate, max(rate * factor, min(opts.min_lr, rate)), state}

  @doc """
  Writes a checkpoint after each epoch whose number `every` divides, or with `{every, :steps}` after each so many batches
  within an epoch, to the directory `dir`, which is made if it is not there: see `ExBurn.Training.Checkpoint`.

  Where gradients of several batches make a step, it is written behind the next batch that ends one.

  ## Options

    * `:keep` - (positive integer) how many of the newest are kept, or `:all`. Defaults to `:all`

  """
  @spec checkpoint(pos_integer() | {pos_integer(), :steps}, Path.t(), keyword()) :: Callbacks.t()
  def checkpoint(every, dir, opts \\ []) do
    opts = Options.validate!(:checkpoint_callback, opts, keep: :all)
    path? = is_binary(dir) and dir != ""
    Options.check!(path?, :checkpoint_callback, :dir, dir, "the path of a directory")
    if opts[:keep] != :all, do: Options.positive!(:checkpoint_callback, :keep, opts[:keep])

    case every do
      {steps, :steps} ->
        Options.positive!(:checkpoint_callback, :every, steps)
        within_epochs(steps, dir, opts[:keep])

      epochs ->
        Options.positive!(:checkpoint_callback, :every, epochs)
        after_epochs(epochs, dir, opts[:keep])
    end
  end

  defp after_epochs(every, dir, keep) do
    fn
      {:epoch, %{epoch: epoch} = info}, state when rem(epoch, every) == 0 ->
        write(info, dir, Checkpoint.path(dir, epoch), keep)
        {:cont, state}

      _event, state ->
        {:cont, state}
    end
  end

  # Other callbacks may want a run to pause more often. The state is where it was written last.
  defp within_epochs(every, dir, keep) do
    fn
      {:pauses, _info}, _state ->
        {:every, every}

      {:step, %{epoch: epoch, step: step} = info}, state ->
        due? = div(step, every) > div(last_step(state, epoch), every)
        if due?, do: write(info, dir, Checkpoint.path(dir, epoch - 1, step), keep)
        {:cont, if(due?, do: {epoch, step}, else: state)}

      _event, state ->
        {:cont, state}
    end
  end

  defp last_step({epoch, step}, epoch), do: step
  defp last_step(_state, _epoch), do: 0

  defp write(info, dir, path, keep) do
    make_dir!(dir)
    info.checkpoint.(path)
    Checkpoint.prune(dir, keep)
  end

  defp make_dir!(dir) do
    with {:error, reason} <- File.mkdir_p(dir) do
      raise Error, op: :checkpoint_callback, reason: "#{dir}: #{:file.format_error(reason)}"
    end
  end

  defp number!(op, name, value) do
    Options.check!(is_number(value) and value >= 0, op, name, value, "a number of at least 0")
  end
end
