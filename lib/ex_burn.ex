defmodule ExBurn do
  @moduledoc """
  Runs Nx, Axon and `Nx.Serving` on the Rust framework [Burn](https://burn.dev).

  Tensors live in native memory, a whole `defn` runs as one native call, training runs on a native thread with Burn's
  autodiff, and models predict with programs that need no Axon once they are saved.

      model =
        Axon.input("image", shape: {nil, 64})
        |> Axon.dense(32, activation: :relu)
        |> Axon.dense(10, activation: :softmax)
        |> ExBurn.compile(loss: :cross_entropy)
        |> ExBurn.fit({images, labels}, epochs: 10)

      {:ok, probabilities} = ExBurn.predict(model, images)
      ExBurn.save(model, "digits.safetensors")

  Or run what you have:

      Nx.default_backend(ExBurn.Backend)
      Nx.Defn.default_options(compiler: ExBurn.Defn.Compiler)

  Whatever fails raises `ExBurn.Error`, or answers it as `{:error, error}` where a function answers `{:ok, result}`.
  Nothing is switched on behind your back: the default backend and compiler change only by `configure!/1`.
  """

  alias ExBurn.{Device, Error, Model, NIF, Tensor, Training}

  ## The native part

  @doc """
  Whether the native part is loaded and computes right on the default device.

  ## Examples

      iex> ExBurn.available?()
      true

  """
  @spec available?() :: boolean()
  def available?, do: nif_loaded?() and Device.smoke_test(default_device()) == :ok

  @doc """
  Whether the native part is loaded.

  ## Examples

      iex> ExBurn.nif_loaded?()
      true

  """
  @spec nif_loaded?() :: boolean()
  def nif_loaded?, do: Code.ensure_loaded?(NIF)

  @doc """
  The version of ExBurn.

  ## Examples

      iex> {:ok, _version} = Version.parse(ExBurn.version())

  """
  @spec version() :: String.t()
  def version, do: :ex_burn |> Application.spec(:vsn) |> List.to_string()

  @doc """
  A small multiplication and a sum on each device, compared with the known answer.

  ## Examples

      iex> ExBurn.smoke_test().cpu
      :ok

  """
  @spec smoke_test() :: %{Device.t() => :ok | {:error, Error.t()}}
  defdelegate smoke_test, to: Device

  ## Devices

  @doc """
  The devices that can be used.

  ## Examples

      iex> hd(ExBurn.devices())
      :cpu

  """
  @spec devices() :: [Device.t()]
  defdelegate devices, to: Device, as: :list

  @doc """
  The device that is used when none is named: see `configure!/1`.

  ## Examples

      iex> ExBurn.default_device() in ExBurn.devices()
      true

  """
  @spec default_device() :: Device.t()
  defdelegate default_device, to: Device, as: :default

  @doc """
  Whether there is a device that is not the CPU.

  ## Examples

      iex> ExBurn.gpu?() == (ExBurn.devices() != [:cpu])
      true

  """
  @spec gpu?() :: boolean()
  def gpu?, do: devices() != [:cpu]

  @doc """
  What `fun` answers on the default device; where that fails with `ExBurn.Error`, on the next of `devices/0`, the CPU last.

  `fun` takes the device, or nothing; while it runs, `Nx`'s default backend makes tensors there. What failed is logged and told
  by the event `[:ex_burn, :device, :failed]` with the metadata `:device` and `:error`. The error of the last device is raised.

  ## Examples

      iex> ExBurn.try_with_fallback(fn -> Nx.to_number(Nx.add(1, 2)) end)
      3

      iex> ExBurn.try_with_fallback(fn device -> device in ExBurn.devices() end)
      true

  """
  @spec try_with_fallback((-> result) | (Device.t() -> result)) :: result when result: term()
  defdelegate try_with_fallback(fun), to: Device

  @doc """
  The maker's name of a device.
  """
  @spec device_name(Device.t()) :: String.t()
  def device_name(device \\ default_device()), do: Device.name(device)

  @doc """
  What is known of a device: see `ExBurn.Device.info/1`.

  ## Examples

      iex> ExBurn.device_info(:cpu).kind
      :cpu

  """
  @spec device_info(Device.t()) :: map()
  def device_info(device \\ default_device()), do: Device.info(device)

  @doc """
  Memory of a device in bytes: of the CPU `:total` and `:available`, `nil` where the system does not tell; of a GPU `:in_use`,
  which tensors hold there, and `:reserved`, which this process has taken for them. `ExBurn.Device.release_memory/1` gives
  back what none holds.

  ## Examples

      iex> Enum.sort(Map.keys(ExBurn.memory_info(:cpu)))
      [:available, :total]

  """
  @spec memory_info(Device.t()) :: map()
  def memory_info(device \\ default_device()), do: Device.memory(device)

  @doc """
  Sets defaults for the whole application.

  ## Options

    * `:device` - the default device
    * `:backend` - `true` makes `ExBurn.Backend` Nx's global default backend. Defaults to `false`
    * `:compiler` - `true` makes `ExBurn.Defn.Compiler` the global default compiler. Defaults to `false`

  ## Examples

      iex> ExBurn.configure!(device: :cpu)
      :ok

  """
  @spec configure!(keyword()) :: :ok
  defdelegate configure!(opts), to: ExBurn.Config, as: :set!

  ## Tensors

  @doc "A tensor of zeros: see `ExBurn.Tensor.zeros/2`."
  defdelegate zeros(shape, type), to: Tensor

  @doc "A tensor of ones: see `ExBurn.Tensor.ones/2`."
  defdelegate ones(shape, type), to: Tensor

  @doc "Random numbers from 0 to 1: see `ExBurn.Tensor.rand/2`."
  defdelegate rand(shape, type), to: Tensor

  @doc "From an `Nx.Tensor`: see `ExBurn.Tensor.from_nx/1`."
  defdelegate from_nx(tensor), to: Tensor

  @doc "To an `Nx.Tensor`: see `ExBurn.Tensor.to_nx/1`."
  defdelegate to_nx(tensor), to: Tensor

  @doc "From bytes: see `ExBurn.Tensor.from_binary/3`."
  defdelegate from_binary(binary, type, shape), to: Tensor

  @doc "Gives memory back: see `ExBurn.Tensor.free/1`."
  defdelegate free(tensor), to: Tensor

  @doc """
  Lets the next function compiled by `ExBurn.Defn.Compiler` that gets these tensors, and reads them, take their memory.

  Its results may be written over them: a training step then updates parameters in place, and a cache that grows by a row
  is not copied. They cannot be used after that, whether or not the function succeeded: that raises `ExBurn.Error`.
  `container` is a tensor of any type and shape or an `Nx.Container` of such; anything else raises as that protocol does.
  Tensors of other backends stay as they are, and so does memory that someone else sees, such as a binary
  or a view. A local pointer to a tensor ends with it: what was made over the pointer sees the results.

  ## Examples

      iex> step = Nx.Defn.jit(&Nx.add/2, compiler: ExBurn.Defn.Compiler)
      iex> sum = Nx.tensor([1, 2], backend: ExBurn.Backend)
      iex> Nx.to_list(step.(ExBurn.donate(sum), 1))
      [2, 3]
      iex> Nx.to_list(sum)
      ** (ExBurn.Error) to_binary: the tensor has been deallocated

  """
  @spec donate(Nx.Container.t()) :: Nx.Container.t()
  defdelegate donate(container), to: ExBurn.Backend

  @doc "The shape: see `ExBurn.Tensor.shape/1`."
  defdelegate tensor_shape(tensor), to: Tensor, as: :shape

  @doc "The element type: see `ExBurn.Tensor.type/1`."
  defdelegate tensor_type(tensor), to: Tensor, as: :type

  ## Models

  @doc """
  Compiles an Axon model: `%Axon{}`, or `{model, parameters}` to start from an `Axon.ModelState` or a map of tensors.

  Parameters that are not given come from the layers' initializers, and are those that `Axon.build(model, seed: seed)`
  makes. The keys of dropout and recurrent layers come from the seed as well.

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
  @spec compile(struct() | {struct(), struct() | map()}, keyword()) :: Model.t()
  defdelegate compile(model, opts \\ []), to: Model

  @doc """
  Predicts: `{:ok, tensor}`, or tuples and maps of tensors if the model answers several, or `{:error, error}`.

  `model` is an `ExBurn.Model`, or `{axon, parameters}`. The input is a tensor, or a map of tensors by name, with any number
  of samples along the first axis. Integers and smaller floats are converted as Nx would; other types are an error.

  ## Options

    * `:batch_size` - runs at most so many samples at a time, to bound memory. Defaults to all at once

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 2}) |> Axon.nx(&Nx.sum(&1, axes: [1])) |> ExBurn.compile()
      iex> {:ok, y} = ExBurn.predict(model, Nx.tensor([[1.0, 2.0], [3.0, 4.0]]))
      iex> Nx.to_list(y)
      [3.0, 7.0]
      iex> {:error, error} = ExBurn.predict(model, Nx.tensor([1.0, 2.0]))
      iex> Exception.message(error)
      "predict: input \\"x\\" has shape {2}, expected {batch, 2}"

  """
  @spec predict(Model.t() | {struct(), struct() | map()}, term(), keyword()) ::
          {:ok, Nx.Container.t()} | {:error, Error.t()}
  defdelegate predict(model, input, opts \\ []), to: Model.Predict

  @doc """
  As `predict/3`, but answers the tensor and raises the error.

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 1}) |> Axon.nx(&Nx.add(&1, 1)) |> ExBurn.compile()
      iex> model |> ExBurn.predict!(Nx.tensor([[1.0]])) |> Nx.to_list()
      [[2.0]]

  """
  @spec predict!(Model.t() | {struct(), struct() | map()}, term(), keyword()) :: Nx.Container.t()
  defdelegate predict!(model, input, opts \\ []), to: Model.Predict

  @doc """
  Trains a model on `{x, y}` or an enumerable of batches, and answers it with its new parameters.

  See `ExBurn.Training` for the data and `ExBurn.Training.fit/3` for the options.

  ## Examples

      iex> x = Nx.tensor([[0.0], [1.0], [2.0], [3.0]])
      iex> axon = Axon.input("x", shape: {nil, 1}) |> Axon.dense(1)
      iex> model = ExBurn.compile(axon, loss: :mse, optimizer: :sgd, learning_rate: 0.1)
      iex> model = ExBurn.fit(model, {x, Nx.multiply(x, 2)}, epochs: 200, batch_size: 4, verbose: false)
      iex> model |> ExBurn.predict!(Nx.tensor([[5.0]])) |> Nx.squeeze() |> Nx.to_number() |> Float.round(2)
      10.0

  """
  @spec fit(Model.t(), term(), keyword()) :: Model.t()
  defdelegate fit(model, data, opts \\ []), to: Training

  @doc """
  As `fit/3`, and answers `{model, history}`: one map for each epoch, see `ExBurn.Training.History`.

  ## Examples

      iex> x = Nx.tensor([[0.0], [1.0]])
      iex> model = Axon.input("x", shape: {nil, 1}) |> Axon.dense(1) |> ExBurn.compile(loss: :mse)
      iex> {_model, history} = ExBurn.fit_with_progress(model, {x, x}, epochs: 3, verbose: false)
      iex> Enum.map(history, & &1.epoch)
      [1, 2, 3]

  """
  @spec fit_with_progress(Model.t(), term(), keyword()) ::
          {Model.t(), ExBurn.Training.History.t()}
  defdelegate fit_with_progress(model, data, opts \\ []), to: Training

  @doc """
  One optimizer step on a batch `{x, y}`: `{loss, model}`. See `ExBurn.Training.train_step/3`.

  ## Examples

      iex> axon = Axon.input("x", shape: {nil, 1}) |> Axon.dense(1, kernel_initializer: :zeros)
      iex> model = ExBurn.compile(axon, loss: :mse)
      iex> {loss, _model} = ExBurn.train_step(model, {Nx.tensor([[1.0]]), Nx.tensor([[3.0]])})
      iex> loss
      9.0

  """
  @spec train_step(Model.t(), term(), keyword()) :: {float(), Model.t()}
  defdelegate train_step(model, batch, opts \\ []), to: Training

  @doc """
  Loss and metrics of a model over data: a map of floats. See `ExBurn.Training.evaluate/3`.

  ## Examples

      iex> axon = Axon.input("x", shape: {nil, 1}) |> Axon.dense(1, kernel_initializer: :zeros)
      iex> axon |> ExBurn.compile(loss: :mse) |> ExBurn.evaluate({Nx.tensor([[1.0]]), Nx.tensor([[3.0]])})
      %{loss: 9.0}

  """
  @spec evaluate(Model.t(), term(), keyword()) :: map()
  defdelegate evaluate(model, data, opts \\ []), to: Training

  @doc """
  The gradient of the loss on a batch by each trainable parameter. See `ExBurn.Training.compute_gradients/3`.

  ## Examples

      iex> axon = Axon.input("x", shape: {nil, 1}) |> Axon.dense(1, kernel_initializer: :zeros)
      iex> model = ExBurn.compile(axon, loss: :mse)
      iex> gradients = ExBurn.compute_gradients(model, {Nx.tensor([[1.0]]), Nx.tensor([[3.0]])})
      iex> Nx.to_list(gradients["dense_0"]["bias"])
      [-6.0]

  """
  @spec compute_gradients(Model.t(), term(), keyword()) :: %{String.t() => map()}
  defdelegate compute_gradients(model, batch, opts \\ []), to: Training

  @doc """
  How long the parts of a training step on a batch take: a map of microseconds. See `ExBurn.Training.profile_step/3`.

  ## Examples

      iex> axon = Axon.input("x", shape: {nil, 1}) |> Axon.dense(1)
      iex> times = axon |> ExBurn.compile(loss: :mse) |> ExBurn.profile_step({Nx.tensor([[1.0]]), Nx.tensor([[3.0]])})
      iex> times |> Map.keys() |> Enum.sort()
      [:backward, :forward, :optimizer]

  """
  @spec profile_step(Model.t(), term(), keyword()) :: %{atom() => float()}
  defdelegate profile_step(model, batch, opts \\ []), to: Training

  @doc """
  Lets training leave parameters as they are: `names` of layers, namespaces or tensors, one of them or a list, `:all`, or a
  function of a tensor's name.

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 2}) |> Axon.dense(3) |> Axon.dense(1) |> ExBurn.compile()
      iex> model |> ExBurn.freeze("dense_0") |> ExBurn.frozen_layers()
      ["dense_0"]
      iex> model |> ExBurn.freeze(&String.ends_with?(&1, "bias")) |> ExBurn.info() |> Map.get(:frozen)
      4
      iex> ExBurn.freeze(model, "dense_2")
      ** (ExBurn.Error) freeze: the model has no dense_2; its layers are "dense_0", "dense_1"

  """
  @spec freeze(Model.t(), Model.Freeze.names()) :: Model.t()
  defdelegate freeze(model, names), to: Model.Freeze

  @doc """
  Lets training change parameters again: the opposite of `freeze/2`.

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 2}) |> Axon.dense(3) |> Axon.dense(1) |> ExBurn.compile()
      iex> model |> ExBurn.freeze(:all) |> ExBurn.unfreeze(["dense_1"]) |> ExBurn.frozen_layers()
      ["dense_0"]

  """
  @spec unfreeze(Model.t(), Model.Freeze.names()) :: Model.t()
  defdelegate unfreeze(model, names), to: Model.Freeze

  @doc """
  Layers all of whose parameters are frozen.

  ## Examples

      iex> Axon.input("x", shape: {nil, 2}) |> Axon.dense(3) |> ExBurn.compile() |> ExBurn.frozen_layers()
      []

  """
  @spec frozen_layers(Model.t()) :: [String.t()]
  defdelegate frozen_layers(model), to: Model.Freeze

  @doc """
  A table of the model's tensors, as text.

  ## Examples

      iex> text = Axon.input("x", shape: {nil, 4}) |> Axon.dense(2) |> ExBurn.compile() |> ExBurn.summary()
      iex> String.split(text, "\\n")
      [
        "Inputs: x f32 {batch, 4}",
        "Layer    Tensor  Type  Shape   Elements",
        "dense_0  bias    f32   {2}     2",
        "dense_0  kernel  f32   {4, 2}  8",
        "Total: 10 parameters (0 frozen), 0 elements of state, 0.0 kB"
      ]

  """
  @spec summary(Model.t()) :: String.t()
  defdelegate summary(model), to: Model.Summary, as: :text

  @doc """
  What is known of a model: counts of elements in `:parameters`, `:frozen` and `:states`, `:bytes`, `:inputs`,
  `:batch_sizes` (`:any`, or a list), `:trainable?`, and the settings of `compile/2`.

  ## Examples

      iex> info = Axon.input("x", shape: {nil, 4}) |> Axon.dense(2) |> ExBurn.compile() |> ExBurn.info()
      iex> {info.parameters, info.inputs, info.batch_sizes}
      {10, %{"x" => {:f32, [nil, 4]}}, :any}

  """
  @spec info(Model.t()) :: map()
  defdelegate info(model), to: Model

  @doc """
  Parameters and states as a nested map by layer and name, as in the `:data` of an `Axon.ModelState`.

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 4}) |> Axon.dense(2) |> ExBurn.compile()
      iex> %{"dense_0" => %{"bias" => bias}} = ExBurn.parameters(model)
      iex> Nx.to_list(bias)
      [0.0, 0.0]

  """
  @spec parameters(Model.t()) :: %{String.t() => map()}
  defdelegate parameters(model), to: Model

  @doc """
  The model with some parameters or states replaced: a nested map, an `Axon.ModelState` or another model's.

  An unknown name or another shape is an `ExBurn.Error`; types are converted.

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 1}) |> Axon.dense(1) |> ExBurn.compile()
      iex> params = %{"dense_0" => %{"kernel" => Nx.tensor([[3.0]]), "bias" => Nx.tensor([1.0])}}
      iex> model |> ExBurn.update_params(params) |> ExBurn.predict!(Nx.tensor([[2.0]])) |> Nx.to_list()
      [[7.0]]

  """
  @spec update_params(Model.t(), map() | struct()) :: Model.t()
  defdelegate update_params(model, parameters), to: Model

  @doc """
  Writes a model to one file, in the safetensors format; see `ExBurn.Model.Files` for what is in it.

  The file is replaced in one step: a reader, or the next start after a crash, sees the old one or the new one. Types that
  the format lacks are an `ExBurn.Error`, and so is what the system says, with the path.

  ## Options

    * `:batch_sizes` - which batch sizes to keep programs for, when no one program serves all. Few models need it: see
      `ExBurn.Model.Forward`

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 4}) |> Axon.dense(2) |> ExBurn.compile()
      iex> path = Path.join(System.tmp_dir!(), "ex_burn_doctest.safetensors")
      iex> ExBurn.save(model, path)
      :ok
      iex> x = Nx.iota({3, 4}, type: :f32)
      iex> Nx.to_list(ExBurn.predict!(ExBurn.load(path), x)) == Nx.to_list(ExBurn.predict!(model, x))
      true
      iex> File.rm(path)
      :ok

  """
  @spec save(Model.t(), Path.t(), keyword()) :: :ok
  defdelegate save(model, path, opts \\ []), to: Model.Files

  @doc """
  Reads a model from a file. It predicts without Axon, and without the code that made it.

  Where the model answered maps with atoms as keys, the loaded one answers strings. A file that is missing, damaged or not of
  this kind is an `ExBurn.Error` with its path. To train it further, put its parameters into the Axon model again:
  `ExBurn.compile({axon, ExBurn.parameters(loaded)})`.

  ## Options

    * `:device` - where it goes. Defaults to `default_device/0`

  ## Examples

      iex> ExBurn.load("/no/such/file")
      ** (ExBurn.Error) load: /no/such/file: no such file or folder

  """
  @spec load(Path.t(), keyword()) :: Model.t()
  defdelegate load(path, opts \\ []), to: Model.Files

  @doc """
  Writes a model's parameters and states, and nothing else, to a safetensors file that other libraries read.

  `save/3` is for what `load/2` reads. Tensors are named `layer.name`.

  ## Options

    * `:layout` - `:axon`, names and axes as in Axon, or `:torch`, as PyTorch has them: see `ExBurn.Model.Layout`.
      Defaults to `:axon`

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 4}) |> Axon.dense(2) |> ExBurn.compile()
      iex> path = Path.join(System.tmp_dir!(), "ex_burn_export.safetensors")
      iex> ExBurn.export(model, path, layout: :torch)
      :ok
      iex> again = ExBurn.import_params(model, path, layout: :torch)
      iex> Nx.to_list(ExBurn.parameters(again)["dense_0"]["kernel"]) == Nx.to_list(ExBurn.parameters(model)["dense_0"]["kernel"])
      true
      iex> File.rm(path)
      :ok

  """
  @spec export(Model.t(), Path.t(), keyword()) :: :ok
  defdelegate export(model, path, opts \\ []), to: Model.Exchange

  @doc """
  The model with parameters from elsewhere: the path of a safetensors file, or a map of tensors, nested or by name.

  Names that the model does not know, missing ones and other shapes are an `ExBurn.Error` that says which are expected. Types
  are converted.

  ## Options

    * `:layout` - `:axon` or `:torch`: see `ExBurn.Model.Layout`. Defaults to `:axon`
    * `:names` - the model's names by those of the source, of tensors or of layers, or a function from one to the other
    * `:partial` - whether tensors may be missing, which then stay as they are. Defaults to `false`

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 2}) |> Axon.dense(1) |> ExBurn.compile()
      iex> torch = %{"fc.weight" => Nx.tensor([[3.0, 4.0]]), "fc.bias" => Nx.tensor([1.0])}
      iex> model = ExBurn.import_params(model, torch, layout: :torch, names: %{"fc" => "dense_0"})
      iex> model |> ExBurn.predict!(Nx.tensor([[1.0, 10.0]])) |> Nx.to_list()
      [[44.0]]
      iex> ExBurn.import_params(model, %{"dense_0.kernel" => Nx.tensor([[1.0], [2.0]])})
      ** (ExBurn.Error) import_params: dense_0.bias missing; expected are dense_0.bias, dense_0.kernel. names: can rename, partial: true takes what is there

  """
  @spec import_params(Model.t(), Path.t() | map() | struct(), keyword()) :: Model.t()
  defdelegate import_params(model, source, opts \\ []), to: Model.Exchange

  @doc """
  The model with parameters of fewer bits, `:f16`, `:bf16` or `:s8`, which predicts only: see `ExBurn.Model.Quantize`.

  It needs half the memory or a quarter, in files too, and predicts a little differently. `save/3` keeps it so.

  ## Options

    * `:batch_sizes` - as for `save/3`

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 64}) |> Axon.dense(64) |> ExBurn.compile()
      iex> small = ExBurn.quantize(model, :bf16)
      iex> {ExBurn.info(model).bytes, ExBurn.info(small).bytes}
      {16640, 8320}
      iex> ExBurn.quantize(model, :s4)
      ** (ExBurn.Error) quantize: type: is :s4, expected :f16, :bf16 or :s8

  """
  @spec quantize(Model.t(), :f16 | :bf16 | :s8, keyword()) :: Model.t()
  defdelegate quantize(model, type, opts \\ []), to: Model.Quantize

  @doc """
  The model on another device.

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 2}) |> Axon.dense(1) |> ExBurn.compile()
      iex> ExBurn.to_device(model, :cpu).device
      :cpu

  """
  @spec to_device(Model.t(), Device.t()) :: Model.t()
  defdelegate to_device(model, device), to: Model

  ## To look into things

  @doc """
  The program of a function for arguments of these types, as text: what runs, after all passes.

  The options are those of `ExBurn.Defn.Compiler`, so `passes: [fusion: false]` shows the program without that pass.
  Fused operations carry the names of the patterns that were found, which `ExBurn.Fusion.found/3` lists.

  `fused` is one operation made of those in the program below it. They run together, block by block, so what lies between
  them never becomes a tensor. `shape` is that of the elements they run over, of which the last `row_axes` axes are a row
  that a fold such as `sum` makes one element of. `extents` say how much each operand holds: the `whole` shape, one element
  for each `row`, or `one` in all. `patterns` name what the operations compute: see `ExBurn.Fusion`.

  ## Examples

      iex> fun = fn x -> Nx.sum(Nx.exp(Nx.add(x, 1)), axes: [1]) end
      iex> text = ExBurn.explain(fun, [Nx.template({2, 3}, :f32)])
      iex> String.split(text, "\\n", trim: true)
      [
        "program(%0: f32[2,3])",
        "  %1: f32[2] = fused(%0) {extents: [whole], patterns: [elementwise], row_axes: 1, shape: [2,3]}",
        "    program(%0: f32[2,3])",
        "      %1: s32[] = constant() {1}",
        "      %2: f32[2,3] = add(%1, %0)",
        "      %3: f32[2,3] = exp(%2)",
        "      %4: f32[2] = sum(%3) {axes: [1], keep_axes: false}",
        "      return %4",
        "  return %1"
      ]
      iex> text = ExBurn.explain(fun, [Nx.template({2, 3}, :f32)], fusion: false)
      iex> String.split(text, "\\n", trim: true)
      [
        "program(%0: f32[2,3])",
        "  %1: s32[] = constant() {1}",
        "  %2: f32[2,3] = add(%1, %0)",
        "  %3: f32[2,3] = exp(%2)",
        "  %4: f32[2] = sum(%3) {axes: [1], keep_axes: false}",
        "  return %4"
      ]

  """
  @spec explain(function(), [Nx.Container.t()], keyword()) :: String.t()
  defdelegate explain(fun, args, opts \\ []), to: ExBurn.Defn.Compiler

  @doc """
  Times a matrix multiplication: milliseconds of the best run and billions of operations a second.

  ## Options

    * `:size` - length of the sides of the square `f32` matrices. Defaults to 512
    * `:runs` - how often to multiply. Defaults to 5

  ## Examples

      iex> result = ExBurn.benchmark(size: 64)
      iex> {result.device, result.time_ms > 0, result.gflops > 0}
      {:cpu, true, true}

  """
  @spec benchmark(keyword()) :: %{time_ms: float(), gflops: float(), device: Device.t()}
  defdelegate benchmark(opts \\ []), to: ExBurn.Benchmark, as: :run
end
