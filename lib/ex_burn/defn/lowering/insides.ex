defmodule ExBurn.Defn.Lowering.Insides do
  @moduledoc """
  What the inside of each `cond` reads and does, so that nobody has to look into it.

  The inside of a `cond` is the nodes that are read in its branches and later predicates alone. None of them belongs to a scope
  around before the `cond` does, so from around only two facts matter: which other nodes they read, and which operations they
  are. Nodes of the scope itself are left out of the former: whoever asks has them anyway.

  Without this, each of a chain of `cond`s would be looked at with all before it.
  """

  alias ExBurn.Defn.Lowering.Place
  alias Nx.Defn.{Composite, Expr, Tree}
  alias Nx.Tensor, as: T

  @type t :: %{
          reference() => %{reads: %{reference() => Nx.Tensor.t()}, ops: %{atom() => true}}
        }

  @nothing %{reads: %{}, ops: %{}}

  @doc """
  The insides of all `cond`s of a scope, from its nodes and their places.
  """
  @spec of([Nx.Tensor.t()], %{reference() => Place.t()}) :: t()
  def of(nodes, places), do: Enum.reduce(nodes, %{}, &add(&1, &2, places))

  defp add(%T{data: %Expr{id: id, op: op}} = t, insides, places) do
    place = Map.fetch!(places, id)
    insides = if op == :cond, do: Map.put_new(insides, id, @nothing), else: insides

    # What the scope itself reads is its own.
    if place.depth == 0 and op != :cond do
      insides
    else
      insides = put(insides, place, 0, :ops, op, true)
      reads(t, place, %{}, insides, &add_read(&1, &2, &3, places))
    end
  end

  defp add_read(%T{data: %Expr{op: :constant}}, _from, insides, _places), do: insides

  defp add_read(%T{data: %Expr{id: id}} = t, from, insides, places) do
    case Map.fetch!(places, id) do
      %{depth: 0} -> insides
      %{depth: depth} -> put(insides, from, depth, :reads, id, t)
    end
  end

  # Into all places from `place` outwards, up to one of this depth. One that has it is within others that have it.
  defp put(insides, %{depth: depth}, depth, _kind, _key, _value), do: insides

  defp put(insides, place, depth, kind, key, value) do
    inside = Map.get(insides, place.cond, @nothing)

    if is_map_key(Map.fetch!(inside, kind), key) do
      insides
    else
      insides
      |> Map.put(place.cond, put_in(inside, [kind, key], value))
      |> put(place.around, depth, kind, key, value)
    end
  end

  @doc """
  Folds what the node `t` at `place` reads with `fun`, which takes a node, the place where it is read and the accumulator.

  Where `insides` knows a `cond`, its inside is not looked into.
  """
  @spec reads(Nx.Tensor.t(), Place.t(), t(), acc, (Nx.Tensor.t(), Place.t(), acc -> acc)) :: acc
        when acc: term()
  def reads(%T{data: %Expr{op: :cond, id: id}} = t, place, insides, acc, fun) do
    {first, inside} = parts(t, insides)
    within = Place.inside(place, id)
    Enum.reduce(inside, fun.(first, place, acc), &fun.(&1, within, &2))
  end

  def reads(t, place, _insides, acc, fun),
    do: t |> Tree.apply_args(:scope, acc, &{&1, fun.(&1, place, &2)}) |> elem(1)

  @doc """
  Folds what the node `t` reads with `fun`, which takes a node and the accumulator, wherever it is read.
  """
  @spec reads(Nx.Tensor.t(), t(), acc, (Nx.Tensor.t(), acc -> acc)) :: acc when acc: term()
  def reads(%T{data: %Expr{op: :cond}} = t, insides, acc, fun) do
    {first, inside} = parts(t, insides)
    Enum.reduce([first | inside], acc, fun)
  end

  def reads(t, _insides, acc, fun),
    do: t |> Tree.apply_args(:scope, acc, &{&1, fun.(&1, &2)}) |> elem(1)

  # The first predicate of a `cond`, which is computed in any case, and what its inside reads.
  defp parts(%T{data: %Expr{id: id, args: [[{first, body} | clauses], last]}}, insides) do
    case insides do
      %{^id => %{reads: reads}} ->
        {first, Map.values(reads)}

      %{} ->
        rest = [body | Enum.flat_map(clauses, &Tuple.to_list/1)] ++ [last]
        {first, Composite.flatten_list(rest)}
    end
  end

  @doc """
  Whether the node `t`, or one inside of it, is one of the operations `ops`.
  """
  @spec does?(Nx.Tensor.t(), t(), [atom()]) :: boolean()
  def does?(%T{data: %Expr{op: :cond, id: id}}, insides, ops) when is_map_key(insides, id),
    do: Enum.any?(ops, &is_map_key(insides[id].ops, &1))

  def does?(%T{data: %Expr{op: op}}, _insides, ops), do: op in ops
end
