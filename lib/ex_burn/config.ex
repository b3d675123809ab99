defmodule ExBurn.Config do
  @moduledoc """
  Defaults of the application.
  """

  alias ExBurn.{Backend, Device, Fallback, Options}

  @doc """
  Sets defaults for the whole application.

  ## Options

    * `:device` - the default device, see `ExBurn.Device`; it comes before `EX_BURN_DEVICE`. Defaults to the one it was
    * `:backend` - `true` makes `ExBurn.Backend` Nx's global default backend. Defaults to `false`
    * `:compiler` - `true` makes `ExBurn.Defn.Compiler` the global default compiler. Defaults to `false`
    * `:fallback` - what happens where a GPU has no kernel: `:cpu` computes there, `:raise` raises `ExBurn.Error`. Defaults to
      what it was, `:cpu` at first

  ## Examples

      iex> ExBurn.configure!(device: :cpu)
      :ok

  """
  @spec set!(keyword()) :: :ok
  def set!(opts) do
    defaults = [
      device: nil,
      backend: false,
      compiler: false,
      fallback: Application.get_env(:ex_burn, :fallback, :cpu)
    ]

    opts = Options.validate!(:configure!, opts, defaults)

    for name <- [:backend, :compiler] do
      Options.check!(is_boolean(opts[name]), :configure!, name, opts[name], "true or false")
    end

    fallbacks = ":cpu or :raise"

    Options.check!(
      opts[:fallback] in [:cpu, :raise],
      :configure!,
      :fallback,
      opts[:fallback],
      fallbacks
    )

    if opts[:device], do: Device.choose!(opts[:device])
    Fallback.set!(opts[:fallback])
    if opts[:backend], do: Nx.global_default_backend({Backend, device: Device.default()})
    if opts[:compiler], do: Nx.Defn.global_default_options(compiler: ExBurn.Defn.Compiler)
    :ok
  end
end
