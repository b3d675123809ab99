defmodule ExBurn.DepsFolder do
  @moduledoc """
  Takes the Hex dependencies from a folder of checkouts, so that Hex isn't needed.

  For builds without a network and for work against unreleased versions. The folder holds one
  Mix or rebar project per dependency, under the dependency's name: `nx/`, `axon/`,
  `telemetry/` …; a name may be a symbolic link. It is named by the environment variable
  `EX_BURN_DEPS`; an empty value says "use Hex". Without the variable, `~/.cache/ex_burn/deps` is
  used if that folder exists and Hex isn't installed.

  The module is a `Mix.SCM`, the thing through which Mix gets and checks dependencies. Mix asks
  every SCM whether a dependency is its own, also for the dependencies of dependencies. This one
  takes all that don't name a source of their own (`:path`, `:git` …). Nothing is fetched, locked
  or written in the folder: the checkouts are compiled into this project's `_build`.
  """

  @behaviour Mix.SCM

  @own_source [:path, :in_umbrella, :git, :github]

  @doc """
  Makes Mix use the folder, if there is one to use.

  Raises `Mix.Error` if `EX_BURN_DEPS` names something that isn't a folder.
  """
  @spec activate() :: :ok
  def activate do
    if folder() && __MODULE__ not in Mix.SCM.available() do
      use_installed_rebar()
      Mix.SCM.prepend(__MODULE__)
    end

    :ok
  end

  @doc """
  The folder that dependencies are taken from, or `nil` where Hex is to be used.
  """
  @spec folder() :: Path.t() | nil
  def folder do
    case System.get_env("EX_BURN_DEPS") do
      nil -> default_folder()
      "" -> nil
      path -> existing!(Path.expand(path))
    end
  end

  defp default_folder do
    path = :filename.basedir(:user_cache, "ex_burn/deps", %{os: :linux})
    if File.dir?(path) and not Code.ensure_loaded?(Hex), do: path
  end

  defp existing!(path) do
    if File.dir?(path),
      do: path,
      else: Mix.raise("EX_BURN_DEPS names #{path}, which isn't a folder")
  end

  # Mix looks for its own copy of rebar3 only, and would offer to download it.
  defp use_installed_rebar do
    rebar = System.find_executable("rebar3")
    if rebar && !System.get_env("MIX_REBAR3"), do: System.put_env("MIX_REBAR3", rebar)
  end

  @doc """
  The project's dependencies as they can be had: unchanged for Hex; for a folder without the
  optional ones and the tools that it lacks, each of which is named on standard error.
  """
  @spec deps([tuple()]) :: [tuple()]
  def deps(deps) do
    if folder = folder() do
      {present, missing} = Enum.split_with(deps, &(required?(&1) or in_folder?(&1, folder)))
      tell_missing(missing, folder)
      # The checkout of complex may be older than the release nx asks for.
      present ++ [{:complex, ">= 0.0.0", override: true}]
    else
      deps
    end
  end

  defp required?({_app, _requirement}), do: true

  defp required?({_app, _requirement, opts}),
    do: !Keyword.get(opts, :optional, false) and !Keyword.has_key?(opts, :only)

  defp in_folder?(dep, folder), do: File.dir?(Path.join(folder, "#{elem(dep, 0)}"))

  defp tell_missing(missing, folder) do
    for dep <- missing, wanted_now?(dep) do
      IO.puts(:stderr, "ex_burn: left out #{elem(dep, 0)}, which isn't in #{folder}")
    end
  end

  defp wanted_now?({_app, _requirement, opts}),
    do: Mix.env() in List.wrap(Keyword.get(opts, :only, Mix.env()))

  @impl true
  def fetchable?, do: false

  @impl true
  def format(opts), do: opts[:dest]

  @impl true
  def format_lock(_opts), do: nil

  @impl true
  def accepts_options(app, opts) do
    if Enum.any?(@own_source, &Keyword.has_key?(opts, &1)) do
      nil
    else
      Keyword.put(opts, :dest, Path.join(folder(), "#{app}"))
    end
  end

  @impl true
  def checked_out?(opts), do: File.dir?(opts[:dest])

  @impl true
  def checkout(opts), do: Mix.raise("can't fetch #{opts[:dest]}: it is a folder's checkout")

  @impl true
  def update(opts), do: opts[:lock]

  @impl true
  def lock_status(_opts), do: :ok

  @impl true
  def equal?(left, right), do: left[:dest] == right[:dest]

  @impl true
  def managers(_opts), do: []
end
