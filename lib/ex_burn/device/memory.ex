defmodule ExBurn.Device.Memory do
  @moduledoc false

  # Memory of devices, in bytes.

  alias ExBurn.{Device, Error, NIF}

  @doc """
  As `ExBurn.Device.memory/1` says; a GPU gives back what it can before if `release?`.
  """
  @spec read(Device.t(), boolean()) :: map()
  def read(:cpu, _release?) do
    text =
      case File.read("/proc/meminfo") do
        {:ok, text} -> text
        _ -> ""
      end

    %{total: kilobytes(text, "MemTotal"), available: kilobytes(text, "MemAvailable")}
  end

  def read(gpu, release?) do
    {kind, index} = Device.parts(gpu)
    {in_use, reserved} = Error.unwrap!(NIF.device_memory(kind, index, release?))
    %{in_use: in_use, reserved: reserved}
  end

  defp kilobytes(text, key) do
    case Regex.run(~r/^#{key}:\s*(\d+) kB$/m, text) do
      [_, number] -> String.to_integer(number) * 1024
      nil -> nil
    end
  end
end
