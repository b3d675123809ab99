defmodule ExBurn.Property.Known do
  @moduledoc """
  Where `Nx.BinaryBackend` is no judge, and what is right there.

  `answer/4` lists its wrong answers, `limit/2` the answers of IEEE 754 where the arithmetic of the BEAM raises.
  """

  alias ExBurn.Property.{Number, Operand}

  @unary ~w(abs acos acosh asin asinh atan atanh bitwise_not cbrt ceil conjugate cos cosh count_leading_zeros erf erf_inv
            erfc exp expm1 floor imag is_infinity is_nan log log1p logical_not negate phase population_count real round
            rsqrt sigmoid sign sin sinh sqrt tan tanh)a
  @binary ~w(add atan2 bitwise_and bitwise_or bitwise_xor divide equal greater greater_equal left_shift less less_equal
             logical_and logical_or logical_xor max min multiply not_equal pow quotient remainder right_shift subtract)a
  @elementwise @unary ++ @binary ++ [:clip]

  # Functions whose formula in Nx loses digits: each element is computed by a better one.
  @formulas ~w(expm1 log1p erf_inv cbrt)a

  # Nx.BinaryBackend counts in elements of 8 bits and more only.
  @counts ~w(count_leading_zeros)a

  @doc """
  The call with what `Nx.BinaryBackend` forgets to do done before.
  """
  # It pads with the bits of a number of another type, and leaves a scalar the type that it has.
  def rewritten({{Nx, :pad} = fun, [%Operand{} = t, %Operand{} = value | rest]}) do
    type = Nx.Type.merge(t.type, value.type)
    {fun, [%{t | type: type}, %{value | type: type} | rest]}
  end

  def rewritten({{Nx, :pad} = fun, [%Operand{} = t, number | rest]}) when is_number(number),
    do: {fun, [%{t | type: Nx.Type.merge_number(t.type, number)}, number | rest]}

  # It takes every complex number for true.
  def rewritten({{Nx, name} = fun, [%Operand{type: {:c, _}} = truth | rest]})
      when name in [:select, :all, :any] do
    {fun, [%{truth | steps: truth.steps ++ [{:not_equal, [0]}]} | rest]}
  end

  def rewritten(call), do: call

  @doc """
  Whether Nx, compiling the call, drops what tells 0.0 from -0.0: it takes x for x + 0.
  """
  def forgets_zeros?({{Nx, :add}, args}), do: Enum.any?(args, &(is_number(&1) and &1 == 0))
  def forgets_zeros?(_call), do: false

  @doc """
  Whether each element of the result comes from one element of each operand.
  """
  def elementwise?(name), do: name in @elementwise

  @doc """
  Whether operands are converted to their merged type first. A truth value needs no conversion.
  """
  def promotes?(name),
    do: elementwise?(name) and name not in [:logical_and, :logical_or, :logical_xor]

  @doc """
  Whether a call with these numbers may meet a wrong answer.
  """
  def concerns?(name, _numbers) when name in @formulas or name in @counts, do: true

  def concerns?(name, numbers) when name in [:acos, :acosh, :sign],
    do: Enum.any?(numbers, &(is_struct(&1) or is_atom(&1)))

  def concerns?(name, numbers)
      when name in [:clip, :ceil, :floor, :tanh, :log, :log1p, :atan2],
      do: Enum.any?(numbers, &is_atom/1)

  def concerns?(name, numbers) when name in [:equal, :not_equal],
    do: Enum.any?(numbers, &is_struct/1) and Enum.any?(numbers, &is_atom/1)

  def concerns?(:round, numbers), do: Enum.any?(numbers, &(is_atom(&1) or to_zero?(&1)))

  def concerns?(name, numbers) when name in [:divide, :remainder, :pow],
    do: Enum.any?(numbers, &(is_atom(&1) or &1 == 0))

  def concerns?(_name, _numbers), do: false

  defp to_zero?(x), do: is_float(x) and x > -0.5 and x <= 0

  @doc """
  The right answer for one element, or `:as_nx` where `Nx.BinaryBackend` is right.
  """
  def answer(name, type, types, numbers)

  # exp(x) - 1 loses the digits of small x; 2 * sinh(x/2) * exp(x/2) does not.
  def answer(:expm1, {kind, _}, _, [x]) when kind != :c and is_number(x) and abs(x) < 1,
    do: {:ok, if(x == 0, do: x * 1.0, else: 2 * :math.sinh(x / 2) * :math.exp(x / 2))}

  # log(1 + x) loses the digits of small x; 2 * atanh(x / (2 + x)) does not.
  def answer(:log1p, {kind, _}, _, [x]) when kind != :c and is_number(x) and abs(x) < 0.5,
    do: {:ok, if(x == 0, do: x * 1.0, else: 2 * :math.atanh(x / (2 + x)))}

  # These are odd functions, so that they keep the sign of a zero; Nx's formulas add a zero or ask whether x >= 0.
  def answer(name, {kind, _}, _, [x]) when name in [:cbrt, :erf_inv] and kind != :c and x == 0,
    do: {:ok, x * 1.0}

  # x^(1/3) is off by the rounding of 1/3; one step of Newton's method makes up for it.
  def answer(:cbrt, {kind, _}, _, [x]) when kind != :c and is_number(x) and x != 0 do
    y = :math.pow(abs(x), 1 / 3)
    y = y - (y - abs(x) / y / y) / 3
    {:ok, if(x < 0, do: -y, else: y)}
  end

  def answer(:erf_inv, _, _, [x]) when is_number(x) and abs(x) == 1,
    do: {:ok, if(x > 0, do: :infinity, else: :neg_infinity)}

  def answer(:erf_inv, _, _, [x]) when is_number(x) and abs(x) > 1, do: {:ok, :nan}

  # Nx answers 1 or raises for what is not finite: the sign of NaN is NaN, that of infinity 1.
  def answer(:sign, _, _, [:nan]), do: {:ok, :nan}
  def answer(:sign, _, _, [:infinity]), do: {:ok, 1.0}
  def answer(:sign, _, _, [:neg_infinity]), do: {:ok, -1.0}
  def answer(name, _, _, [x]) when name in [:round, :ceil, :floor] and is_atom(x), do: {:ok, x}

  # Rounding keeps the sign; Nx rounds to an integer of the BEAM, which has one zero.
  def answer(:round, _, _, [x]) when is_float(x) and x > -0.5 and x <= 0, do: {:ok, x * 0.0}

  def answer(:count_leading_zeros, _, [{_, size}], [x]),
    do: {:ok, size - (x |> Integer.mod(2 ** size) |> significant_bits())}

  # Limits at infinity, and NaN where Nx makes a complex number of a real one.
  def answer(:tanh, _, _, [x]) when x in [:infinity, :neg_infinity], do: {:ok, sign(x) * 1.0}

  def answer(name, {kind, _}, _, [:neg_infinity]) when name in [:log, :log1p] and kind != :c,
    do: {:ok, :nan}

  def answer(:atan2, _, _, [y, x]) when is_atom(x) or is_atom(y), do: {:ok, angle(y, x)}

  # Nx answers other values than the principal ones: that of acos lies on the other side of the real axis than z, that of
  # acosh on the same side.
  def answer(name, {:c, _}, _, [%Complex{} = z]) when name in [:acos, :acosh] do
    w = apply(Complex, name, [z])
    side = if name == :acos, do: -1, else: 1
    {:ok, if(sign(w.im) == side * sign(z.im), do: w, else: Complex.negate(w))}
  end

  # Nx compares the struct of a complex number with the atom of an infinity.
  def answer(:equal, _, _, [a, b]) when (is_map(a) and is_atom(b)) or (is_atom(a) and is_map(b)),
    do: {:ok, if(alike?(a, b), do: 1, else: 0)}

  def answer(:not_equal, type, types, [a, b])
      when (is_map(a) and is_atom(b)) or (is_atom(a) and is_map(b)) do
    {:ok, same} = answer(:equal, type, types, [a, b])
    {:ok, 1 - same}
  end

  # Nx compares the struct of a complex number with 0.
  def answer(:sign, {:c, _}, _, [%Complex{} = z]),
    do: {:ok, direction(z)}

  # A comparison with NaN is false, so Nx answers a bound: NaN stays NaN.
  def answer(:clip, _, _, [x | bounds]),
    do: if(:nan in [x | bounds], do: {:ok, :nan}, else: :as_nx)

  # Infinities as divisors and dividends, and the sign of zero.
  def answer(:divide, {kind, _}, _, [_, b] = args) when kind != :c and (is_atom(b) or b == 0),
    do: limit(:divide, args) |> as_nx()

  def answer(:remainder, {kind, _}, _, args) when kind not in [:u, :s],
    do: limit(:remainder, args) |> as_nx()

  def answer(:pow, {kind, _}, _, [_, _] = args) when kind not in [:u, :s, :c],
    do: limit(:pow, args) |> as_nx()

  def answer(_name, _type, _types, _numbers), do: :as_nx

  defp as_nx(:unknown), do: :as_nx
  defp as_nx(known), do: known

  defp alike?(%Complex{re: re, im: im}, x), do: x != :nan and re == x and im == 0
  defp alike?(x, %Complex{} = z), do: alike?(z, x)

  # Scaled first, so that the size is neither too small nor too large.
  defp direction(%Complex{re: re, im: im} = z) do
    largest = max(abs(re), abs(im))
    scaled = if largest == 0, do: z, else: Complex.new(re / largest, im / largest)
    if largest == 0, do: z, else: Complex.divide(scaled, Complex.abs(scaled))
  end

  defp significant_bits(0), do: 0
  defp significant_bits(x), do: x |> Integer.digits(2) |> length()

  defp angle(y, x) when y == :nan or x == :nan, do: :nan
  defp angle(y, x) when is_atom(y) and is_atom(x), do: :math.atan2(sign(y), sign(x))
  defp angle(y, _x) when is_atom(y), do: sign(y) * :math.pi() / 2
  defp angle(y, x), do: if(x == :infinity, do: sign(y) * 0.0, else: sign(y) * :math.pi())

  @doc """
  What IEEE 754 says where the BEAM raises: at poles, outside of domains and beyond the largest number.
  """
  def limit(name, numbers)
  def limit(name, [x]) when name in [:exp, :expm1, :cosh] and is_number(x), do: {:ok, :infinity}
  def limit(:sinh, [x]) when is_number(x), do: {:ok, signed(x)}
  def limit(:sigmoid, [x]) when is_number(x), do: {:ok, 0.0}
  def limit(:rsqrt, [x]) when x == 0, do: {:ok, signed(x)}
  def limit(:atanh, [x]) when x in [1, 1.0, -1, -1.0], do: {:ok, signed(x)}
  def limit(name, [_]) when name in [:sqrt, :rsqrt, :asin, :acos, :acosh, :atanh], do: {:ok, :nan}
  def limit(name, [_]) when name in [:sin, :cos, :tan], do: {:ok, :nan}
  def limit(:log1p, [x]) when x == -1, do: {:ok, :neg_infinity}

  def limit(name, [a, b])
      when name in [:add, :subtract, :multiply] and is_number(a) and is_number(b) do
    sign = if name == :multiply, do: sign(a) * sign(b), else: sign(a)
    {:ok, signed(sign)}
  end

  def limit(:divide, [a, b]), do: {:ok, divide(a, b)}
  def limit(:remainder, [a, b]), do: remainder(a, b)
  def limit(:pow, [a, b]) when is_atom(a) or is_atom(b) or is_number(a), do: power(a, b)
  def limit(_name, _numbers), do: :unknown

  defp divide(a, b) when a == :nan or b == :nan, do: :nan
  defp divide(a, b) when is_atom(a) and is_atom(b), do: :nan
  defp divide(a, b) when a == 0 and b == 0, do: :nan
  defp divide(a, b) when is_atom(b), do: sign(a) * sign(b) * 0.0
  defp divide(a, b), do: signed(sign(a) * sign(b))

  defp remainder(a, b) when a == :nan or b == :nan or is_atom(a) or b == 0, do: {:ok, :nan}
  defp remainder(a, b) when is_atom(b), do: {:ok, a}
  defp remainder(_, _), do: :unknown

  # As pow of C.
  defp power(_, b) when b == 0, do: {:ok, 1.0}
  defp power(a, _) when a == 1, do: {:ok, 1.0}
  defp power(a, b) when a == :nan or b == :nan, do: {:ok, :nan}

  defp power(a, b) when is_atom(b) do
    grows? = size(a) > 1 == (b == :infinity)
    {:ok, if(size(a) == 1, do: 1.0, else: if(grows?, do: :infinity, else: 0.0))}
  end

  defp power(a, b) when is_atom(a) or a == 0 do
    sign = if sign(a) < 0 and odd?(b), do: -1, else: 1
    {:ok, if(is_atom(a) == b > 0, do: signed(sign), else: sign * 0.0)}
  end

  defp power(a, b) when a < 0 and b != trunc(b), do: {:ok, :nan}

  defp power(a, b) do
    _ = :math.pow(a, b)
    :unknown
  rescue
    ArithmeticError -> {:ok, signed(if a < 0 and odd?(b), do: -1, else: 1)}
  end

  defp odd?(b), do: b == trunc(b) and rem(trunc(b), 2) != 0

  defp size(x) when is_atom(x), do: Number.largest({:f, 64})
  defp size(x), do: abs(x)

  defp signed(x), do: if(sign(x) < 0, do: :neg_infinity, else: :infinity)

  defp sign(:infinity), do: 1
  defp sign(:neg_infinity), do: -1
  defp sign(x) when is_float(x), do: if(match?(<<1::1, _::63>>, <<x::float>>), do: -1, else: 1)
  defp sign(x) when x < 0, do: -1
  defp sign(_), do: 1
end
