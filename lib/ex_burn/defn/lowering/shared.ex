defmodule ExBurn.Defn.Lowering.Shared do
  @moduledoc """
  Which nodes of a `cond` to compute before it.

  A node that several branches read was made before the `cond`. One that is computed whichever branch is taken is computed
  there, once. Were it a part of each branch, a chain of branches that read the one before would double in size with each.

  A node that some branches read belongs into them, since nobody may need it. But a `cond` is computed before, too, if
  that does no more than take time: no call into Elixir, no loop that may not end, nothing that some elements fail.
  """

  alias Nx.Defn.{Composite, Expr, Tree}
  alias Nx.Tensor, as: T

  # Blocks and functions are not looked into.
  @unsafe ~w(hook io_call runtime_call while block fun reduce window_reduce quotient remainder pow left_shift right_shift
             gather indexed_add indexed_put)a

  @type ids :: %{reference() => atom()}

  @doc """
  The nodes that belong to the scope of a container of expressions, and their operations, as `Nx.Defn.Tree.scope_ids/1`
  answers them, but none of those that `outside?` says belong to a scope around it: nobody looks behind these, so that a
  chain of branches takes time as its length.
  """
  @spec scope_ids(Nx.Container.t(), (reference() -> boolean())) :: ids()
  def scope_ids(container, outside?) do
    leaves = Composite.flatten_list([container])
    {ids, _inner} = Enum.reduce(leaves, {%{}, %{}}, &visit(&1, &2, nil, outside?))
    ids
  end

  # `inner` are the nodes within a `cond`, each with the first `cond` that it was met in. One that is met in another too
  # belongs to the scope around both.
  defp visit(%T{data: %Expr{op: :constant}}, acc, _branch, _outside?), do: acc

  defp visit(%T{data: %Expr{id: id, op: op}} = t, {ids, inner} = acc, branch, outside?) do
    cond do
      is_map_key(ids, id) or outside?.(id) ->
        acc

      branch == nil and op == :cond ->
        visit_cond(t, {Map.put(ids, id, op), inner}, outside?)

      branch == nil ->
        visit_args(t, {Map.put(ids, id, op), inner}, nil, outside?)

      not is_map_key(inner, id) ->
        visit_args(t, {ids, Map.put(inner, id, branch)}, branch, outside?)

      inner[id] == branch ->
        acc

      true ->
        visit(t, acc, nil, outside?)
    end
  end

  # The first predicate is computed in any case.
  defp visit_cond(%T{data: %Expr{id: id, args: [[{first, body} | clauses], last]}}, acc, outside?) do
    acc = visit(first, acc, nil, outside?)
    rest = [body, Enum.map(clauses, &Tuple.to_list/1), last]
    leaves = rest |> List.flatten() |> Composite.flatten_list()
    Enum.reduce(leaves, acc, &visit(&1, &2, id, outside?))
  end

  defp visit_args(t, acc, branch, outside?),
    do: t |> Tree.apply_args(:scope, acc, &{&1, visit(&1, &2, branch, outside?)}) |> elem(1)

  @doc """
  The nodes of several parts of a `cond` to compute before it.

  `parts` are the predicates, of which there are `count`, and the branches, each with the ids of its scope. What is
  `outside?` is computed before anyway.
  """
  @spec ids([{Nx.Container.t(), ids()}], pos_integer(), (reference() -> boolean())) :: ids()
  def ids(parts, count, outside?) do
    {[{_, first} | predicates], branches} = Enum.split(parts, count)
    always = always(first, Enum.map(predicates, &elem(&1, 1)), Enum.map(branches, &elem(&1, 1)))
    Map.merge(always, sometimes(predicates ++ branches, always, outside?))
  end

  # The way to a branch leads over the predicates before it, to the last one over all of them.
  defp always(first, predicates, branches) do
    seen = [first | Enum.scan(predicates, first, &Map.merge/2)]

    (seen ++ [List.last(seen)])
    |> Enum.zip_with(branches, &Map.merge/2)
    |> Enum.reduce(fn way, common -> Map.take(common, Map.keys(way)) end)
  end

  defp sometimes(parts, always, outside?) do
    counts = Enum.frequencies(for {_, ids} <- parts, {id, :cond} <- ids, do: id)
    several = for {id, n} <- counts, n > 1, not is_map_key(always, id), into: %{}, do: {id, :cond}

    if several == %{} do
      several
    else
      leaves = Enum.flat_map(parts, fn {part, _} -> Composite.flatten_list([part]) end)
      {_, safe} = Enum.reduce(leaves, {true, %{}}, &safe(&1, &2, outside?))
      Map.filter(several, fn {id, _} -> safe[id] end)
    end
  end

  # Whether nodes can be computed for nothing, by their ids, and whether all so far can.
  defp safe(%T{data: %Expr{op: :constant}}, acc, _outside?), do: acc

  defp safe(%T{data: %Expr{id: id, op: op}} = t, {all?, known}, outside?) do
    known =
      if is_map_key(known, id) do
        known
      else
        {safe?, known} = safe_args(t, {outside?.(id) or op not in @unsafe, known}, outside?)
        Map.put(known, id, safe?)
      end

    {all? and Map.fetch!(known, id), known}
  end

  defp safe_args(%T{data: %Expr{id: id}} = t, start, outside?) do
    if outside?.(id),
      do: start,
      else: t |> Tree.apply_args(:scope, start, &{&1, safe(&1, &2, outside?)}) |> elem(1)
  end
end
