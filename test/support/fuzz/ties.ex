defmodule ExBurn.Fuzz.Ties do
  @moduledoc """
  Questions of yes and no about values that rounding may move over the edge.

  Lanes that answer alike are no proof, since few numbers of few digits lie between two values: a sum may be zero, or two
  numbers the same, for one way of rounding alone.
  """

  alias ExBurn.Fuzz.{Compare, Program}
  alias ExBurn.Property.Number
  alias Nx.Tensor, as: T

  @comparisons ~w(equal not_equal less less_equal greater greater_equal)a
  @truths ~w(logical_and logical_or logical_xor logical_not all any)a

  @doc """
  Whether the answer of a step hangs on rounding.
  """
  def near?(op, [a, b], lanes) when op in @comparisons,
    do: close_to_zero?(lanes, [[a, b]], &difference/1)

  def near?(op, args, lanes) when op in @truths, do: close_to_zero?(lanes, args, & &1)
  def near?(:select, [predicate | _], lanes), do: close_to_zero?(lanes, [predicate], & &1)
  def near?(_op, _args, _lanes), do: false

  defp close_to_zero?(lanes, args, fun) do
    Enum.any?(args, fn arg ->
      values = for lane <- lanes, do: arg |> Program.map_refs(&Map.fetch!(lane, &1)) |> fun.()
      match?([%T{} | _], values) and Enum.any?(Compare.bounds(values), &within?/1)
    end)
  end

  defp within?({_number, :exact}), do: false
  defp within?({number, bound}), do: is_number(number) and abs(number) <= bound

  # In the type that is compared, whose last place counts.
  defp difference([a, b]) do
    Nx.with_default_backend(Nx.BinaryBackend, fn ->
      if Enum.any?([a, b], &(is_struct(&1, T) and not plain?(&1))),
        do: nil,
        else: Nx.subtract(a, b)
    end)
  rescue
    _ -> nil
  end

  # Integers may wrap, and what is not finite has no difference.
  defp plain?(t),
    do: not Number.integer?(t.type) and Enum.all?(Number.list(t), &Compare.finite?/1)
end
