defmodule ExBurn.Application do
  @moduledoc false

  use Application

  @impl true
  def start(_type, _args) do
    children = [{ExBurn.Defn.Cache, size: Application.get_env(:ex_burn, :cache_size, 1024)}]
    Supervisor.start_link(children, strategy: :one_for_one, name: ExBurn.Supervisor)
  end
end
