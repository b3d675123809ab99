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
  def available?, do: nif_loaded?() and Device.SmokeTest.run(default_device()) == :ok

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
  A small multiplication and a sum on each device, compared with the known answer. See `ExBurn.Device.smoke_test/0`.
  """
  @spec smoke_test() :: %{Device.t() => :ok | {:error, Error.t()}}
  defdelegate smoke_test, to: Device

  ## Devices

  @doc "The devices that can be used. See `ExBurn.Device.list/0`."
  @spec devices() :: [Device.t()]
  defdelegate devices, to: Device, as: :list

  @doc "The device that is used when none is named: see `configure!/1` and `ExBurn.Device`."
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
  What `fun` answers on the default device; where that fails with `ExBurn.Error`, or isn't there, on the next of `devices/0`, the
  CPU last. See `ExBurn.Device.Attempt.try_with_fallback/1`.
  """
  @spec try_with_fallback((-> result) | (Device.t() -> result)) :: result when result: term()
  defdelegate try_with_fallback(fun), to: Device.Attempt

  @doc "The maker's name of a device."
  @spec device_name(Device.t()) :: String.t()
  def device_name(device \\ default_device()), do: Device.name(device)

  @doc "What is known of a device. See `ExBurn.Device.info/1`."
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

  @doc "Sets defaults for the whole application. See `ExBurn.Config.set!/1`."
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
  See `ExBurn.Donation.donate/1`.
  """
  @spec donate(Nx.Container.t()) :: Nx.Container.t()
  defdelegate donate(container), to: ExBurn.Donation

  @doc "The shape: see `ExBurn.Tensor.shape/1`."
  defdelegate tensor_shape(tensor), to: Tensor, as: :shape

  @doc "The element type: see `ExBurn.Tensor.type/1`."
  defdelegate tensor_type(tensor), to: Tensor, as: :type

  ## Models

  @doc """
  Compiles an Axon model: `%Axon{}`, or `{model, parameters}` to start from an `Axon.ModelState` or a map of tensors.
  See `ExBurn.Model.compile/2`.
  """
  @spec compile(struct() | {struct(), struct() | map()}, keyword()) :: Model.t()
  defdelegate compile(model, opts \\ []), to: Model

  @doc """
  Predicts: `{:ok, tensor}`, or tuples and maps of tensors if the model answers several, or `{:error, error}`. See
  `ExBurn.Model.Predict.predict/3`.
  """
  @spec predict(Model.t() | {struct(), struct() | map()}, term(), keyword()) ::
          {:ok, Nx.Container.t()} | {:error, Error.t()}
  defdelegate predict(model, input, opts \\ []), to: Model.Predict

  @doc "As `predict/3`, but answers the tensor and raises the error. See `ExBurn.Model.Predict.predict!/3`."
  @spec predict!(Model.t() | {struct(), struct() | map()}, term(), keyword()) :: Nx.Container.t()
  defdelegate predict!(model, input, opts \\ []), to: Model.Predict

  @doc """
  Trains a model on `{x, y}` or an enumerable of batches, and answers it with its new parameters. See
  `ExBurn.Training.fit/3`.
  """
  @spec fit(Model.t(), term(), keyword()) :: Model.t()
  defdelegate fit(model, data, opts \\ []), to: Training

  @doc """
  As `fit/3`, and answers `{model, history}`: one map for each epoch. See `ExBurn.Training.fit_with_progress/3`.
  """
  @spec fit_with_progress(Model.t(), term(), keyword()) ::
          {Model.t(), ExBurn.Training.History.t()}
  defdelegate fit_with_progress(model, data, opts \\ []), to: Training

  @doc "One optimizer step on a batch `{x, y}`: `{loss, model}`. See `ExBurn.Training.train_step/3`."
  @spec train_step(Model.t(), term(), keyword()) :: {float(), Model.t()}
  defdelegate train_step(model, batch, opts \\ []), to: Training

  @doc "Loss and metrics of a model over data: a map of floats. See `ExBurn.Training.evaluate/3`."
  @spec evaluate(Model.t(), term(), keyword()) :: map()
  defdelegate evaluate(model, data, opts \\ []), to: Training

  @doc "The gradient of the loss on a batch by each trainable parameter. See `ExBurn.Training.compute_gradients/3`."
  @spec compute_gradients(Model.t(), term(), keyword()) :: %{String.t() => map()}
  defdelegate compute_gradients(model, batch, opts \\ []), to: Training

  @doc """
  How long the parts of a training step on a batch take: a map of microseconds. See `ExBurn.Training.profile_step/3`.
  """
  @spec profile_step(Model.t(), term(), keyword()) :: %{atom() => float()}
  defdelegate profile_step(model, batch, opts \\ []), to: Training

  @doc """
  Lets training leave parameters as they are: `names` of layers, namespaces or tensors, one of them or a list, `:all`,
  or a function of a tensor's name. See `ExBurn.Model.Freeze.freeze/2`.
  """
  @spec freeze(Model.t(), Model.Freeze.names()) :: Model.t()
  defdelegate freeze(model, names), to: Model.Freeze

  @doc "Lets training change parameters again: the opposite of `freeze/2`. See `ExBurn.Model.Freeze.unfreeze/2`."
  @spec unfreeze(Model.t(), Model.Freeze.names()) :: Model.t()
  defdelegate unfreeze(model, names), to: Model.Freeze

  @doc "Layers all of whose parameters are frozen. See `ExBurn.Model.Freeze.frozen_layers/1`."
  @spec frozen_layers(Model.t()) :: [String.t()]
  defdelegate frozen_layers(model), to: Model.Freeze

  @doc "A table of the model's tensors, as text. See `ExBurn.Model.Summary.text/1`."
  @spec summary(Model.t()) :: String.t()
  defdelegate summary(model), to: Model.Summary, as: :text

  @doc """
  What is known of a model: counts of elements in `:parameters`, `:frozen` and `:states`, `:bytes`, `:inputs`,
  `:batch_sizes` (`:any`, or a list), `:trainable?`, and the settings of `compile/2`. See `ExBurn.Model.info/1`.
  """
  @spec info(Model.t()) :: map()
  defdelegate info(model), to: Model

  @doc """
  Parameters and states as a nested map by layer and name, as in the `:data` of an `Axon.ModelState`. See
  `ExBurn.Model.parameters/1`.
  """
  @spec parameters(Model.t()) :: %{String.t() => map()}
  defdelegate parameters(model), to: Model

  @doc """
  The model with some parameters or states replaced: a nested map, an `Axon.ModelState` or another model's. See
  `ExBurn.Model.update_params/2`.
  """
  @spec update_params(Model.t(), map() | struct()) :: Model.t()
  defdelegate update_params(model, parameters), to: Model

  @doc "Writes a model to one file, in the safetensors format; see `ExBurn.Model.Files` for what is in it."
  @spec save(Model.t(), Path.t(), keyword()) :: :ok
  defdelegate save(model, path, opts \\ []), to: Model.Files

  @doc """
  Reads a model from a file. It predicts without Axon, and without the code that made it. See
  `ExBurn.Model.Files.load/2`.
  """
  @spec load(Path.t(), keyword()) :: Model.t()
  defdelegate load(path, opts \\ []), to: Model.Files

  @doc """
  Writes a model's parameters and states, and nothing else, to a safetensors file that other libraries read. See
  `ExBurn.Model.Exchange.export/3`.
  """
  @spec export(Model.t(), Path.t(), keyword()) :: :ok
  defdelegate export(model, path, opts \\ []), to: Model.Exchange

  @doc """
  The model with parameters from elsewhere: the path of a safetensors file, or a map of tensors, nested or by name.
  See `ExBurn.Model.Exchange.import_params/3`.
  """
  @spec import_params(Model.t(), Path.t() | map() | struct(), keyword()) :: Model.t()
  defdelegate import_params(model, source, opts \\ []), to: Model.Exchange

  @doc """
  The model with parameters of fewer bits, `:f16`, `:bf16` or `:s8`, which predicts only: see `ExBurn.Model.Quantize`.
  """
  @spec quantize(Model.t(), :f16 | :bf16 | :s8, keyword()) :: Model.t()
  defdelegate quantize(model, type, opts \\ []), to: Model.Quantize

  @doc "The model on another device. See `ExBurn.Model.to_device/2`."
  @spec to_device(Model.t(), Device.t()) :: Model.t()
  defdelegate to_device(model, device), to: Model

  ## To look into things

  @doc """
  The program of a function for arguments of these types, as text: what runs, after all passes. See
  `ExBurn.Defn.Compiler.explain/3`.
  """
  @spec explain(function(), [Nx.Container.t()], keyword()) :: String.t()
  defdelegate explain(fun, args, opts \\ []), to: ExBurn.Defn.Compiler

  @doc "Times a matrix multiplication on the default device. See `ExBurn.Benchmark.run/1`."
  @spec benchmark(keyword()) :: %{time_ms: float(), gflops: float(), device: Device.t()}
  defdelegate benchmark(opts \\ []), to: ExBurn.Benchmark, as: :run
end
