defmodule ExBurn.Training do
  @moduledoc """
  Training of models that `ExBurn.compile/2` made.

      model = ExBurn.compile(axon, loss: :cross_entropy, optimizer: :adam, metrics: [:accuracy])
      model = ExBurn.fit(model, {x, y}, epochs: 10, validation_data: {vx, vy})
      ExBurn.evaluate(model, {test_x, test_y})

  The Axon model's train-mode function, the loss and the metrics are traced into one program for each size of batch. A
  native thread shuffles, cuts batches, runs the program forward and backward, and steps the optimizer; the calling
  process hears of each epoch and runs the callbacks. Batch normalisation's running statistics and dropout's keys advance
  as Axon says. Frozen parameters stay as they are.

  Losses are described in `ExBurn.Training.Loss`, optimizers in `ExBurn.Training.Optimizer`, metrics in
  `ExBurn.Training.Metric`, callbacks in `ExBurn.Training.Callbacks`, learning rate schedules in
  `ExBurn.Training.Schedule`, the history in `ExBurn.Training.History`.

  ## Data

  `{x, y}`, each a tensor or a tuple or map of tensors with one row per example along the first axis, lies in native
  memory as a whole. An enumerable of batches `{x, y}` is enumerated once in each epoch while the thread works; each size
  of batch that occurs is compiled once. A model of several inputs takes a map of them by name.
  """

  alias ExBurn.{Error, Model, NIF}
  alias ExBurn.Model.State

  alias ExBurn.Training.{
    Callbacks,
    Data,
    Feed,
    History,
    Job,
    Metric,
    Options,
    Plot,
    Run,
    Step
  }

  @type data :: {Nx.Container.t(), Nx.Container.t()}

  @doc """
  Trains a model and answers it with its new parameters.

  ## Options

    * `:epochs` - (positive integer) Defaults to `10`
    * `:batch_size` - (positive integer) rows in a batch of `{x, y}` and of validation data; the last batch of an epoch
      has what is left. Defaults to `32`
    * `:shuffle` - whether each epoch takes the rows of `{x, y}` in an order of its own. Defaults to `true`
    * `:seed` - (integer) of shuffling and of a validation share. Defaults to the model's
    * `:validation_data` - `{x, y}` that is evaluated after each epoch, or a float: the share of the rows held out for it,
      drawn at random
    * `:callbacks` - see `ExBurn.Training.Callbacks`. Defaults to `[]`
    * `:verbose` - whether to show progress: on a terminal one live line for each epoch, elsewhere plain lines.
      Defaults to `true`
    * `:lr_schedule` - see `ExBurn.Training.Schedule`. Defaults to the model's learning rate throughout

  The optimizer starts afresh. The same seed, model, data and options give the same parameters and history.

  Raises `ExBurn.Error` if data, options and model don't fit together. A loss or gradient that is not finite ends the run
  with an `ExBurn.Error` whose details have `:epoch`, `:step`, the `:model` after the last good step and the `:history`.
  """
  @spec fit(Model.t(), data() | Enumerable.t(data()), keyword()) :: Model.t()
  def fit(model, data, opts \\ []) do
    Model.expect!(model, :fit)
    {model, _history} = fit_with_progress(model, data, opts)
    model
  end

  @doc """
  As `fit/3`, and answers the history too: one map for each epoch, see `ExBurn.Training.History`.
  """
  @spec fit_with_progress(Model.t(), data() | Enumerable.t(data()), keyword()) ::
          {Model.t(), History.t()}
  def fit_with_progress(model, data, opts \\ []) do
    Model.expect!(model, :fit_with_progress)
    options = Options.fit!(opts, model.seed)
    {model, history, _handle} = Run.run(model, Job.prepare!(model, data, options), options)
    {%{model | optimizer_state: nil}, history}
  end

  @doc """
  Loss and metrics of a model as it predicts, over `{x, y}` or an enumerable of batches.

  Answers a map of floats, e.g. `%{loss: 0.1, accuracy: 0.97}`: means over all rows.

  ## Options

    * `:batch_size` - (positive integer) rows taken at once of `{x, y}`. Defaults to `32`
  """
  @spec evaluate(Model.t(), data() | Enumerable.t(data()), keyword()) :: %{
          atom() => History.value()
        }
  def evaluate(model, data, opts \\ []) do
    Model.expect!(model, :evaluate)
    %{batch_size: size} = Options.validate!(opts, [batch_size: 32], :evaluate)
    names = [:loss | Enum.map(model.metrics, &Metric.name/1)]

    {sums, rows} =
      data
      |> batches!(model, size)
      |> Enum.reduce({List.duplicate(0.0, length(names)), 0}, fn batch, {sums, rows} ->
        values =
          model |> evaluate_batch(batch) |> Enum.map(&(Nx.to_number(&1) |> weigh(batch.rows)))

        {Enum.zip_with(sums, values, &add/2), rows + batch.rows}
      end)

    if rows == 0, do: raise(Error, op: :evaluate, reason: "the data is empty: it has no batches")
    names |> Enum.zip(Enum.map(sums, &weigh(&1, 1 / rows))) |> Map.new()
  end

  defp batches!({_x, _y} = pair, model, size),
    do: pair |> Data.new!(model, :evaluate) |> Data.batches(size)

  defp batches!(batches, model, _size) do
    if Feed.batches?(batches),
      do: Stream.map(batches, &Data.new!(&1, model, :evaluate)),
      else: Data.new!(batches, model, :evaluate)
  end

  defp evaluate_batch(model, batch) do
    step = Step.fetch!(model, :inference, Data.templates(batch, batch.rows), :evaluate)
    Step.check_targets!(step, model, batch.y, :evaluate)
    Step.evaluate(step, model, batch)
  end

  # Nx.to_number/1 answers an atom for what is not finite, and that swallows the sum.
  defp weigh(value, weight) when is_number(value), do: value * weight
  defp weigh(value, _weight), do: value
  defp add(a, b) when is_number(a) and is_number(b), do: a + b
  defp add(a, b), do: if(is_atom(a), do: a, else: b)

  @doc """
  One optimizer step on the batch `{x, y}`. Answers `{loss, model}`, the loss being that before the step.

  The model carries the optimizer's moments from step to step.

  ## Options

    * `:learning_rate` - (number) Defaults to the model's
  """
  @spec train_step(Model.t(), data(), keyword()) :: {float(), Model.t()}
  def train_step(model, batch, opts \\ []) do
    Model.expect!(model, :train_step)
    opts = Options.validate!(opts, [learning_rate: model.learning_rate], :train_step)
    job = Job.single_step!(model, Data.new!(batch, model, :train_step), opts.learning_rate * 1.0)
    {model, [entry], handle} = Run.run(model, job, Options.fit!([verbose: false], 0))
    {entry.loss, Job.put_optimizer_state(model, Error.unwrap!(NIF.train_optimizer_state(handle)))}
  end

  @doc """
  The gradient of the loss on the batch `{x, y}` by each trainable parameter, in train mode.

  Answers a nested map shaped as the parameters, e.g. `%{"dense_0" => %{"kernel" => tensor, "bias" => tensor}}`.
  Frozen parameters are left out.
  """
  @spec compute_gradients(Model.t(), data(), keyword()) :: %{String.t() => map()}
  def compute_gradients(model, batch, opts \\ []) do
    Model.expect!(model, :compute_gradients)
    Options.validate!(opts, [], :compute_gradients)
    data = Data.new!(batch, model, :compute_gradients)
    step = Step.fetch!(model, :train, Data.templates(data, data.rows), :compute_gradients)
    Step.check_targets!(step, model, data.y, :compute_gradients)
    {trainable, rest} = Step.arguments(model)
    inputs = Step.refs(trainable ++ rest ++ Data.tensors(data))

    {_outputs, gradients} =
      step.program
      |> NIF.train_gradients_dirty(length(trainable), inputs)
      |> Error.unwrap!(:compute_gradients)

    trainable |> Step.replace(gradients) |> State.nest()
  end

  @doc """
  The loss curves of a history as text for a terminal.

  ## Examples

      iex> history = [%{epoch: 1, loss: 1.0, val_loss: nil}, %{epoch: 2, loss: 0.5, val_loss: nil}]
      iex> ExBurn.Training.plot(history) =~ "loss by epoch"
      true

  """
  @spec plot(History.t()) :: String.t()
  defdelegate plot(history), to: Plot, as: :curve

  defdelegate logging_callback(opts \\ []), to: Callbacks, as: :logging

  defdelegate early_stopping_callback(patience \\ 5, min_delta \\ 1.0e-4),
    to: Callbacks,
    as: :early_stopping

  defdelegate screen_callback(pid), to: Callbacks, as: :screen
  defdelegate history_callback(agent), to: Callbacks, as: :history
end
