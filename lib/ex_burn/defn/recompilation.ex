defmodule ExBurn.Defn.Recompilation do
  @moduledoc """
  Warns of a function that is compiled again and again.

  With `config :ex_burn, recompilation_warning: 20` a warning tells of each function that is compiled more than 20 times,
  and what was different the last time. Mostly that is a tensor around the function, which should be an argument, or a
  shape that changes, which can be padded. By default nothing is counted.
  """

  use Agent

  alias ExBurn.Type
  alias Nx.Defn.Composite
  alias Nx.Tensor, as: T

  require Logger

  @doc false
  def start_link(_opts), do: Agent.start_link(fn -> %{} end, name: __MODULE__)

  @doc """
  Counts a compilation of `fun` for arguments like `vars`.
  """
  @spec count(term(), [Nx.Container.t()], keyword()) :: :ok
  def count(fun, vars, opts) do
    limit = Application.get_env(:ex_burn, :recompilation_warning, :infinity)
    if is_integer(limit) and is_function(fun), do: warn_after(fun, facts(fun, vars, opts), limit)
    :ok
  end

  @doc """
  Forgets all counts.
  """
  @spec clear() :: :ok
  def clear, do: Agent.update(__MODULE__, fn _counts -> %{} end)

  defp warn_after(fun, facts, limit) do
    id = fun |> Function.info() |> Keyword.take([:module, :name, :arity])

    {count, last} =
      Agent.get_and_update(__MODULE__, fn counts ->
        {count, last} = Map.get(counts, id, {0, facts})
        {{count + 1, last}, Map.put(counts, id, {count + 1, facts})}
      end)

    if count == limit + 1 do
      Logger.warning(
        "ExBurn has compiled #{inspect(fun)} #{count} times. The last two times differ in " <>
          Enum.join(differences(last, facts), " and ")
      )
    end
  end

  defp facts(fun, vars, opts) do
    %{
      arguments: vars |> Enum.map(&text/1),
      captures: fun |> Function.info(:env) |> :erlang.phash2(),
      hooks: ExBurn.Defn.Key.hooks(opts),
      options: Keyword.take(opts, [:cache, :device, :fusion, :passes])
    }
  end

  defp text(container),
    do: [container] |> Composite.flatten_list() |> Enum.map_join(", ", &type/1)

  defp type(%T{} = t) do
    {name, shape} = Type.of(t)
    axes = for {axis, size} <- t.vectorized_axes, do: "#{axis}: #{size}, "
    names = if Enum.any?(t.names), do: " #{inspect(t.names)}"
    "#{axes}#{name}#{inspect(shape, charlists: :as_lists)}#{names}"
  end

  defp differences(last, now) do
    found = for {name, value} <- now, last[name] != value, do: difference(name, last[name], value)

    if found == [],
      do: ["nothing: it is compiled with cache: false, or was forgotten"],
      else: found
  end

  defp difference(:captures, _last, _now), do: "the values around the function"

  defp difference(:arguments, last, now) do
    changed =
      for {was, is, i} <- Enum.zip([last, now, 1..length(now)//1]),
          was != is,
          do: "argument #{i}, which was #{was} and is #{is}"

    Enum.join(changed, ", ")
  end

  defp difference(name, last, now),
    do: "the #{name}, which were #{inspect(last)} and are #{inspect(now)}"
end
