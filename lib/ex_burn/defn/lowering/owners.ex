defmodule ExBurn.Defn.Lowering.Owners do
  @moduledoc """
  Which nodes belong to which scope.

  A node belongs to the innermost scope around all that read it. What one `cond` alone reads is its own, although another
  `cond` reads that one: `Nx.Defn.Tree.scope_ids/1` counts it to the scope around both, where it would be computed, and its
  hooks called, whichever branch is taken.

  None of the nodes that `outside?` says belong to a scope around counts, and nobody looks behind these, nor into `cond`s whose
  `ExBurn.Defn.Lowering.Insides` are known: a chain of branches takes time as its length.
  """

  alias ExBurn.Defn.Lowering.{Insides, Place}
  alias Nx.Defn.{Composite, Expr}
  alias Nx.Tensor, as: T

  @type ids :: %{reference() => Nx.Tensor.t()}

  @doc """
  The nodes that belong to the scope of a whole `defn`, loop, function or gradient, and the insides of its `cond`s.
  """
  @spec of(Nx.Container.t(), (reference() -> boolean())) :: {ids(), Insides.t()}
  def of(container, outside? \\ fn _id -> false end) do
    {nodes, places} = settled([{container, Place.outermost()}], %{}, outside?)
    {outermost(nodes, places), Insides.of(nodes, places)}
  end

  @doc """
  The nodes that belong to the scope of containers of expressions, each of which is read at a place.
  """
  @spec ids([{Nx.Container.t(), Place.t()}], Insides.t(), (reference() -> boolean())) :: ids()
  def ids(roots, insides, outside?) do
    {nodes, places} = settled(roots, insides, outside?)
    outermost(nodes, places)
  end

  defp outermost(nodes, places) do
    for %T{data: %Expr{id: id}} = t <- nodes,
        Map.fetch!(places, id).depth == 0,
        into: %{},
        do: {id, t}
  end

  # The place of a node is settled once those of all that read it are.
  defp settled(roots, insides, outside?) do
    leaves = for {root, place} <- roots, t <- Composite.flatten_list([root]), do: {t, place}

    {nodes, _seen} =
      Enum.reduce(leaves, {[], %{}}, fn {t, _}, acc -> order(t, acc, insides, outside?) end)

    places = Enum.reduce(leaves, %{}, fn {t, place}, places -> read(t, place, places) end)

    places =
      Enum.reduce(nodes, places, fn %T{data: %Expr{id: id}} = t, places ->
        Insides.reads(t, Map.fetch!(places, id), insides, places, &read/3)
      end)

    {nodes, places}
  end

  # All nodes, each after those that read it.
  defp order(%T{data: %Expr{op: :constant}}, acc, _insides, _outside?), do: acc

  defp order(%T{data: %Expr{id: id}} = t, {nodes, seen} = acc, insides, outside?) do
    if is_map_key(seen, id) or outside?.(id) do
      acc
    else
      acc = {nodes, Map.put(seen, id, true)}
      {nodes, seen} = Insides.reads(t, insides, acc, &order(&1, &2, insides, outside?))
      {[t | nodes], seen}
    end
  end

  defp read(%T{data: %Expr{id: id}}, place, places) do
    case places do
      %{^id => other} -> %{places | id => Place.common(place, other)}
      %{} -> Map.put(places, id, place)
    end
  end
end
