defmodule ExBurn.Application do
  @moduledoc false

  use Application

  alias ExBurn.Defn.{Cache, Recompilation}

  @impl true
  def start(_type, _args) do
    size = Application.get_env(:ex_burn, :cache_size, 1024)

    children = [
      {Cache, size: size},
      {Cache, name: Cache.programs(), size: size},
      Recompilation
    ]

    Supervisor.start_link(children, strategy: :one_for_one, name: ExBurn.Supervisor)
  end
end
