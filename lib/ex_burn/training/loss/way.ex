defmodule ExBurn.Training.Loss.Way do
  @moduledoc """
  The way from a loss back to the parameters, along which the engine follows gradients.
  """

  alias ExBurn.{Error, Type}
  alias Nx.Defn.{Composite, Expr, Tree}
  alias Nx.Tensor, as: T

  # Whatever their result's gradient, that of their operands is 0.
  @flat [:floor, :ceil, :round, :sign, :phase]

  @doc """
  Refuses a loss that leads through complex numbers, which the engine does not follow. The parameters are the first `count`
  that its expression takes.

  ## Examples

      iex> far = fn p, y -> Nx.sum(Nx.abs(Nx.subtract(y, p))) end
      iex> loss = Nx.Defn.debug_expr(far).(Nx.template({2}, :f32), Nx.template({2}, :c64))
      iex> ExBurn.Training.Loss.Way.real!(loss, 1)
      ** (ExBurn.Error) loss: the loss leads to the parameters through complex numbers, subtract answers c64, and gradients: :autodiff follows real ones; take Nx.real/1 and Nx.imag/1 of complex targets before they meet the model's answers, or give gradients: :symbolic

  """
  @spec real!(Nx.Tensor.t(), non_neg_integer()) :: :ok
  def real!(%T{} = loss, count) do
    {_sources, _seen} = sources(loss, %{}, MapSet.new(0..(count - 1)//1))
    :ok
  end

  # The numbers of those parameters that a gradient goes to from a value. What is not known to let it through counts as if it
  # didn't. A complex value on the way to one of `wanted` is refused.
  defp sources(%T{type: {kind, _}}, seen, _wanted) when kind in [:s, :u],
    do: {MapSet.new(), seen}

  defp sources(%T{data: %Expr{op: :parameter, args: [number]}}, seen, _wanted),
    do: {MapSet.new([number]), seen}

  defp sources(%T{data: %Expr{op: op}}, seen, _wanted) when op in @flat, do: {MapSet.new(), seen}

  defp sources(%T{data: %Expr{op: :metadata, args: [_, metadata]}}, seen, _wanted)
       when is_map_key(metadata, :stop_grad) or is_map_key(metadata, :custom_grad),
       do: {MapSet.new(), seen}

  defp sources(%T{data: %Expr{id: id}}, seen, _wanted) when is_map_key(seen, id),
    do: {Map.fetch!(seen, id), seen}

  defp sources(%T{data: %Expr{id: id}} = t, seen, wanted) do
    {sources, seen} = through(t, seen, wanted)
    if meet?(sources, wanted), do: real!(t)
    {sources, Map.put(seen, id, sources)}
  end

  # Of several results of a branch or a loop only the one that is read.
  defp through(
         %T{data: %Expr{op: :elem, args: [%T{data: %Expr{op: op}} = t, number]}},
         seen,
         wanted
       )
       when op in [:cond, :while],
       do: through(op, t.data, number, seen, wanted)

  defp through(%T{data: %Expr{op: op} = data}, seen, wanted) when op in [:cond, :while],
    do: through(op, data, 0, seen, wanted)

  defp through(t, seen, wanted) do
    {_args, operands} = Tree.apply_args(t, :scope, [], &{&1, [&1 | &2]})
    of_all(operands, seen, wanted)
  end

  defp through(:cond, %Expr{args: [clauses, last]}, number, seen, wanted) do
    branches = Enum.map(clauses, &elem(&1, 1)) ++ [last]
    branches |> Enum.map(&Enum.at(parts(&1), number)) |> of_all(seen, wanted)
  end

  # Parts of the state lead to one another from iteration to iteration.
  defp through(
         :while,
         %Expr{id: id, args: [first, _state, _goes_on?, next]},
         number,
         seen,
         wanted
       ) do
    {first, next} = {parts(first), parts(next)}

    seen =
      Map.put_new_lazy(seen, {:before, id}, fn -> each(next, %{}, MapSet.new()) |> elem(0) end)

    before = seen[{:before, id}]
    leading = settled(MapSet.new([number]), &Enum.at(before, &1))
    {sources, seen} = leading |> Enum.map(&Enum.at(first, &1)) |> each(seen, wanted)
    behind = fn part -> Enum.filter(leading, &(part in Enum.at(before, &1))) end

    varied =
      for {part, of_part} <- Enum.zip(leading, sources), meet?(of_part, wanted), do: part

    varied = varied |> MapSet.new() |> settled(behind)
    leading |> Enum.map(&Enum.at(next, &1)) |> each(%{}, varied)
    {union(sources), seen}
  end

  defp of_all(list, seen, wanted) do
    {sources, seen} = each(list, seen, wanted)
    {union(sources), seen}
  end

  defp each(list, seen, wanted), do: Enum.map_reduce(list, seen, &sources(&1, &2, wanted))

  defp union(sets), do: Enum.reduce(sets, MapSet.new(), &MapSet.union/2)

  defp meet?(a, b), do: not MapSet.disjoint?(a, b)

  defp parts(results), do: Composite.flatten_list([results])

  # A set, with what `step` says of its members until that adds none.
  defp settled(set, step) do
    next = Enum.reduce(set, set, &MapSet.union(&2, MapSet.new(step.(&1))))
    if next == set, do: set, else: settled(next, step)
  end

  defp real!(%T{type: {:c, _}, data: %Expr{op: op}} = t) do
    raise Error,
      op: :loss,
      reason:
        "the loss leads to the parameters through complex numbers, #{op} answers #{Type.name(t.type)}, " <>
          "and gradients: :autodiff follows real ones; take Nx.real/1 and Nx.imag/1 of complex targets before they " <>
          "meet the model's answers, or give gradients: :symbolic"
  end

  defp real!(_t), do: :ok
end
