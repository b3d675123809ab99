defmodule ExBurn.Device do
  @moduledoc """
  Which devices there are and which one is used.

  A device is named by its kind, `:cpu`, or by kind and index, `{:cpu, 0}`. The default is the first of `list/0` unless
  `config :ex_burn, device: …` or `ExBurn.configure!/1` says otherwise.
  """

  alias ExBurn.{Error, NIF}

  @kinds %{"cpu" => :cpu}

  @type t :: :cpu | {:cpu, non_neg_integer()}

  @doc """
  The devices that this build of the native part can use on this machine.

  ## Examples

      iex> ExBurn.Device.list()
      [:cpu]

  """
  @spec list() :: [t()]
  def list, do: Enum.map(NIF.device_names(), &Map.fetch!(@kinds, &1))

  @doc """
  The device that is used when none is named.

  ## Examples

      iex> ExBurn.Device.default()
      :cpu

  """
  @spec default() :: t()
  def default, do: validate!(Application.get_env(:ex_burn, :device, hd(list())))

  @doc """
  The device, in its short form, or `ExBurn.Error` if there is none of this name.

  ## Examples

      iex> ExBurn.Device.validate!({:cpu, 0})
      :cpu

      iex> ExBurn.Device.validate!(:tpu)
      ** (ExBurn.Error) device: there is no device :tpu; devices are [:cpu]

  """
  @spec validate!(term()) :: t()
  def validate!({kind, 0}), do: validate!(kind)

  def validate!(device) do
    if device in list() do
      device
    else
      raise Error,
        op: :device,
        reason: "there is no device #{inspect(device)}; devices are #{inspect(list())}"
    end
  end

  @doc """
  The maker's name of a device.
  """
  @spec name(t()) :: String.t()
  def name(device \\ default()) do
    validate!(device)
    cpu_model() || List.to_string(:erlang.system_info(:system_architecture))
  end

  defp cpu_model do
    with {:ok, text} <- File.read("/proc/cpuinfo"),
         [_, name] <- Regex.run(~r/^model name\s*:\s*(.+)$/m, text) do
      String.trim(name)
    else
      _ -> nil
    end
  end

  @doc """
  What is known of a device: `:kind`, `:index`, `:name`, and `:cores`, how many of them the VM uses.

  ## Examples

      iex> ExBurn.Device.info(:cpu).kind
      :cpu

  """
  @spec info(t()) :: map()
  def info(device \\ default()) do
    kind = validate!(device)
    %{kind: kind, index: 0, name: name(kind), cores: System.schedulers_online()}
  end

  @doc """
  Memory of a device in bytes: `:total` and `:available`, or `nil` where the system does not tell.

  ## Examples

      iex> Enum.sort(Map.keys(ExBurn.Device.memory(:cpu)))
      [:available, :total]

  """
  @spec memory(t()) :: %{total: pos_integer() | nil, available: non_neg_integer() | nil}
  def memory(device \\ default()) do
    validate!(device)

    text =
      case File.read("/proc/meminfo") do
        {:ok, text} -> text
        {:error, _} -> ""
      end

    %{total: kilobytes(text, "MemTotal"), available: kilobytes(text, "MemAvailable")}
  end

  defp kilobytes(text, key) do
    case Regex.run(~r/^#{key}:\s*(\d+) kB$/m, text) do
      [_, number] -> String.to_integer(number) * 1024
      nil -> nil
    end
  end

  @doc """
  Multiplies and sums on each device and compares with the known answer.

  ## Examples

      iex> ExBurn.Device.smoke_test()
      %{cpu: :ok}

  """
  @spec smoke_test() :: %{t() => :ok | {:error, Error.t()}}
  def smoke_test, do: Map.new(list(), &{&1, smoke_test(&1)})

  # [[1, 2], [3, 4]] times itself is [[7, 10], [15, 22]].
  defp smoke_test(_device) do
    f32 = fn numbers -> for n <- numbers, into: <<>>, do: <<n::float-32-native>> end
    square = {:f32, [2, 2]}

    dot = {:dot, %{lhs_contract: [1], lhs_batch: [], rhs_contract: [0], rhs_batch: []}}
    sum = {:reduce, %{fold: :sum, axes: nil, keep_axes: false}}

    with {:ok, matrix} <- NIF.tensor_from_binary(square, f32.([1, 2, 3, 4])),
         {:ok, [product]} <- NIF.instruction_run(dot, [matrix, matrix], [square]),
         {:ok, [total]} <- NIF.instruction_run(sum, [product], [{:f32, []}]),
         {:ok, product} <- NIF.tensor_to_binary(product, 4),
         {:ok, total} <- NIF.tensor_to_binary(total, 1) do
      if product == f32.([7, 10, 15, 22]) and total == f32.([54]),
        do: :ok,
        else: {:error, %Error{op: :smoke_test, reason: "the device computes wrong results"}}
    else
      {:error, error} -> {:error, Error.from_native(error)}
    end
  end
end
