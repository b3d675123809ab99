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

  @type ids :: %{reference() => Nx.Tensor.t()}

  @doc """
  The nodes that belong to the scope of a container of expressions, but none of those that `outside?` says belong to a scope
  around it: nobody looks behind these, so that a chain of branches takes time as its length.

  A node belongs to the innermost scope around all that read it. What one `cond` alone reads is its own, although another
  `cond` reads that one: `Nx.Defn.Tree.scope_ids/1` counts it to the scope around both, where it would be computed, and its
  hooks called, whichever branch is taken.
  """
  @spec scope_ids(Nx.Container.t(), (reference() -> boolean())) :: ids()
  def scope_ids(container, outside? \\ fn _id -> false end),
    do: scope_ids([{container, nil}], %{}, outside?)

  # `scopes` has the `cond` in which a node is computed, or `nil`. It is settled once all that read the node are.
  defp scope_ids(roots, scopes, outside?) do
    leaves = for {root, scope} <- roots, t <- Composite.flatten_list([root]), do: {t, scope}
    {nodes, _} = Enum.reduce(leaves, {[], %{}}, fn {t, _}, acc -> order(t, acc, outside?) end)
    scopes = Enum.reduce(leaves, scopes, fn {t, scope}, acc -> read(t, scope, acc) end)
    scopes = Enum.reduce(nodes, scopes, &read_args/2)
    for %T{data: %Expr{id: id}} = t <- nodes, scopes[id] == nil, into: %{}, do: {id, t}
  end

  # All nodes, each after those that read it.
  defp order(%T{data: %Expr{op: :constant}}, acc, _outside?), do: acc

  defp order(%T{data: %Expr{id: id}} = t, {nodes, seen} = acc, outside?) do
    if is_map_key(seen, id) or outside?.(id) do
      acc
    else
      acc = {nodes, Map.put(seen, id, true)}
      {_args, {nodes, seen}} = Tree.apply_args(t, :scope, acc, &{&1, order(&1, &2, outside?)})
      {[t | nodes], seen}
    end
  end

  # The first predicate of a `cond` is computed in any case.
  defp read_args(%T{data: %Expr{id: id, op: :cond, args: args}}, scopes) do
    [first | rest] = parts(args)
    Enum.reduce(rest, read(first, scopes[id], scopes), &read(&1, id, &2))
  end

  defp read_args(%T{data: %Expr{id: id}} = t, scopes) do
    scope = scopes[id]
    t |> Tree.apply_args(:scope, scopes, &{&1, read(&1, scope, &2)}) |> elem(1)
  end

  defp read(%T{data: %Expr{id: id}}, scope, scopes),
    do: Map.update(scopes, id, scope, &around(&1, scope, scopes))

  # The tensors of all predicates and branches, those of the first predicate first.
  defp parts([clauses, last]),
    do: Composite.flatten_list(Enum.flat_map(clauses, &Tuple.to_list/1) ++ [last])

  defp around(scope, scope, _scopes), do: scope
  defp around(one, other, _scopes) when one == nil or other == nil, do: nil

  defp around(one, other, scopes) do
    ways = one |> outwards(scopes) |> MapSet.new()
    other |> outwards(scopes) |> Enum.find(&(&1 in ways))
  end

  defp outwards(scope, scopes),
    do: scope |> Stream.iterate(&scopes[&1]) |> Enum.take_while(& &1)

  # What must not be computed twice on one way: what calls into Elixir, or may, and what takes long.
  @once ~w(hook io_call runtime_call while block reduce window_reduce)a

  @doc """
  Which clause of a `cond` to make a `cond` of its own of, in the last branch, together with those after it, if any: the
  first whose predicate shares a call with its branch or with what comes after it. The nodes of a first predicate are
  computed once.
  """
  @spec split([{Nx.Tensor.t(), Nx.Container.t()}], Nx.Container.t(), (reference() -> boolean())) ::
          pos_integer() | nil
  def split([_first | clauses], last, outside?) do
    clauses
    |> Stream.iterate(&tl/1)
    |> Stream.take(length(clauses))
    |> Enum.find_index(fn [{predicate, body} | after_it] ->
      own = once([predicate], outside?)
      own != [] and own -- once([body | parts([after_it, last])], outside?) != own
    end)
    |> then(&(&1 && &1 + 1))
  end

  defp once(containers, outside?) do
    seen = containers |> Composite.flatten_list() |> Enum.reduce(%{}, &collect(&1, &2, outside?))
    for {id, op} <- seen, op in @once, do: id
  end

  defp collect(%T{data: %Expr{id: id, op: op, args: args}} = t, seen, outside?) do
    cond do
      is_map_key(seen, id) or outside?.(id) ->
        seen

      op == :cond ->
        args |> parts() |> Enum.reduce(Map.put(seen, id, op), &collect(&1, &2, outside?))

      true ->
        t
        |> Tree.apply_args(:scope, Map.put(seen, id, op), &{&1, collect(&1, &2, outside?)})
        |> elem(1)
    end
  end

  @doc """
  The nodes of several parts of a `cond` to compute before it.

  `parts` are the predicates, of which there are `count`, and the branches, each with the ids of its scope. What is
  `outside?` is computed before anyway.
  """
  @spec ids([{Nx.Container.t(), ids()}], pos_integer(), (reference() -> boolean())) :: ids()
  def ids(parts, count, outside?) do
    {[{_, first} | predicates], branches} = Enum.split(parts, count)
    always = always(first, Enum.map(predicates, &elem(&1, 1)), Enum.map(branches, &elem(&1, 1)))
    ids = Map.merge(always, sometimes(predicates ++ branches, always, outside?))
    if Enum.any?(ids, &cond?/1), do: around_all(ids, parts, outside?), else: ids
  end

  defp cond?({_id, %T{data: %Expr{op: op}}}), do: op == :cond

  # What both a `cond` that is computed before and a part read is computed before both, or each would compute it.
  defp around_all(ids, parts, outside?) do
    before = Enum.map(ids, fn {_id, t} -> {t, nil} end)
    inside = Enum.map(parts, fn {part, _ids} -> {part, :inside} end)
    scope_ids(before ++ inside, %{inside: nil}, outside?)
  end

  # The way to a branch leads over the predicates before it, to the last one over all of them.
  defp always(first, predicates, branches) do
    seen = [first | Enum.scan(predicates, first, &Map.merge/2)]

    (seen ++ [List.last(seen)])
    |> Enum.zip_with(branches, &Map.merge/2)
    |> Enum.reduce(fn way, common -> Map.take(common, Map.keys(way)) end)
  end

  defp sometimes(parts, always, outside?) do
    conds = for {_, ids} <- parts, node <- ids, cond?(node), do: node
    counts = Enum.frequencies_by(conds, &elem(&1, 0))
    several = for {id, n} <- counts, n > 1, not is_map_key(always, id), do: id

    if several == [] do
      %{}
    else
      leaves = Enum.flat_map(parts, fn {part, _} -> Composite.flatten_list([part]) end)
      {_, safe} = Enum.reduce(leaves, {true, %{}}, &safe(&1, &2, outside?))
      conds |> Map.new() |> Map.take(Enum.filter(several, &safe[&1]))
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
