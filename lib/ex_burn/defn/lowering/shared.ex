defmodule ExBurn.Defn.Lowering.Shared do
  @moduledoc """
  Which nodes of a `cond` to compute before it.

  A node that several branches read was made before the `cond`. One that is computed whichever branch is taken is computed
  there, once. Were it a part of each branch, a chain of branches that read the one before would double in size with each.

  A node that some branches read belongs into them, since nobody may need it. But a `cond` is computed before, too, if
  that does no more than take time: no call into Elixir, no loop that may not end, nothing that some elements fail.
  """

  alias ExBurn.Defn.Lowering.{Insides, Owners, Place}
  alias Nx.Defn.{Composite, Expr}
  alias Nx.Tensor, as: T

  # Blocks and functions are not looked into.
  @unsafe ~w(hook io_call runtime_call while block fun reduce window_reduce quotient remainder pow left_shift right_shift
             gather indexed_add indexed_put)a

  # What must not be computed twice on one way: what calls into Elixir, or may, and what takes long.
  @once ~w(hook io_call runtime_call while block reduce window_reduce)a

  @doc """
  Which clause of a `cond` to make a `cond` of its own of, in the last branch, together with those after it, if any: the
  first whose predicate shares a call with its branch or with what comes after it. The nodes of a first predicate are
  computed once.
  """
  @spec split(
          [{Nx.Tensor.t(), Nx.Container.t()}],
          Nx.Container.t(),
          Insides.t(),
          (reference() -> boolean())
        ) :: pos_integer() | nil
  def split([_first | clauses], last, insides, outside?) do
    own = for {predicate, _body} <- clauses, do: once(predicate, insides, outside?)

    if Enum.any?(own, &(&1 != [])) do
      collect = &collect_all(&1, &2, insides, outside?)
      numbered = Enum.zip([clauses, own, 1..length(clauses)])
      {_seen, at} = List.foldr(numbered, {collect.(last, %{}), nil}, &split_at(&1, &2, collect))
      at
    end
  end

  # What comes after a clause has been seen before it.
  defp split_at({{predicate, body}, own, number}, {seen, at}, collect) do
    seen = collect.(body, seen)
    at = if Enum.any?(own, &is_map_key(seen, &1)), do: number, else: at
    {collect.(predicate, seen), at}
  end

  defp once(predicate, insides, outside?) do
    seen = collect(predicate, %{}, insides, outside?)
    for {id, t} <- seen, Insides.does?(t, insides, @once), do: id
  end

  defp collect_all(container, seen, insides, outside?) do
    [container]
    |> Composite.flatten_list()
    |> Enum.reduce(seen, &collect(&1, &2, insides, outside?))
  end

  defp collect(%T{data: %Expr{id: id}} = t, seen, insides, outside?) do
    if is_map_key(seen, id) or outside?.(id),
      do: seen,
      else: Insides.reads(t, insides, Map.put(seen, id, t), &collect(&1, &2, insides, outside?))
  end

  @doc """
  The nodes of several parts of a `cond` to compute before it.

  `parts` are the predicates, of which there are `count`, and the branches, each with the ids of its scope. What is
  `outside?` is computed before anyway.
  """
  @spec ids(
          [{Nx.Container.t(), Owners.ids()}],
          pos_integer(),
          Insides.t(),
          (reference() -> boolean())
        ) :: Owners.ids()
  def ids(parts, count, insides, outside?) do
    {[{_, first} | predicates], branches} = Enum.split(parts, count)
    always = always(first, Enum.map(predicates, &elem(&1, 1)), Enum.map(branches, &elem(&1, 1)))
    sometimes = sometimes(predicates ++ branches, always, insides, outside?)
    ids = Map.merge(always, sometimes)

    if Enum.any?(ids, &cond?/1),
      do: around_all(ids, parts, insides, outside?),
      else: ids
  end

  defp cond?({_id, %T{data: %Expr{op: op}}}), do: op == :cond

  # What both a `cond` that is computed before and a part read is computed before both, or each would compute it.
  defp around_all(ids, parts, insides, outside?) do
    before = Enum.map(ids, fn {_id, t} -> {t, Place.outermost()} end)
    within = Place.inside(Place.outermost(), :parts)
    inside = Enum.map(parts, fn {part, _ids} -> {part, within} end)
    Owners.ids(before ++ inside, insides, outside?)
  end

  # The way to a branch leads over the predicates before it, to the last one over all of them.
  defp always(first, predicates, branches) do
    seen = [first | Enum.scan(predicates, first, &Map.merge/2)]
    [{first, branch} | ways] = Enum.zip(seen ++ [List.last(seen)], branches)

    Enum.reduce(ways, Map.merge(first, branch), fn {seen, branch}, common ->
      Map.filter(common, fn {id, _t} -> is_map_key(seen, id) or is_map_key(branch, id) end)
    end)
  end

  defp sometimes(parts, always, insides, outside?) do
    conds = for {_, ids} <- parts, node <- ids, cond?(node), do: node
    counts = Enum.frequencies_by(conds, &elem(&1, 0))
    several = for {id, n} <- counts, n > 1, not is_map_key(always, id), do: id

    if several == [] do
      %{}
    else
      leaves = Enum.flat_map(parts, fn {part, _} -> Composite.flatten_list([part]) end)
      {_, safe} = Enum.reduce(leaves, {true, %{}}, &safe(&1, &2, insides, outside?))
      conds |> Map.new() |> Map.take(Enum.filter(several, &safe[&1]))
    end
  end

  # Whether nodes can be computed for nothing, by their ids, and whether all so far can.
  defp safe(%T{data: %Expr{op: :constant}}, acc, _insides, _outside?), do: acc

  defp safe(%T{data: %Expr{id: id}} = t, {all?, known}, insides, outside?) do
    known =
      if is_map_key(known, id) do
        known
      else
        {safe?, known} = safe_node(t, known, insides, outside?)
        Map.put(known, id, safe?)
      end

    {all? and Map.fetch!(known, id), known}
  end

  defp safe_node(%T{data: %Expr{id: id}} = t, known, insides, outside?) do
    if outside?.(id) do
      {true, known}
    else
      start = {not Insides.does?(t, insides, @unsafe), known}
      Insides.reads(t, insides, start, &safe(&1, &2, insides, outside?))
    end
  end
end
