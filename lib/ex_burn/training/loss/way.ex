defmodule ExBurn.Training.Loss.Way do
  @moduledoc """
  The way from a loss back to the parameters, along which the engine follows gradients.
  """

  alias ExBurn.{Error, Type}
  alias Nx.Defn.{Expr, Tree}
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
    {_leads?, _seen} = leads(loss, %{}, count)
    :ok
  end

  # Whether a gradient goes from a value to a parameter. What is not known to let it through counts as if it didn't.
  defp leads(%T{type: {kind, _}}, seen, _count) when kind in [:s, :u], do: {false, seen}

  defp leads(%T{data: %Expr{op: :parameter, args: [number]}}, seen, count),
    do: {number < count, seen}

  defp leads(%T{data: %Expr{op: op}}, seen, _count) when op in @flat, do: {false, seen}

  defp leads(%T{data: %Expr{op: :metadata, args: [_, metadata]}}, seen, _count)
       when is_map_key(metadata, :stop_grad) or is_map_key(metadata, :custom_grad),
       do: {false, seen}

  defp leads(%T{data: %Expr{id: id}}, seen, _count) when is_map_key(seen, id),
    do: {Map.fetch!(seen, id), seen}

  defp leads(%T{data: %Expr{id: id}} = t, seen, count) do
    {_args, {leads?, seen}} =
      Tree.apply_args(t, :scope, {false, seen}, fn operand, {any?, seen} ->
        {leads?, seen} = leads(operand, seen, count)
        {operand, {any? or leads?, seen}}
      end)

    if leads?, do: real!(t)
    {leads?, Map.put(seen, id, leads?)}
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
