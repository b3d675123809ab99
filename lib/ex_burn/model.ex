defmodule ExBurn.Model do
  @moduledoc """
  A model: parameters in native memory and the program that predicts with them.

  `ExBurn.compile/2` makes one from an Axon model, `ExBurn.load/1` from a file; the second kind has no `:axon` and needs
  none to predict.

  Fields:

    * `:axon` - the `%Axon{}` it was compiled from, or `nil` for a loaded model
    * `:inputs` - `[{name, {type, shape}}]` ordered by name. `type` is an Nx type, `shape` a list whose first axis is `nil`
      where the batch size is free
    * `:parameters` - `[{path, tensor}]` ordered by path: what an optimizer may change. A path is a list of strings,
      the layer's name first, e.g. `["dense_0", "kernel"]`
    * `:states` - `[{path, tensor}]` ordered by path: what the layers themselves change in training, such as the running
      mean of batch normalisation and the key of dropout
    * `:frozen` - `MapSet` of the paths that training leaves as they are
    * `:forward` - how to predict: `ExBurn.Model.Forward`
    * `:loss`, `:optimizer`, `:learning_rate`, `:metrics` - as given to `ExBurn.compile/2`; `:loss` may be `nil`
    * `:seed` - (integer) of the initial parameters
    * `:device` - where it runs, e.g. `:cpu`
    * `:optimizer_state` - what `ExBurn.train_step/3` carries from step to step, or `nil`
    * `:trained` - what training reports of itself, kept in the file: a map of strings to strings

  `ExBurn.Model.State` turns parameters and states into what Axon takes and back.
  """

  @enforce_keys [:inputs, :parameters, :states, :forward]
  defstruct axon: nil,
            inputs: [],
            parameters: [],
            states: [],
            frozen: MapSet.new(),
            forward: nil,
            loss: nil,
            optimizer: :adam,
            learning_rate: 1.0e-3,
            metrics: [],
            seed: 42,
            device: :cpu,
            optimizer_state: nil,
            trained: %{}

  @type path :: [String.t(), ...]
  @type leaves :: [{path(), Nx.Tensor.t()}]
  @type input :: {String.t(), {Nx.Type.t(), [non_neg_integer() | nil]}}

  @type t :: %__MODULE__{
          axon: struct() | nil,
          inputs: [input()],
          parameters: leaves(),
          states: leaves(),
          frozen: MapSet.t(path()),
          forward: ExBurn.Model.Forward.t() | nil,
          loss: atom() | (Nx.Tensor.t(), Nx.Tensor.t() -> Nx.Tensor.t()) | nil,
          optimizer: atom() | {atom(), keyword()},
          learning_rate: float(),
          metrics: [atom()],
          seed: non_neg_integer(),
          device: atom() | {atom(), non_neg_integer()},
          optimizer_state: tuple() | nil,
          trained: %{String.t() => String.t()}
        }

  alias ExBurn.{Backend, Error, Options, Type}
  alias ExBurn.Defn.Cache
  alias ExBurn.Model.{Forward, Input, State}

  # Axon is an optional dependency.
  @compile {:no_warn_undefined, [Axon, Axon.ModelState]}

  @doc """
  See `ExBurn.compile/2`.
  """
  @spec compile(struct() | {struct(), struct() | map()}, keyword()) :: t()
  def compile(axon, opts \\ [])

  def compile({axon, given}, opts), do: build(axon, given, opts)
  def compile(axon, opts), do: build(axon, %{}, opts)

  defp build(axon, given, opts) do
    axon!(axon)
    opts = ExBurn.Model.Options.validate!(opts)
    inputs = Input.declared(axon, opts[:inputs])
    {types, frozen} = state_types(axon, inputs)
    {parameter_types, state_types} = types
    forward = Forward.new(axon, inputs, parameter_types, state_types, frozen)

    struct!(__MODULE__,
      axon: axon,
      inputs: inputs,
      forward: forward,
      frozen: MapSet.union(frozen, frozen_in(given)),
      parameters: parameter_types,
      states: state_types
    )
    |> struct!(Keyword.delete(opts, :inputs))
    |> initialize(given)
  end

  defp axon!(%{__struct__: Axon}) do
    if not Code.ensure_loaded?(Axon) do
      raise Error, op: :compile, reason: "the application has no dependency on :axon"
    end
  end

  defp axon!(other) do
    raise Error,
      op: :compile,
      reason:
        "got #{inspect(other, limit: 3)}, expected an %Axon{} or {%Axon{}, %Axon.ModelState{}}"
  end

  defp frozen_in(%{__struct__: Axon.ModelState} = state),
    do: state |> State.from_axon() |> elem(2)

  defp frozen_in(_map), do: MapSet.new()

  # Dropout has its key in training mode only.
  defp state_types(axon, inputs) do
    {init, _predict} = Axon.build(axon, mode: :train)
    fun = &init.(&1, Axon.ModelState.empty())
    state = Forward.expression(fun, [Input.templates_of(inputs, 1)])
    {parameters, states, frozen} = State.from_axon(state)
    {{templates(parameters), templates(states)}, frozen}
  end

  defp templates(leaves), do: Enum.map(leaves, fn {path, t} -> {path, Nx.to_template(t)} end)

  # What is not given comes from the layers' initializers.
  defp initialize(model, given) do
    given = State.leaves(given)
    paths = MapSet.new(given, &elem(&1, 0))
    missing? = &(elem(&1, 0) not in paths)

    if Enum.any?(model.parameters ++ model.states, missing?) do
      fresh = model |> run_initializers() |> Enum.filter(missing?) |> Enum.map(&seeded(&1, model))
      update_params(model, fresh ++ given)
    else
      update_params(model, given)
    end
  end

  defp run_initializers(%__MODULE__{axon: axon, seed: seed, inputs: inputs}) do
    opts = [mode: :train, seed: seed, compiler: ExBurn.Defn.Compiler, cache: false]
    {init, _predict} = Axon.build(axon, opts)
    inputs |> Input.templates_of(1) |> init.(Axon.ModelState.empty()) |> State.leaves()
  end

  # Axon seeds the random keys of layers by the clock, which no run could repeat.
  defp seeded({path, %Nx.Tensor{type: {:u, 32}, shape: {2}}} = leaf, model) do
    if List.last(path) == "key" and List.keymember?(model.states, path, 0) do
      <<key::binary-size(8), _rest::binary>> = :erlang.md5("#{model.seed} #{State.name(path)}")
      {path, Nx.from_binary(key, :u32, backend: Backend)}
    else
      leaf
    end
  end

  defp seeded(leaf, _model), do: leaf

  @doc """
  See `ExBurn.predict/3`.
  """
  @spec predict(t() | {struct(), struct() | map()}, term(), keyword()) ::
          {:ok, Nx.Container.t()} | {:error, Error.t()}
  def predict(model, input, opts \\ []) do
    {:ok, predict!(model, input, opts)}
  rescue
    error in Error -> {:error, error}
  end

  @doc """
  See `ExBurn.predict!/2`.
  """
  @spec predict!(t() | {struct(), struct() | map()}, term(), keyword()) :: Nx.Container.t()
  def predict!(model, input, opts \\ [])

  def predict!(%__MODULE__{} = model, input, opts) do
    opts = Options.validate!(:predict, opts, batch_size: nil)
    {tensors, batch} = Input.check!(:predict, model.inputs, input)
    leaves = Enum.map(model.parameters ++ model.states, fn {_path, tensor} -> tensor end)
    forward(model, Enum.map(leaves, &Backend.ref/1), tensors, batch, opts[:batch_size])
  end

  def predict!({%{__struct__: Axon} = axon, given}, input, opts) do
    {axon, given} |> once(input) |> predict!(input, opts)
  end

  def predict!(other, _input, _opts) do
    raise Error,
      op: :predict,
      reason:
        "got #{inspect(other, limit: 3)}, expected an %ExBurn.Model{} or {%Axon{}, parameters}"
  end

  defp forward(model, parameters, tensors, batch, size) when size == nil or size >= batch,
    do: Forward.run(model, batch, parameters ++ Enum.map(tensors, &Backend.ref/1))

  defp forward(model, parameters, tensors, batch, size) when is_integer(size) and size > 0 do
    uploaded = Enum.map(tensors, &State.upload/1)

    0..(batch - 1)//size
    |> Enum.map(fn start ->
      rows = min(size, batch - start)
      part = Enum.zip_with(uploaded, model.inputs, &rows(&1, &2, start, rows))
      Forward.run(model, rows, parameters ++ Enum.map(part, &Backend.ref/1))
    end)
    |> concatenate()
  end

  defp forward(_model, _parameters, _tensors, _batch, size) do
    raise Error,
      op: :predict,
      reason: "batch_size: is #{inspect(size)}, expected a positive integer"
  end

  defp rows(tensor, {_name, {_type, [nil | _]}}, start, rows),
    do: Nx.slice_along_axis(tensor, start, rows, axis: 0)

  defp rows(tensor, _fixed, _start, _rows), do: tensor

  defp concatenate([first | _] = parts) do
    {output, _leaves} = ExBurn.Model.Output.describe(first)

    leaves =
      parts
      |> Enum.map(fn part -> part |> ExBurn.Model.Output.describe() |> elem(1) end)
      |> Enum.zip_with(&Nx.concatenate(&1, axis: 0))

    ExBurn.Model.Output.fill(output, List.to_tuple(leaves))
  end

  # The program of an Axon model that is not compiled is kept by the model and the types of the inputs.
  defp once({axon, given}, input) do
    inputs = Input.declared(axon, Input.templates_like(input))
    key = {__MODULE__, :erlang.md5(:erlang.term_to_binary({axon, inputs}))}

    skeleton =
      Cache.fetch(key, fn ->
        {{parameters, states}, frozen} = state_types(axon, inputs)
        forward = Forward.new(axon, inputs, parameters, states, frozen)
        %__MODULE__{inputs: inputs, parameters: parameters, states: states, forward: forward}
      end)

    complete!(update_params(%{skeleton | axon: axon}, given))
  end

  # States that only training reads are not needed to predict.
  defp complete!(model) do
    missing = for {path, %{data: %Nx.TemplateBackend{}}} <- model.parameters, do: State.name(path)

    if missing != [] do
      raise Error, op: :predict, reason: "the parameters lack #{Enum.join(missing, ", ")}"
    end

    zeros = fn
      {path, %{data: %Nx.TemplateBackend{}} = template} -> {path, zeros(template)}
      leaf -> leaf
    end

    %{model | states: Enum.map(model.states, zeros)}
  end

  defp zeros(%Nx.Tensor{type: type, shape: shape}),
    do: 0 |> Nx.tensor(type: type, backend: Backend) |> Nx.broadcast(shape)

  @doc """
  See `ExBurn.parameters/1`.
  """
  @spec parameters(t()) :: map()
  def parameters(%__MODULE__{parameters: parameters, states: states}),
    do: State.nest(parameters ++ states)

  @doc """
  See `ExBurn.update_params/2`.
  """
  @spec update_params(t(), term()) :: t()
  def update_params(%__MODULE__{parameters: parameters, states: states} = model, given) do
    count = length(parameters)

    {parameters, states} =
      (parameters ++ states) |> State.replace(State.leaves(given)) |> Enum.split(count)

    %{model | parameters: parameters, states: states}
  end

  @doc """
  See `ExBurn.info/1`.
  """
  @spec info(t()) :: map()
  def info(%__MODULE__{parameters: parameters, states: states} = model) do
    size = fn leaves -> leaves |> Enum.map(fn {_path, t} -> Nx.size(t) end) |> Enum.sum() end
    bytes = (parameters ++ states) |> Enum.map(fn {_path, t} -> Nx.byte_size(t) end) |> Enum.sum()

    model
    |> Map.take([:loss, :optimizer, :learning_rate, :metrics, :seed, :device, :trained])
    |> Map.merge(%{
      inputs:
        Map.new(model.inputs, fn {name, {type, shape}} -> {name, {Type.name(type), shape}} end),
      parameters: size.(parameters),
      frozen: size.(Enum.filter(parameters, &(elem(&1, 0) in model.frozen))),
      states: size.(states),
      bytes: bytes,
      trainable?: model.axon != nil,
      batch_sizes: model.forward.batch_sizes || :any
    })
  end
end
