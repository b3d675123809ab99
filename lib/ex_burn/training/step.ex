defmodule ExBurn.Training.Step do
  @moduledoc """
  The programs of training: a model's forward pass, the loss and the metrics traced into one program.

  With `gradients: :symbolic` Nx computes the gradients while it traces, and the program answers them after the states.

  A step program takes trainable parameters, all other parameters and states, what the loss is multiplied by where it is, `x`,
  `y`, the rows' weights, and answers the loss, the metrics, how much the batch counts and the new states. An evaluation program
  traces the model as it predicts, and answers the first three. Frozen parameters count as states that stay.

  Programs are kept in `ExBurn.Defn.Cache` by model, loss, metrics and the types of everything they take.
  """

  alias ExBurn.Defn.{Cache, Compiler, Lowering, Run}
  alias ExBurn.Defn.Lowering.HostCall
  alias ExBurn.{Backend, Error, Model, NIF, Type}
  alias ExBurn.Model.{Forward, State}
  alias ExBurn.Training.{Data, Failure, Loss, Metric, Weights}
  alias Nx.Defn.Composite
  alias Nx.Tensor, as: T

  @compile {:no_warn_undefined, [Axon]}

  @settings [:axon, :loss, :metrics, :frozen, :class_weights, :gradients, :loss_scale]

  @enforce_keys [:program, :prediction, :calls]
  defstruct [:program, :prediction, :calls]

  @typedoc """
  A native program, the template of what the model answers, and the functions that the program calls, by numbers that no
  other step has.
  """
  @type t :: %__MODULE__{
          program: reference(),
          prediction: Nx.Container.t(),
          calls: %{non_neg_integer() => HostCall.t()}
        }

  @type mode :: :train | :inference

  @doc """
  The program for batches `{x, y, weights}`, given as templates.

  `mode` is `:train` for a step program and `:inference` for an evaluation program.
  """
  @spec fetch!(Model.t(), mode(), Data.templates(), atom()) :: t()
  def fetch!(%Model{} = model, mode, batch, op) do
    check_model!(model, op)
    check_rows!(model.inputs, batch, op)
    {trainable, rest} = arguments(model)
    if mode == :train, do: Enum.each(trainable, &check_parameter!(&1, op))
    templates = Enum.map([trainable, rest], &templates/1)

    settings = Map.take(model, @settings)
    key = {__MODULE__, mode, settings, templates, batch}
    Cache.fetch(key, fn -> named(op, fn -> build(model, mode, batch) end) end)
  end

  defp check_model!(%Model{axon: nil}, op) do
    raise Error,
      op: op,
      reason:
        "the model was loaded from a file or quantized and can only predict; compile the Axon model to train it"
  end

  defp check_model!(%Model{loss: nil}, op),
    do: raise(Error, op: op, reason: "the model has no loss; give loss: to ExBurn.compile/2")

  defp check_model!(%Model{}, _op), do: :ok

  defp check_parameter!({path, %T{type: {kind, _} = type}}, op) when kind in [:s, :u, :c] do
    raise Error,
      op: op,
      reason:
        "the parameter #{State.name(path)} is #{Type.name(type)}, and only floats can be trained; " <>
          "freeze it, or make it a state by kind: :state"
  end

  defp check_parameter!(_leaf, _op), do: :ok

  defp check_rows!(inputs, {x, _y, _weights}, op) do
    for {name, {_type, [rows | _]}} <- inputs,
        rows != nil,
        got = elem(x[name].shape, 0),
        got != rows do
      raise Error,
        op: op,
        reason:
          "input #{inspect(name)} takes batches of #{rows} rows, got one of #{got}; " <>
            "give batch_size: #{rows} and a multiple of it as rows, or batches of that size"
    end
  end

  @doc """
  What a program takes before the batch: `{trainable, rest}`, each as `[{path, tensor}]`.
  """
  @spec arguments(Model.t()) :: {Model.leaves(), Model.leaves()}
  def arguments(%Model{} = model) do
    {frozen, trainable} =
      Enum.split_with(model.parameters, fn {path, _} -> path in model.frozen end)

    {trainable, frozen ++ model.states}
  end

  @doc """
  The model with other values for `arguments/1`.
  """
  @spec put_arguments(Model.t(), [reference()], [reference()]) :: Model.t()
  def put_arguments(%Model{} = model, trainable_refs, rest_refs) do
    {trainable, rest} = arguments(model)
    values = Map.new(replace(trainable, trainable_refs) ++ replace(rest, rest_refs))
    put = fn leaves -> Enum.map(leaves, fn {path, _} -> {path, Map.fetch!(values, path)} end) end
    %{model | parameters: put.(model.parameters), states: put.(model.states)}
  end

  @doc """
  The leaves with other native references.
  """
  @spec replace(Model.leaves(), [reference()]) :: Model.leaves()
  def replace(leaves, refs) do
    Enum.zip_with(leaves, refs, fn {path, t}, ref ->
      {path, Backend.put(t, ref, Backend.device(t))}
    end)
  end

  @doc """
  Native references of leaves or tensors.
  """
  @spec refs([{Model.path(), Nx.Tensor.t()} | Nx.Tensor.t()]) :: [reference()]
  def refs(list) do
    Enum.map(list, fn
      {_path, tensor} -> Backend.ref(tensor)
      tensor -> Backend.ref(tensor)
    end)
  end

  defp templates(leaves), do: Enum.map(leaves, fn {path, t} -> {path, Nx.to_template(t)} end)

  defp build(model, mode, batch) do
    traced = expression(model, mode, batch)
    autodiff? = mode == :train and model.gradients == :autodiff
    inputs = model |> inputs(batch) |> Enum.map(&Type.of/1)
    outputs = [[traced.loss], traced.metrics, [traced.weight], traced.states, traced.gradients]
    outputs = Enum.flat_map(outputs, &if(is_tuple(&1), do: Tuple.to_list(&1), else: &1))
    opts = [autodiff: autodiff?, keep_unused: true, calls: :unique]
    lowered = Lowering.lower(outputs, inputs, opts)
    program = Compiler.native(lowered)
    if autodiff?, do: check_loss!(program, model)

    %__MODULE__{
      program: program,
      prediction: Composite.traverse(traced.prediction, &Nx.to_template/1),
      calls: Map.new(lowered.calls)
    }
  end

  defp check_loss!(program, model) do
    {trainable, _rest} = arguments(model)

    case NIF.train_check_loss_dirty(program, length(trainable)) do
      {:ok, _} -> :ok
      {:error, {:invalid, %{reason: reason}}} -> raise Error, op: :loss, reason: reason
      {:error, error} -> raise Error.from_native(error)
    end
  end

  @doc """
  What a program is made from: a map of the expressions of the `:loss`, the `:metrics`, the `:weight`, the `:states`, the
  `:gradients` and the `:prediction`.
  """
  @spec expression(Model.t(), mode(), Data.templates()) :: %{atom() => Nx.Container.t()}
  def expression(model, mode, batch) do
    objective = objective(model, mode, batch)
    objective |> with_gradients(model, mode) |> Forward.expression(containers(model, batch))
  end

  @doc """
  Templates of all that a program takes, in order.
  """
  @spec inputs(Model.t(), Data.templates()) :: [Nx.Tensor.t()]
  def inputs(model, batch), do: model |> containers(batch) |> Composite.flatten_list()

  defp containers(model, {x, y, weights}) do
    {trainable, rest} = arguments(model)
    [tuple(trainable), tuple(rest), scale(model), x, y, weights]
  end

  defp scale(%{loss_scale: nil}), do: {}
  defp scale(_model), do: {Nx.template({}, :f32)}

  @doc """
  How many tensors a program takes before the batch.
  """
  @spec leading(Model.t()) :: pos_integer()
  def leading(model),
    do: length(model.parameters) + length(model.states) + tuple_size(scale(model))

  defp tuple(leaves), do: leaves |> Enum.map(&Nx.to_template(elem(&1, 1))) |> List.to_tuple()

  defp objective(model, mode, {x, _y, _weights}) do
    {_init, predict} = Axon.build(model.axon, mode: mode)
    rows = [x] |> Composite.flatten_list() |> hd() |> Nx.axis_size(0)

    fn trainable, rest, scale, x, y, weights ->
      state = axon_state(model, trainable, rest)
      {prediction, advanced} = state |> predict.(x) |> outcome(mode)
      weighting = weighting(model, weights)
      {loss, weight} = Loss.with_weight(model.loss, y, prediction, weighting, rows * 1.0)

      %{
        loss: scaled(loss, scale, mode),
        weight: Nx.as_type(weight, :f32),
        metrics: model.metrics |> Enum.map(&Metric.apply(&1, y, prediction)) |> List.to_tuple(),
        states: states(model, mode, advanced, rest),
        prediction: prediction
      }
    end
  end

  defp scaled(loss, {factor}, :train), do: Nx.multiply(loss, factor)
  defp scaled(loss, _scale, _mode), do: loss

  # Nx derives the gradients; the program answers them after the states.
  defp with_gradients(objective, %{gradients: :symbolic}, :train) do
    fn trainable, rest, scale, x, y, weights ->
      value = &objective.(&1, rest, scale, x, y, weights)
      {traced, gradients} = Nx.Defn.value_and_grad(trainable, value, & &1.loss)
      Map.put(traced, :gradients, like(gradients, trainable))
    end
  end

  defp with_gradients(objective, _model, _mode),
    do: fn a, b, c, d, e, f -> Map.put(objective.(a, b, c, d, e, f), :gradients, {}) end

  defp like(gradients, parameters) do
    [gradients, parameters] = Enum.map([gradients, parameters], &Tuple.to_list/1)
    gradients |> Enum.zip_with(parameters, &Nx.as_type(&1, &2.type)) |> List.to_tuple()
  end

  defp weighting(model, rows),
    do: [rows: if(rows != {}, do: rows), class: model.class_weights]

  defp axon_state(model, trainable_values, rest_values) do
    {trainable, rest} = arguments(model)

    with_values = fn leaves, values ->
      Enum.zip_with(leaves, Tuple.to_list(values), &with_value/2)
    end

    leaves = with_values.(trainable, trainable_values) ++ with_values.(rest, rest_values)
    states = MapSet.new(model.states, &elem(&1, 0))
    {states, parameters} = Enum.split_with(leaves, fn {path, _} -> path in states end)
    State.to_axon(parameters, states, model.frozen)
  end

  defp with_value({path, _tensor}, value), do: {path, value}

  defp outcome(%{prediction: prediction, state: advanced}, :train), do: {prediction, advanced}
  defp outcome(prediction, :inference), do: {prediction, %{}}

  defp states(_model, :inference, _advanced, _rest), do: {}

  # Axon answers the states that its layers have changed, as a nested map.
  defp states(model, :train, advanced, rest) do
    {_trainable, leaves} = arguments(model)
    advanced = Map.new(State.flatten(advanced))

    leaves
    |> Enum.zip_with(Tuple.to_list(rest), fn {path, _}, old ->
      if path in model.frozen, do: old, else: advance(old, Map.get(advanced, path, old))
    end)
    |> List.to_tuple()
  end

  # Instance normalisation answers its statistics for each row, though it takes them for all.
  defp advance(old, new) do
    if Nx.rank(new) > Nx.rank(old),
      do: advance(old, Nx.mean(new, axes: [0])),
      else: Nx.as_type(new, old.type)
  end

  # Errors of tracing are reported under the function that the user called.
  defp named(op, fun) do
    Failure.calling(op, "the model", fun)
  rescue
    error in Error ->
      error = if error.op in [:loss, :metric, :compile], do: %{error | op: op}, else: error
      reraise error, __STACKTRACE__
  end

  @doc """
  The functions that a program calls, with hooks that do nothing.
  """
  @spec silent(t()) :: %{non_neg_integer() => HostCall.t()}
  def silent(%__MODULE__{calls: calls}) do
    Map.new(calls, fn
      {number, {:hook, _spec, template}} -> {number, {:hook, {:fn, fn _ -> nil end}, template}}
      other -> other
    end)
  end

  @doc """
  Runs an evaluation program on a batch and answers its outputs: the loss, the metrics, and how much the batch counts.
  """
  @spec evaluate(t(), Model.t(), Data.t()) :: [Nx.Tensor.t()]
  def evaluate(%__MODULE__{program: program, calls: calls}, model, batch) do
    {trainable, rest} = arguments(model)
    inputs = refs(trainable ++ rest ++ Data.tensors(batch))
    {_inputs, types} = Error.unwrap!(NIF.program_types(program))
    outputs = Run.run(program, {inputs, []}, model.device, false, calls, %{}, :evaluate)
    Enum.zip_with(outputs, types, &scalar(&1, &2, model.device))
  end

  defp scalar(ref, {type, []}, device),
    do: Backend.put(Nx.template({}, Type.from_name(type)), ref, device)

  @doc """
  Refuses data whose targets the model's loss has no meaning for, or whose weights it can't add up in batches of `rows`.
  """
  @spec check_values!(t(), Model.t(), Data.t(), pos_integer(), atom()) :: :ok
  def check_values!(%__MODULE__{prediction: prediction}, model, data, rows, op) do
    Loss.check_targets!(model.loss, data.y, prediction, op)
    weighting = weighting(model, data.weights)

    if weighting[:rows] || weighting[:class] do
      {items, classes} = Loss.items(model.loss, prediction)
      Weights.check_sum!(weighting, {min(rows, data.rows), items, classes}, op)
    end

    :ok
  end
end
