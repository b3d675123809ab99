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
  The nodes of several parts of a `cond` to compute before it.

  `parts` are the predicates, of which there are `count`, and the branches, each with the ids of its scope.
  """
  @spec ids([{Nx.Container.t(), ids()}], pos_integer()) :: ids()
  def ids(parts, count) do
    {[{_, first} | predicates], branches} = Enum.split(parts, count)
    always = always(first, Enum.map(predicates, &elem(&1, 1)), Enum.map(branches, &elem(&1, 1)))
    Map.merge(always, sometimes(predicates ++ branches, always))
  end

  # The way to a branch leads over the predicates before it, to the last one over all of them.
  defp always(first, predicates, branches) do
    seen = [first | Enum.scan(predicates, first, &Map.merge/2)]

    (seen ++ [List.last(seen)])
    |> Enum.zip_with(branches, &Map.merge/2)
    |> Enum.reduce(fn way, common -> Map.take(common, Map.keys(way)) end)
  end

  defp sometimes(parts, always) do
    counts = Enum.frequencies(for {_, ids} <- parts, {id, :cond} <- ids, do: id)
    several = for {id, n} <- counts, n > 1, not is_map_key(always, id), into: %{}, do: {id, :cond}

    if several == %{} do
      several
    else
      leaves = Enum.flat_map(parts, fn {part, _} -> Composite.flatten_list([part]) end)
      {_, safe} = Enum.reduce(leaves, {true, %{}}, &safe/2)
      Map.filter(several, fn {id, _} -> safe[id] end)
    end
  end

  # Whether nodes can be computed for nothing, by their ids, and whether all so far can.
  defp safe(%T{data: %Expr{op: :constant}}, acc), do: acc

  defp safe(%T{data: %Expr{id: id, op: op}} = t, {all?, known}) do
    known =
      if is_map_key(known, id) do
        known
      else
        start = {op not in @unsafe, known}
        {_, {safe?, known}} = Tree.apply_args(t, :scope, start, &{&1, safe(&1, &2)})
        Map.put(known, id, safe?)
      end

    {all? and Map.fetch!(known, id), known}
  end
end
