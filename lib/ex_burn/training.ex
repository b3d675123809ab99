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
  `ExBurn.Training.Schedule`, the history in `ExBurn.Training.History`, checkpoints in `ExBurn.Training.Checkpoint`, events
  in `ExBurn.Telemetry`.

  ## Data

  `{x, y}` lies in native memory as a whole: `x` a tensor, or a map of the model's inputs by name, `y` a tensor or a tuple or
  map of tensors, all with one row per example along the first axis. An enumerable of batches `{x, y}` is enumerated once in
  each epoch while the thread works; each shape of batch that occurs is compiled once. Batches differ in their rows, and in the
  lengths of axes that the Axon model leaves open, as `Axon.input("x", shape: {nil, nil, 3})` does with sequences. A model
  predicts at the lengths that it was compiled for; `ExBurn.predict({axon, ExBurn.parameters(model)}, x)` predicts at any.

  A vector of weights of the rows may follow, `{x, y, weights}`, see `ExBurn.Training.Weights`.

  ## Hooks

  What `Axon.attach_hook/3` hangs on layers and `Nx.Defn.Kernel.hook/3` and `print_value/2` on values is called in the process
  that called `fit`, once for each batch, while the thread waits: hooks of training in training, those of inference for
  validation data. `compute_gradients/3`, `profile_step/3` and `ExBurn.predict/3` pass over hooks.
  """

  alias ExBurn.{Error, Model}

  alias ExBurn.Training.{
    Batch,
    Callbacks,
    Checkpoint,
    Data,
    Evaluation,
    Failure,
    History,
    Job,
    Options,
    Plot,
    Run,
    Update,
    Vega
  }

  @type data ::
          {Nx.Container.t(), Nx.Container.t()}
          | {Nx.Container.t(), Nx.Container.t(), Nx.Tensor.t()}

  @doc """
  Trains a model and answers it with its new parameters.

  ## Options

    * `:epochs` - (positive integer) Defaults to `10`
    * `:batch_size` - (positive integer) rows in a batch of `{x, y}` and of validation data; the last batch of an epoch
      has what is left. Defaults to `32`
    * `:shuffle` - whether each epoch takes the rows of `{x, y}` in an order of its own. Defaults to `true`
    * `:seed` - (integer) of shuffling and of a validation share. Defaults to the model's
    * `:validation_data` - `{x, y}` or `{x, y, weights}` that is evaluated after each epoch, or an enumerable of such batches,
      which is read once and kept, its rows of one shape together; or a float: the share of the rows held out for it, drawn
      at random
    * `:device` - where it trains, e.g. `:gpu`: the model is brought there first. Defaults to the model's own device. On a
      GPU parameters, states and the optimizer's memory stay in its memory from step to step. What only Burn's tape can
      follow there, such as a loop whose number of iterations is not known before it runs, runs on the CPU and is told as
      `grad` by `[:ex_burn, :fallback]`
    * `:class_weights` - how much rows of each class count in the loss, e.g. `%{1 => 5.0}`, see
      `ExBurn.Training.Weights`
    * `:callbacks` - see `ExBurn.Training.Callbacks`. Defaults to `[]`
    * `:verbose` - whether to show progress: on a terminal one live line for each epoch, elsewhere plain lines.
      Defaults to `true`
    * `:lr_schedule` - by epochs or by steps, see `ExBurn.Training.Schedule`. Defaults to the model's learning rate throughout
    * `:clip_value` - bound of every element of a gradient, which a normal number of `f32` can be
    * `:clip_norm` - bound of the Euclidean norm of all gradients together, after `:clip_value`: where it is larger, all are
      multiplied by the bound over the norm. A normal number of `f32` too, as less would make all gradients 0
    * `:weight_decay` - with `:adamw`, `:lamb`, `:lion` and `:muon` their option `:decay`; with other optimizers this share of
      each parameter is added to its gradient after clipping. Defaults to `0.0`
    * `:accumulate_gradients` - (positive integer) batches that make one step of the optimizer: the one that all their rows
      would make as one batch, with their weights. The last step of an epoch takes the batches that are left. They are
      added up in `f32` where gradients are of 16 bits. Defaults to `1`
    * `:loss_scale` - for models that compute in `f16`: what the loss is multiplied by on the way back, `:dynamic` or a number,
      see `ExBurn.Training.LossScale`. Defaults to `nil`
    * `:nan` - what happens to a loss or gradient that is not finite: `:stop` ends the run, `:skip` leaves the batch out.
      An epoch that is left with no batch ends the run. A step behind which a parameter is not finite is taken back, at the
      latest before the epoch ends or a checkpoint is written; with `:stop` that ends the run. Defaults to `:stop`
    * `:gradients` - `:autodiff`, by the engine, as one program with the loss where each operation has a rule for
      that, else on Burn's tape; or `:symbolic`, by Nx while the model is traced. Both are the same but for rounding
      (Nx 0.13 holds some numbers in `f32`, such as the one that the gradient of `Nx.mean/2` divides by, so in `f64`
      its own are exact to about 6.0e-8), except where the gradient that Nx 0.13 derives differs from finite
      differences: in layers that loop (`unroll: :dynamic`, the default of `Axon.lstm/3` and its like), so give these
      `:autodiff` or `unroll: :static`; in maxima and minima of windows with padding, such as `Axon.max_pool/2` with
      `padding: :same`, and in a `cond` whose branches compute from a value that is read outside of it too, so give
      these `:autodiff`. Defaults to `:autodiff`
    * `:gradient_checkpointing` - with `false` the backward pass finds everything it needs in memory. With `true` the step is
      cut in segments: only what lies between them is kept, and each is computed again on the way back. So memory grows with
      the root of a model's depth, and a step takes up to half as long again, one with a loop about three times as
      long. The segments are chosen so that the least memory is
      needed; `{:every, n}` makes them of `n` operations. A loop, such as a recurrent layer with `unroll: :dynamic`, is cut
      between its iterations: its state is kept about as often as there are iterations from one that is kept to the next, so
      what is kept grows with the root of the number of iterations. Whole sequences, which a layer takes and answers, stay as
      they are. Gradients are the same but for the order in which parts of them are added. Not with `gradients: :symbolic`, and on
      the CPU alone. Defaults to `false`
    * `:resume` - the directory of a `checkpoint_callback/3`, or one checkpoint: the run goes on after the newest one that
      is whole, in mid-epoch if it was written there, and starts anew where there is none. An enumerable is enumerated from
      its start, and the batches that are done are passed over. Then the history is that of the whole run

  The optimizer starts afresh unless the run is resumed. The same seed, model, data and options give the same parameters and
  history, whether a run is interrupted and resumed or not.

  Raises `ExBurn.Error` if data, options and model don't fit together. A run that fails, by a loss or gradient that is not
  finite, by a callback or by its data, raises one whose details have the `:model` after the last good step, the `:history`,
  and what was at fault: see `ExBurn.Training.Failure`.

  ## Examples

      iex> x = Nx.tensor([[0.0], [1.0], [2.0], [3.0]])
      iex> axon = Axon.input("x", shape: {nil, 1}) |> Axon.dense(1)
      iex> model = ExBurn.compile(axon, loss: :mse, optimizer: :sgd, learning_rate: 0.1)
      iex> model = ExBurn.fit(model, {x, Nx.multiply(x, 2)}, epochs: 200, batch_size: 4, verbose: false)
      iex> model |> ExBurn.predict!(Nx.tensor([[5.0]])) |> Nx.squeeze() |> Nx.to_number() |> Float.round(2)
      10.0

  """
  @spec fit(Model.t(), data() | Enumerable.t(data()), keyword()) :: Model.t()
  def fit(model, data, opts \\ []) do
    Model.expect!(model, :fit)
    {model, _history} = fit_with_progress(model, data, opts)
    model
  end

  @doc """
  As `fit/3`, and answers the history too: one map for each epoch, see `ExBurn.Training.History`.

  ## Examples

      iex> x = Nx.tensor([[0.0], [1.0]])
      iex> model = Axon.input("x", shape: {nil, 1}) |> Axon.dense(1) |> ExBurn.compile(loss: :mse)
      iex> {_model, history} = ExBurn.fit_with_progress(model, {x, x}, epochs: 3, verbose: false)
      iex> Enum.map(history, & &1.epoch)
      [1, 2, 3]

  """
  @spec fit_with_progress(Model.t(), data() | Enumerable.t(data()), keyword()) ::
          {Model.t(), History.t()}
  def fit_with_progress(model, data, opts \\ []) do
    Model.expect!(model, :fit_with_progress)
    options = Options.fit!(opts, model.seed)
    if options.lr_schedule, do: Update.no_rate!(model.optimizer, "lr_schedule:", :fit)
    model = Model.to_device(model, options.device || model.device)
    options = Map.put(options, :rows, Data.rows(data))
    {model, options} = Checkpoint.resume!(model, options)
    model = struct!(model, Map.take(options, [:class_weights, :gradients, :loss_scale]))
    {model, history, _handle} = run(model, data, options)
    {of_no_run(model), history}
  end

  # A run that fails before its first step has reached what it was given.
  defp run(model, data, options) do
    Failure.calling(:fit, "the model", fn ->
      Run.run(model, Job.prepare!(model, data, options), options)
    end)
  rescue
    error in Error -> reraise before_a_step(error, model, options), __STACKTRACE__
  end

  defp before_a_step(error, model, options) do
    error = Failure.with_model(error, model, options.history)
    %{error | details: Map.update!(error.details, :model, &of_no_run/1)}
  end

  defp of_no_run(model) do
    struct!(model,
      optimizer_state: nil,
      class_weights: nil,
      gradients: :autodiff,
      loss_scale: nil
    )
  end

  @doc """
  Loss and metrics of a model as it predicts, over `{x, y}` or an enumerable of batches.

  Answers a map of floats, e.g. `%{loss: 0.1, accuracy: 0.97}`: means over all rows. A mean that is not finite is `:nan`,
  `:infinity` or `:neg_infinity`, as that of validation data is in the history; only in training it ends the run.

  ## Options

    * `:batch_size` - (positive integer) rows taken at once of `{x, y}`. Defaults to `32`
    * `:class_weights` - as for `fit/3`; without them the loss differs from the `:val_loss` of a run that has them

  ## Examples

      iex> axon = Axon.input("x", shape: {nil, 1}) |> Axon.dense(1, kernel_initializer: :zeros)
      iex> axon |> ExBurn.compile(loss: :mse) |> ExBurn.evaluate({Nx.tensor([[1.0]]), Nx.tensor([[3.0]])})
      %{loss: 9.0}

  """
  @spec evaluate(Model.t(), data() | Enumerable.t(data()), keyword()) :: %{
          atom() => History.value()
        }
  defdelegate evaluate(model, data, opts \\ []), to: Evaluation, as: :means

  @doc "One optimizer step on a batch: `{loss, model}`. See `ExBurn.Training.Batch.train_step/3`."
  @spec train_step(Model.t(), data(), keyword()) :: {float(), Model.t()}
  defdelegate train_step(model, batch, opts \\ []), to: Batch

  @doc "How long the parts of one step take, in microseconds. See `ExBurn.Training.Batch.profile_step/3`."
  @spec profile_step(Model.t(), data(), keyword()) :: %{atom() => float()}
  defdelegate profile_step(model, batch, opts \\ []), to: Batch

  @doc "The gradient of the loss on a batch by each parameter. See `ExBurn.Training.Batch.compute_gradients/3`."
  @spec compute_gradients(Model.t(), data(), keyword()) :: %{String.t() => map()}
  defdelegate compute_gradients(model, batch, opts \\ []), to: Batch

  @doc """
  The loss curves of a history: text for a terminal, or with `as: :vega_lite` a specification for Livebook, see
  `ExBurn.Training.Vega`.

  ## Examples

      iex> history = [%{epoch: 1, loss: 1.0, val_loss: nil}, %{epoch: 2, loss: 0.5, val_loss: nil}]
      iex> ExBurn.Training.plot(history) =~ "loss by epoch"
      true
      iex> ExBurn.Training.plot(history, as: :vega_lite)["data"]["values"] |> hd()
      %{"epoch" => 1, "what" => "loss", "data" => "training", "value" => 1.0}

  """
  @spec plot(History.t(), keyword()) :: String.t() | map()
  def plot(history, opts \\ []) do
    [as: as] = ExBurn.Options.validate!(:plot, opts, as: :text)

    ExBurn.Options.check!(
      as in [:text, :vega_lite],
      :plot,
      :as,
      as,
      ":text or :vega_lite"
    )

    ExBurn.Options.check!(
      is_list(history) and Enum.all?(history, &match?(%{epoch: _, loss: _}, &1)),
      :plot,
      :history,
      history,
      "the list that fit_with_progress answers"
    )

    if as == :text, do: Plot.curve(history), else: Vega.spec(history)
  end

  defdelegate logging_callback(opts \\ []), to: Callbacks.Report, as: :logging
  defdelegate progress_bar_callback(opts \\ []), to: Callbacks.Report, as: :progress_bar
  defdelegate screen_callback(pid), to: Callbacks.Report, as: :screen
  defdelegate history_callback(agent), to: Callbacks.Report, as: :history

  defdelegate early_stopping_callback(patience \\ 5, min_delta \\ 1.0e-4, opts \\ []),
    to: Callbacks.EarlyStopping,
    as: :early_stopping

  defdelegate warmup_callback(epochs), to: Callbacks.Control, as: :warmup
  defdelegate warmup_callback(epochs, from, to), to: Callbacks.Control, as: :warmup

  defdelegate reduce_lr_on_plateau_callback(opts \\ []),
    to: Callbacks.Control,
    as: :reduce_lr_on_plateau

  defdelegate restore(model, path, opts \\ []), to: Checkpoint

  defdelegate checkpoint_callback(every, dir, opts \\ []),
    to: Callbacks.Checkpoints,
    as: :checkpoint
end
