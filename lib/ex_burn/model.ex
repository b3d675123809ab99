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
    * `:class_weights`, `:gradients`, `:loss_scale` - as given to the `ExBurn.fit/3` that runs, else `nil`, `:autodiff` and `nil`
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
            loss_scale: nil,
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
          loss_scale: ExBurn.Training.LossScale.t() | nil,
          seed: non_neg_integer(),
          device: atom() | {atom(), non_neg_integer()},
          optimizer_state: tuple() | nil,
          trained: %{String.t() => String.t()}
        }

  alias ExBurn.{Backend, Device, Error, Options, Type}
  alias ExBurn.Model.{Forward, Initial, Input, State}
  alias ExBurn.Training.Failure

  @doc """
  Compiles an Axon model: `%Axon{}`, or `{model, parameters}` to start from an `Axon.ModelState` or a map of tensors.

  Parameters that are not given come from the layers' initializers, and are those that `Axon.build(model, seed: seed)`
  makes, where it makes the same ones each time: see `ExBurn.Model.InitialKeys`. The keys of dropout and recurrent layers
  come from the seed as well.

  ## Options

    * `:loss` - a name, see `ExBurn.Training.Loss`, or a function of targets and predictions that `defn` can trace. Only
      training needs one
    * `:optimizer` - a name or `{name, options}`, or a pair `{init, update}` of Polaris, see `ExBurn.Training.Optimizer`.
      Defaults to `:adam`
    * `:learning_rate` - defaults to `1.0e-3`
    * `:metrics` - what training reports beside the loss: a list of names, see `ExBurn.Training.Metric`, and of
      `{name, function of targets and predictions}`. Defaults to none
    * `:device` - defaults to `default_device/0`
    * `:seed` - of initial parameters and random keys. Defaults to `42`
    * `:inputs` - `%{name => template}` for inputs whose shape `Axon.input/2` was not told, or whose type is not `f32`
      (`s64` for what an embedding looks up). The first axis of a template is the batch. Optional inputs are used when they
      are named here

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 4}) |> Axon.dense(2) |> ExBurn.compile(loss: :mse)
      iex> {:ok, y} = ExBurn.predict(model, Nx.iota({3, 4}, type: :f32))
      iex> Nx.shape(y)
      {3, 2}

      iex> ExBurn.compile(Axon.input("x", shape: {nil, 4}), loss: :mean)
      ** (ExBurn.Error) compile: loss: is :mean, expected :cross_entropy, :mse, :mae, :huber, :binary_cross_entropy, :hinge, :kl_div or a function of targets and predictions

  """
  @spec compile(struct() | {struct(), struct() | map()}, keyword()) :: t()
  def compile(axon, opts \\ [])

  def compile({axon, given}, opts), do: build(axon, given, opts)
  def compile(axon, opts), do: build(axon, %{}, opts)

  defp build(axon, given, opts) do
    axon!(axon)
    opts = ExBurn.Model.Options.validate!(opts)
    Failure.calling(:compile, "the model", fn -> traced(axon, given, opts) end)
  end

  defp traced(axon, given, opts) do
    inputs = Input.declared(axon, opts[:inputs])
    # Dropout has its key in training mode only.
    {parameters, states, frozen} = Initial.types(axon, inputs, :train)

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
    |> Initial.fill(given)
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
  Parameters and states as a nested map by layer and name, as in the `:data` of an `Axon.ModelState`.

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 4}) |> Axon.dense(2) |> ExBurn.compile()
      iex> %{"dense_0" => %{"bias" => bias}} = ExBurn.parameters(model)
      iex> Nx.to_list(bias)
      [0.0, 0.0]

  """
  @spec parameters(t()) :: map()
  def parameters(model) do
    expect!(model, :parameters)
    State.nest(model.parameters ++ model.states)
  end

  @doc """
  The model with some parameters or states replaced: a nested map, an `Axon.ModelState` or another model's.

  An unknown name or another shape is an `ExBurn.Error`; types are converted.

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 1}) |> Axon.dense(1) |> ExBurn.compile()
      iex> params = %{"dense_0" => %{"kernel" => Nx.tensor([[3.0]]), "bias" => Nx.tensor([1.0])}}
      iex> model |> ExBurn.update_params(params) |> ExBurn.predict!(Nx.tensor([[2.0]])) |> Nx.to_list()
      [[7.0]]

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
  The model on another device.

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 2}) |> Axon.dense(1) |> ExBurn.compile()
      iex> ExBurn.to_device(model, :cpu).device
      :cpu

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
  What is known of a model: counts of elements in `:parameters`, `:frozen` and `:states`, `:bytes`, `:inputs`,
  `:batch_sizes` (`:any`, or a list), `:trainable?`, and the settings of `compile/2`.

  ## Examples

      iex> info = Axon.input("x", shape: {nil, 4}) |> Axon.dense(2) |> ExBurn.compile() |> ExBurn.info()
      iex> {info.parameters, info.inputs, info.batch_sizes}
      {10, %{"x" => {:f32, [nil, 4]}}, :any}

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
