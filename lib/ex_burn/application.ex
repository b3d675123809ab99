defmodule ExBurn.Application do
  @moduledoc false

  use Application

  alias ExBurn.Defn.{Cache, Recompilation}
  alias ExBurn.{Error, Fallback, NIF}

  @impl true
  def start(_type, _args) do
    set_threads!(Application.get_env(:ex_burn, :threads))
    set_fallback!(Application.get_env(:ex_burn, :fallback, :cpu))
    size = cache_size!(Application.get_env(:ex_burn, :cache_size, 1024))

    children = [
      {Cache, size: size},
      {Cache, name: Cache.programs(), size: size},
      Recompilation
    ]

    Supervisor.start_link(children, strategy: :one_for_one, name: ExBurn.Supervisor)
  end

  defp set_threads!(nil), do: :ok

  defp set_threads!(count) when is_integer(count) and count > 0 do
    count |> NIF.set_threads() |> Error.unwrap!()
    :ok
  end

  defp set_threads!(other) do
    raise ArgumentError,
          "config :ex_burn, threads: is #{inspect(other)}, expected a number of threads such as 4"
  end

  defp set_fallback!(policy) when policy in [:cpu, :raise], do: Fallback.set!(policy)

  defp set_fallback!(other) do
    raise ArgumentError,
          "config :ex_burn, fallback: is #{inspect(other)}, expected :cpu or :raise"
  end

  defp cache_size!(size) when is_integer(size) and size >= 0, do: size

  defp cache_size!(other) do
    raise ArgumentError,
          "config :ex_burn, cache_size: is #{inspect(other)}, expected a number of functions such as 1024"
  end
end
