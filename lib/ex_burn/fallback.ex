defmodule ExBurn.Fallback do
  @moduledoc false

  alias ExBurn.NIF

  @doc """
  Tells what ran on the CPU because `device` has no kernel for it, as events `[:ex_burn, :fallback]`: see `ExBurn.Telemetry`.
  """
  @spec report(ExBurn.Device.t()) :: :ok
  def report(:cpu), do: :ok

  def report(device) do
    for {op, type, count} <- NIF.fallbacks() do
      metadata = %{op: op, type: type, device: device}
      :telemetry.execute([:ex_burn, :fallback], %{count: count}, metadata)
    end

    :ok
  end

  @doc """
  Sets what happens then: `:cpu`, or `:raise` for an error.
  """
  @spec set!(:cpu | :raise) :: :ok
  def set!(policy) when policy in [:cpu, :raise] do
    Application.put_env(:ex_burn, :fallback, policy)
    {:ok, _} = NIF.refuse_fallbacks(policy == :raise)
    :ok
  end
end
