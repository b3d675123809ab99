defmodule ExBurn.Device do
  @moduledoc """
  Which devices there are and which one is used.

  A device is named by its kind and its number among its kind: `:cpu`, which is `{:cpu, 0}`, and for GPUs `{:vulkan, 0}`, or
  `{:metal, 0}` on macOS. `:gpu` is the first GPU. Where the native part was built with the feature `cuda`, an NVIDIA GPU is
  `{:cuda, 0}` as well, which comes before `{:vulkan, 0}`.

  The default is `:cpu`. `config :ex_burn, device: :gpu`, the environment variable `EX_BURN_DEVICE=gpu`, which comes before it, and
  `ExBurn.configure!(device: :gpu)`, which comes before both, say otherwise; `:auto` is the first GPU where there is one that
  computes right, else the CPU.

  ## GPUs

  A GPU is used only after it passed a test in an operating system process of its own, since a broken driver takes down the
  process that it is loaded in: see `ExBurn.Device.Probe`. Graphics drivers that compute on the CPU do not count as GPUs, unless
  `config :ex_burn, software_gpu: true` or the environment variable `EX_BURN_SOFTWARE_GPU=1` asks for them. Where there is
  no display, a layer of Mesa's complains of `XDG_RUNTIME_DIR`; `NODEVICE_SELECT=1` in the environment leaves it out.

  Numbers of up to 32 bits, and `c64`, live in the memory of the GPU, each in 32 bits for a part; numbers of 64 bits stay in the
  host's. What a GPU has no kernel for runs on the CPU: each time is counted, see `ExBurn.Telemetry`. With
  `config :ex_burn, fallback: :raise` it raises `ExBurn.Error` instead.

  Results are those of the CPU but for rounding, with two exceptions. An index outside of a tensor, which raises on the CPU, is
  held within it, since a GPU raises no error. And numbers nearer to 0 than 2^-126 (1.2e-38) are moved, compared and chosen as
  they are, but arithmetic and functions may take them, and answers as small, for 0, as graphics processors do. What drivers'
  compilers make of formulas, as `x` of `(x + y) - y`, changes nothing: all other sums, differences, products and quotients of
  `f32` are those of IEEE 754, one by one.
  """

  alias ExBurn.Device.{Memory, Missing, Probe, SmokeTest}
  alias ExBurn.{Error, NIF, Type}

  @kinds %{"cpu" => :cpu, "cuda" => :cuda, "vulkan" => :vulkan, "metal" => :metal}

  @type t :: :cpu | {:cuda | :vulkan | :metal, non_neg_integer()}

  @typedoc "What options take for a device."
  @type name :: t() | :auto | :gpu | :cuda | :vulkan | :metal | {:cpu, 0}

  @doc """
  The devices that this build of the native part can use on this machine, the CPU first.

  ## Examples

      iex> hd(ExBurn.Device.list())
      :cpu

  """
  @spec list() :: [t()]
  def list, do: [:cpu | Enum.map(gpus(), & &1.device)]

  # What is known of the GPUs that may be used.
  defp gpus do
    case :persistent_term.get(__MODULE__, nil) do
      nil ->
        gpus = find()
        :persistent_term.put(__MODULE__, gpus)
        gpus

      gpus ->
        gpus
    end
  end

  defp find do
    software? = software_gpu?()

    case Probe.verdicts(software?) do
      {:ok, verdicts} ->
        find(software?, for({gpu, reason} when reason != :ok <- verdicts, do: gpu))

      {:error, _reason} ->
        []
    end
  end

  defp find(software?, refused) do
    for {kind, index, name, software?, largest} <- Error.unwrap!(NIF.devices(software?, refused)),
        kind != "cpu",
        device = {Map.fetch!(@kinds, kind), index},
        do: %{device: device, name: name, largest: largest, software: software?}
  end

  defp software_gpu? do
    Application.get_env(:ex_burn, :software_gpu, false) or
      System.get_env("EX_BURN_SOFTWARE_GPU") == "1"
  end

  @doc false
  @spec forget() :: boolean()
  def forget, do: :persistent_term.erase(__MODULE__)

  @doc """
  The device that is used when none is named.

  ## Examples

      iex> ExBurn.Device.default() in ExBurn.Device.list()
      true

  """
  @spec default() :: t()
  def default, do: Process.get(__MODULE__) || configured()

  @doc false
  # The answer of `fun`, with another default device of this process.
  @spec with_default(t(), (-> result)) :: result when result: term()
  def with_default(device, fun) do
    before = Process.put(__MODULE__, device)

    try do
      fun.()
    after
      if before, do: Process.put(__MODULE__, before), else: Process.delete(__MODULE__)
    end
  end

  defp configured, do: Application.get_env(:ex_burn, :chosen_device) || validate!(wanted())

  @doc false
  # What the environment or the configuration call the default device, whether or not there is one of that name.
  @spec wanted() :: term()
  def wanted do
    case System.get_env("EX_BURN_DEVICE", "") do
      "" -> Application.get_env(:ex_burn, :device, :cpu)
      text -> parse(text)
    end
  end

  @doc false
  @spec choose!(name()) :: :ok
  def choose!(name), do: Application.put_env(:ex_burn, :chosen_device, validate!(name))

  # `vulkan` or `vulkan:1`.
  defp parse(text) do
    with [_, kind, index] <- Regex.run(~r/^(\w+):(\d+)$/, text),
         {:ok, kind} <- Map.fetch(@kinds, kind) do
      {kind, String.to_integer(index)}
    else
      _ ->
        Enum.find(
          [:auto, :cpu, :gpu, :cuda, :vulkan, :metal],
          text,
          &(Atom.to_string(&1) == text)
        )
    end
  end

  @doc """
  The device of this name, in its short form, or `ExBurn.Error` if there is none.

  ## Examples

      iex> ExBurn.Device.validate!({:cpu, 0})
      :cpu

      iex> try do
      ...>   ExBurn.Device.validate!(:abacus)
      ...> rescue
      ...>   error in ExBurn.Error -> error.op
      ...> end
      :device

  """
  @spec validate!(term()) :: t()
  def validate!(:cpu), do: :cpu
  def validate!({:cpu, 0}), do: :cpu
  def validate!(:auto), do: List.first(Enum.map(gpus(), & &1.device), :cpu)

  def validate!(name) do
    case Enum.find(gpus(), &named?(&1.device, name)) do
      nil -> raise Error, op: :device, reason: Missing.reason(name, list(), software_gpu?())
      gpu -> gpu.device
    end
  end

  defp named?(_device, :gpu), do: true
  defp named?({kind, 0}, kind), do: true
  defp named?(device, name), do: device == name

  @doc """
  The maker's name of a device.
  """
  @spec name(name()) :: String.t()
  def name(device \\ default()) do
    case validate!(device) do
      :cpu -> cpu_model() || List.to_string(:erlang.system_info(:system_architecture))
      gpu -> known(gpu).name
    end
  end

  defp known(gpu), do: Enum.find(gpus(), &(&1.device == gpu))

  defp cpu_model do
    with {:ok, text} <- File.read("/proc/cpuinfo"),
         [_, name] <- Regex.run(~r/^model name\s*:\s*(.+)$/m, text) do
      String.trim(name)
    else
      _ -> nil
    end
  end

  @doc """
  What is known of a device: `:kind`, `:index`, `:name`; of the CPU `:cores`, how many of them the VM uses; of a GPU
  `:software`, whether the CPU plays it, `:largest`, the most bytes that one tensor may have, and `:types`, how the elements of
  each type are held: as which type of 32 bits, or on the `:cpu`.

  ## Examples

      iex> ExBurn.Device.info(:cpu).kind
      :cpu

  """
  @spec info(name()) :: map()
  def info(device \\ default()) do
    case validate!(device) do
      :cpu ->
        %{kind: :cpu, index: 0, name: name(:cpu), cores: System.schedulers_online()}

      {kind, index} = gpu ->
        gpu
        |> known()
        |> Map.take([:name, :largest, :software])
        |> Map.merge(%{kind: kind, index: index, types: types()})
    end
  end

  defp types do
    Map.new(Type.all(), fn
      {:c, 64} = type -> {type, {:c, 64}}
      {_, bits} = type when bits > 32 -> {type, :cpu}
      {class, _} = type when class in [:u, :s] -> {type, {class, 32}}
      type -> {type, {:f, 32}}
    end)
  end

  @doc """
  Memory of a device in bytes.

  Of the CPU `:total` and `:available`, or `nil` where the system does not tell. Of a GPU `:in_use`, which tensors hold there,
  and `:reserved`, which this process has taken for them and keeps for those to come, see `release_memory/1`.

  ## Examples

      iex> Enum.sort(Map.keys(ExBurn.Device.memory(:cpu)))
      [:available, :total]

  """
  @spec memory(name()) ::
          %{total: pos_integer() | nil, available: non_neg_integer() | nil}
          | %{in_use: non_neg_integer(), reserved: non_neg_integer()}
  def memory(device \\ default()), do: device |> validate!() |> Memory.read(false)

  @doc """
  Gives memory of a GPU back to the system that no tensor holds, as far as it lies apart from what tensors hold, and answers
  what is left as `memory/1` does. The CPU's memory is given back by itself.

  ## Examples

      iex> Enum.sort(Map.keys(ExBurn.Device.release_memory(:cpu)))
      [:available, :total]

  """
  @spec release_memory(name()) :: map()
  def release_memory(device \\ default()), do: device |> validate!() |> Memory.read(true)

  @doc """
  Multiplies and sums on each device and compares with the known answer.

  ## Examples

      iex> ExBurn.Device.smoke_test().cpu
      :ok

  """
  @spec smoke_test() :: %{t() => :ok | {:error, Error.t()}}
  def smoke_test, do: Map.new(list(), &{&1, SmokeTest.run(&1)})

  @doc false
  @spec parts(t()) :: {String.t(), non_neg_integer()}
  def parts(:cpu), do: {"cpu", 0}
  def parts({kind, index}), do: {Atom.to_string(kind), index}
end
