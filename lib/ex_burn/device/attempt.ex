defmodule ExBurn.Device.Attempt do
  @moduledoc """
  Work that goes on elsewhere when a device fails.
  """

  require Logger

  alias ExBurn.{Device, Error}

  @doc """
  What `fun` answers on the default device; where that fails with `ExBurn.Error`, or isn't there, on the next of `devices/0`, the
  CPU last.

  `fun` takes the device, or nothing; while it runs, that is the default device of the calling process, where `Nx`'s default
  backend makes tensors, a `defn` runs and a model trains that don't name another. What failed is logged and told
  by the event `[:ex_burn, :device, :failed]` with the metadata `:device` and `:error`. The error of the last device is raised.

  ## Examples

      iex> ExBurn.try_with_fallback(fn -> Nx.to_number(Nx.add(1, 2)) end)
      3

      iex> ExBurn.try_with_fallback(fn device -> device in ExBurn.devices() end)
      true

  """
  @spec try_with_fallback((-> result) | (Device.t() -> result)) :: result when result: term()
  def try_with_fallback(fun) when is_function(fun, 0) or is_function(fun, 1) do
    default = default()
    # The CPU is the last to be asked.
    others = for device <- tl(Device.list()) ++ [:cpu], device != default, do: device
    attempt(fun, List.wrap(default) ++ others)
  end

  # `nil`, which is told, where there is no device of the configured name.
  defp default do
    Device.default()
  rescue
    error in Error ->
      failed(Device.wanted(), error)
      nil
  end

  defp attempt(fun, [device | others]) do
    run = fn ->
      Nx.with_default_backend({ExBurn.Backend, device: device}, fn -> on(fun, device) end)
    end

    Device.with_default(device, run)
  rescue
    error in Error ->
      if others == [], do: reraise(error, __STACKTRACE__)
      failed(device, error)
      attempt(fun, others)
  end

  defp on(fun, _device) when is_function(fun, 0), do: fun.()
  defp on(fun, device), do: fun.(device)

  defp failed(device, error) do
    Logger.warning(
      "#{inspect(device)} failed, trying the next device: #{Exception.message(error)}"
    )

    :telemetry.execute([:ex_burn, :device, :failed], %{}, %{device: device, error: error})
  end
end
