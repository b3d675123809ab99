defmodule ExBurn.Fuzz.Steps.Elementwise do
  @moduledoc """
  Steps that compute each element by itself, alone and in chains.
  """

  import ExBurn.Fuzz.Builder

  alias ExBurn.Property.Generators

  @smooth ~w(exp expm1 log log1p sigmoid sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sqrt rsqrt cbrt erf erfc
             erf_inv)a
  @plain ~w(abs negate sign floor ceil round)a
  @of_any ~w(conjugate real imag is_nan is_infinity logical_not)a
  @of_integers ~w(bitwise_not population_count count_leading_zeros abs negate sign)a
  @arithmetic ~w(add add subtract subtract multiply multiply divide max min pow atan2 remainder)a
  @comparisons ~w(equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor)a
  @bits ~w(bitwise_and bitwise_or bitwise_xor left_shift right_shift quotient remainder)a
  @types Generators.all_types()
  @common [{:f, 32}, {:f, 32}, {:f, 64}, {:bf, 16}, {:f, 16}, {:s, 32}, {:u, 8}, {:s, 64}]

  @doc """
  Makers of steps and their weights.
  """
  def makers do
    [
      {8, &smooth/1},
      {3, &plain/1},
      {2, &of_any/1},
      {3, &of_integers/1},
      {12, &arithmetic/1},
      {4, &comparison/1},
      {4, &bits/1},
      {4, &select/1},
      {3, &clip/1},
      {6, &cast/1},
      {2, &bitcast/1},
      {3, &identity/1}
    ]
  end

  defp smooth(b), do: unary(b, pick(b, &(not integer?(&1))), @smooth)
  defp plain(b), do: unary(b, pick(b), @plain)
  defp of_any(b), do: unary(b, pick(b), @of_any)
  defp of_integers(b), do: unary(b, pick(b, &integer?/1), @of_integers)

  defp unary(b, ref, names) do
    {_, b} = emit(b, one_of(names), [ref])
    b
  end

  defp arithmetic(b), do: binary(b, pick(b), @arithmetic)
  defp comparison(b), do: binary(b, pick(b, &real?/1), @comparisons)
  defp bits(b), do: binary(b, pick(b, &integer?/1), @bits)

  defp binary(b, left, names) do
    {right, b} = partner(b, left)
    args = if chance(2), do: [left, right], else: [right, left]
    {_, b} = emit(b, one_of(names), args)
    b
  end

  @doc """
  An operand that goes with a value: a number, or a value of a shape that broadcasts.
  """
  def partner(b, ref) do
    t = value(b, ref)

    case below(6) do
      0 -> {literal(t), b}
      1 -> narrow(b, ref)
      _ -> {pick(b, &fits?(&1, t)), b}
    end
  end

  @doc """
  A number that goes with a tensor.
  """
  def literal(%{type: {:u, _}}), do: one_of([0, 1, 2, 3])
  def literal(%{type: {:s, _}}), do: one_of([0, 1, -1, 2, -2, 1])
  def literal(_float), do: one_of([0, 1, 2, -1, 0.5, 1.0, 0.0, -0.0, -0.5, 2.0, 1.5, -3.0])

  # A row, a column or a scalar of the value itself.
  defp narrow(b, ref) do
    axes = b |> value(ref) |> axes() |> some(0)
    if axes == [], do: throw(:skip)
    emit(b, one_of([:reduce_max, :reduce_min, :sum]), [ref, [axes: axes, keep_axes: true]])
  end

  @doc """
  Whether two tensors broadcast together.
  """
  def fits?(a, t) do
    [a, t]
    |> Enum.map(&(&1.shape |> Tuple.to_list() |> Enum.reverse()))
    |> Enum.zip_with(fn [m, n] -> m == n or m == 1 or n == 1 end)
    |> Enum.all?()
  end

  defp select(b) do
    on_true = pick(b)
    t = value(b, on_true)
    {on_false, b} = partner(b, on_true)
    {predicate, b} = predicate(b, t)
    {_, b} = emit(b, :select, [predicate, on_true, on_false])
    b
  end

  defp predicate(b, t) do
    ref = pick(b, &(real?(&1) and (fits?(&1, t) or rank(&1) == 0)))

    if chance(3),
      do: {ref, b},
      else: emit(b, one_of([:greater, :less_equal, :equal]), [ref, literal(value(b, ref))])
  end

  defp clip(b) do
    ref = pick(b, &real?/1)
    low = if float?(value(b, ref)), do: one_of([-1.0, 0.0, 0.5]), else: one_of([0, 1])
    {_, b} = emit(b, :clip, [ref, low, low + one_of([1, 2, 0])])
    b
  end

  defp cast(b) do
    type = if chance(3), do: one_of(@types), else: one_of(@common)
    {_, b} = emit(b, :as_type, [pick(b), type])
    b
  end

  defp bitcast(b) do
    ref = pick(b, &real?/1)
    {_, size} = value(b, ref).type
    {_, b} = emit(b, :bitcast, [ref, one_of(for {_, ^size} = type <- @types, do: type)])
    b
  end

  # What does nothing, or nearly.
  defp identity(b) do
    ref = pick(b)

    {op, args} =
      one_of([
        {:add, [ref, 0]},
        {:multiply, [ref, 1]},
        {:multiply, [ref, 0]},
        {:subtract, [ref, ref]},
        {:divide, [ref, 1]},
        {:divide, [ref, ref]},
        {:pow, [ref, 2]},
        {:pow, [ref, 1]},
        {:subtract, [0, ref]},
        {:max, [ref, ref]},
        {:as_type, [ref, value(b, ref).type]},
        {:equal, [ref, ref]},
        {:select, [1, ref, 0]},
        {:logical_and, [ref, ref]},
        {:quotient, [ref, 1]},
        {:remainder, [ref, 1]},
        {:bitwise_xor, [ref, ref]}
      ])

    {_, b} = emit(b, op, args)
    b
  end
end
