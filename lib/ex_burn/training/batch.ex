defmodule ExBurn.Training.Batch do
  @moduledoc """
  What training does with one batch: a step, its gradients, and how long its parts take.
  """

  alias ExBurn.{Defn, Error, Fallback, Model, NIF, Training}
  alias ExBurn.Model.State
  alias ExBurn.Training.{Data, Failure, Job, Options, Profile, Run, Step, Update}

  @gradients [class_weights: nil, gradients: :autodiff, gradient_checkpointing: false]

  @doc """
  One optimizer step on the batch `{x, y}`. Answers `{loss, model}`, the loss being that before the step.

  The model carries the optimizer's moments from step to step.

  ## Options

    * `:learning_rate` - (number) Defaults to the model's
    * `:class_weights`, `:clip_value`, `:clip_norm`, `:weight_decay`, `:gradients`, `:gradient_checkpointing` - as for
      `fit/3`

  ## Examples

      iex> axon = Axon.input("x", shape: {nil, 1}) |> Axon.dense(1, kernel_initializer: :zeros)
      iex> model = ExBurn.compile(axon, loss: :mse)
      iex> {loss, _model} = ExBurn.train_step(model, {Nx.tensor([[1.0]]), Nx.tensor([[3.0]])})
      iex> loss
      9.0

  """
  @spec train_step(Model.t(), Training.data(), keyword()) :: {float(), Model.t()}
  def train_step(model, batch, opts \\ []) do
    {model, opts} = step_options!(model, opts, :train_step)
    step(model, batch, opts)
  rescue
    error in Error -> reraise Failure.of_one_step(error, :train_step), __STACKTRACE__
  end

  defp step(model, batch, opts) do
    job = Job.single_step!(model, Data.new!(batch, model, :train_step), opts, :train_step)
    one = [verbose: false, epochs: 1, lr_schedule: fn _ -> opts.learning_rate end]
    options = one |> Options.fit!(0) |> Map.merge(%{first_epoch: 1, history: []})
    {model, [entry], handle} = Run.run(model, job, options)
    state = Error.unwrap!(NIF.train_optimizer_state(handle))
    model = Job.put_optimizer_state(model, state)
    {entry.loss, %{model | class_weights: nil, gradients: :autodiff}}
  end

  defp step_options!(model, opts, op, more \\ []) do
    Model.expect!(model, op)
    rate = [learning_rate: model.learning_rate]
    clips = [clip_value: nil, clip_norm: nil, weight_decay: 0.0]
    rate? = Keyword.keyword?(opts) and Keyword.has_key?(opts, :learning_rate)
    if rate?, do: Update.no_rate!(model.optimizer, "learning_rate:", op)
    opts = Options.validate!(opts, rate ++ clips ++ @gradients ++ more, op)
    {put_options(model, opts), opts}
  end

  defp put_options(model, opts), do: struct!(model, Map.take(opts, [:class_weights, :gradients]))

  @doc """
  How long the parts of one step on the batch `{x, y}` take, which is not kept: a map of microseconds.

  `:forward` is the model with its loss and metrics, `:backward` the way from the loss to the gradients, `:optimizer` what it
  makes of them. With `gradients: :symbolic` one program does the first two; then `:backward` is `0.0`. Where one program does both
  otherwise, as on a GPU, `:backward` is what it takes longer than the forward pass alone, for small models `0.0` there too.

  ## Options

    * `:repeat` - (positive integer) how many steps are measured; the median of each part counts. Defaults to `10`
    * the options of `train_step/3`

  ## Examples

      iex> axon = Axon.input("x", shape: {nil, 1}) |> Axon.dense(1)
      iex> times = axon |> ExBurn.compile(loss: :mse) |> ExBurn.profile_step({Nx.tensor([[1.0]]), Nx.tensor([[3.0]])})
      iex> times |> Map.keys() |> Enum.sort()
      [:backward, :forward, :optimizer]

  """
  @spec profile_step(Model.t(), Training.data(), keyword()) :: %{atom() => float()}
  def profile_step(model, batch, opts \\ []) do
    {model, opts} = step_options!(model, opts, :profile_step, repeat: 10)
    data = Data.new!(batch, model, :profile_step)
    model |> Job.single_step!(data, opts, :profile_step) |> Profile.times(opts.repeat)
  rescue
    error in Error -> reraise Failure.of_one_step(error, :profile_step), __STACKTRACE__
  end

  @doc """
  The gradient of the loss on the batch `{x, y}` by each trainable parameter, in train mode.

  Answers a nested map shaped as the parameters, e.g. `%{"dense_0" => %{"kernel" => tensor, "bias" => tensor}}`.
  Frozen parameters are left out.

  ## Options

    * `:class_weights`, `:gradients`, `:gradient_checkpointing` - as for `fit/3`

  ## Examples

      iex> axon = Axon.input("x", shape: {nil, 1}) |> Axon.dense(1, kernel_initializer: :zeros)
      iex> model = ExBurn.compile(axon, loss: :mse)
      iex> gradients = ExBurn.compute_gradients(model, {Nx.tensor([[1.0]]), Nx.tensor([[3.0]])})
      iex> Nx.to_list(gradients["dense_0"]["bias"])
      [-6.0]

  """
  @spec compute_gradients(Model.t(), Training.data(), keyword()) :: %{String.t() => map()}
  def compute_gradients(model, batch, opts \\ []) do
    Model.expect!(model, :compute_gradients)
    opts = Options.validate!(opts, @gradients, :compute_gradients)
    model = put_options(model, opts)
    data = Data.new!(batch, model, :compute_gradients)
    step = Step.fetch!(model, :train, Data.templates(data, data.rows), :compute_gradients)
    Step.check_values!(step, model, data, data.rows, :compute_gradients)
    {trainable, rest} = Step.arguments(model)
    inputs = Step.refs(trainable ++ rest ++ Data.tensors(data))

    gradients = gradients(opts, model.device, step, length(trainable), inputs)
    trainable |> Step.replace(gradients) |> State.nest()
  end

  # Native code finds the device by the inputs.
  defp gradients(%{gradients: :autodiff} = opts, device, step, count, inputs) do
    checkpointing = Job.checkpointing(opts.gradient_checkpointing)

    step.program
    |> NIF.train_gradients_dirty(count, inputs, checkpointing)
    |> Error.unwrap!(:compute_gradients)
    |> elem(1)
  after
    Fallback.report(device)
  end

  defp gradients(%{gradients: :symbolic}, device, step, count, inputs) do
    step.program
    |> Defn.Run.run({inputs, []}, device, false, Step.silent(step), %{}, :compute_gradients)
    |> Enum.take(-count)
  end
end
