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
    * `:class_weights`, `:gradients` - as given to the `ExBurn.fit/3` that runs, else `nil` and `:autodiff`
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
            class_weights: nil,
            gradients: :autodiff,
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
          optimizer: ExBurn.Training.Optimizer.t(),
          learning_rate: float(),
          metrics: [ExBurn.Training.Metric.t()],
          class_weights: ExBurn.Training.Weights.classes() | nil,
          gradients: :autodiff | :symbolic,
          seed: non_neg_integer(),
          device: atom() | {atom(), non_neg_integer()},
          optimizer_state: tuple() | nil,
          trained: %{String.t() => String.t()}
        }

  alias ExBurn.{Backend, Device, Error, Options, Type}
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
    # Dropout has its key in training mode only.
    {parameters, states, frozen} = state_types(axon, inputs, :train)

    source = %{
      axon: axon,
      inputs: inputs,
      parameters: parameters,
      states: states,
      frozen: frozen
    }

    struct!(__MODULE__, Map.put(source, :forward, Forward.new(source)))
    |> struct!(frozen: MapSet.union(frozen, frozen_in(given)))
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
      reason: "got #{Options.short(other)}, expected an %Axon{} or {%Axon{}, %Axon.ModelState{}}"
  end

  defp frozen_in(%{__struct__: Axon.ModelState} = state),
    do: state |> State.from_axon() |> elem(2)

  defp frozen_in(_map), do: MapSet.new()

  @doc """
  Templates of an Axon model's parameters and of its states in `mode`, and the paths that it freezes.
  """
  @spec state_types(struct(), [input()], :train | :inference) ::
          {leaves(), leaves(), MapSet.t(path())}
  def state_types(axon, inputs, mode) do
    {init, _predict} = Axon.build(axon, mode: mode)
    fun = &init.(&1, Axon.ModelState.empty())
    state = Forward.expression(fun, [Input.templates_of(inputs, 1)])
    {parameters, states, frozen} = State.from_axon(state)
    {templates(parameters), templates(states), frozen}
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
  Refuses what is no model on behalf of `op`.

  ## Examples

      iex> ExBurn.Model.expect!(:nonsense, :fit)
      ** (ExBurn.Error) fit: model is :nonsense, expected what ExBurn.compile/2 or ExBurn.load/1 answers

  """
  @spec expect!(term(), atom()) :: :ok
  def expect!(%__MODULE__{}, _op), do: :ok

  def expect!(other, op) do
    raise Error,
      op: op,
      reason:
        "model is #{Options.short(other)}, expected what ExBurn.compile/2 or ExBurn.load/1 answers"
  end

  @doc """
  See `ExBurn.parameters/1`.
  """
  @spec parameters(t()) :: map()
  def parameters(model) do
    expect!(model, :parameters)
    State.nest(model.parameters ++ model.states)
  end

  @doc """
  See `ExBurn.update_params/2`.
  """
  @spec update_params(t(), term()) :: t()
  def update_params(model, given) do
    expect!(model, :update_params)
    count = length(model.parameters)

    {parameters, states} =
      (model.parameters ++ model.states)
      |> State.replace(State.leaves(given))
      |> Enum.map(&placed(&1, model.device))
      |> Enum.split(count)

    %{model | parameters: parameters, states: states}
  end

  @doc """
  See `ExBurn.to_device/2`.
  """
  @spec to_device(t(), Device.t()) :: t()
  def to_device(model, device) do
    expect!(model, :to_device)
    device = Device.validate!(device)
    if device == model.device, do: model, else: copied_to(model, device)
  end

  # The optimizer's memory follows the parameters where a run begins.
  defp copied_to(model, device) do
    place = fn leaves -> Enum.map(leaves, &placed(&1, device)) end
    [parameters, states] = Enum.map([model.parameters, model.states], place)
    %{model | device: device, parameters: parameters, states: states}
  end

  defp placed({path, tensor}, device) do
    if Backend.device(tensor) == device,
      do: {path, tensor},
      else: {path, Nx.backend_copy(tensor, {Backend, device: device})}
  end

  @doc """
  See `ExBurn.info/1`.
  """
  @spec info(t()) :: map()
  def info(model) do
    expect!(model, :info)
    %__MODULE__{parameters: parameters, states: states} = model
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
