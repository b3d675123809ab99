defmodule ExBurn.Property.Tolerance do
  @moduledoc """
  How far a result may lie from the right one.

    * `:exact` - the same bits, but for the payload of NaN
    * `:moved` - the same numbers, but for the rounding of types that Nx truncates when it writes them: bf16 and f8
    * `:extremum` - as `:moved`, and zeros of any sign: IEEE 754 leaves open which of two zeros is the larger one, so it
      hangs on the order of a fold
    * `{:ulp, n}` - each element within `n` units in the last place
    * `{:function, n}` - functions without exact values: within one unit in the last place, in f64 within `n`, since Nx's
      answers are rounded too
    * `:complex` - functions of complex numbers: Nx's formulas lose digits of c128, and c64 is computed in c128
    * `{:sum, n}` - each element within `n` roundings of what the same call answers for the absolute values of its
      operands: the bound of sums and products, `n * eps * sum(|x|)`
    * `{:norm, n}` - each element within `n` roundings of the largest one of the whole result
    * `{:near, part}` - each element within a part of the largest one of the whole result

  Integers are always exact. The parts of a complex number are measured together. The sign of a zero counts where a result
  is no sum, in real numbers.
  """

  alias ExBurn.Property.{Call, Number, Operand}

  @doc """
  The bounds of each element of the right results, or `:exact`.
  """
  def bounds(_tolerance, %{type: {kind, _}} = want, _call) when kind in [:u, :s], do: exact(want)
  def bounds(:exact, want, _call), do: exact(want)

  def bounds(:moved, want, {_fun, args} = call) do
    # Of one type from the start, so that nothing is rounded.
    same? =
      Enum.all?(args, &(not is_number(&1))) and
        Enum.all?(Call.operands(args), &(&1.type == want.type))

    same? = same? and Call.operands(args) != []
    bounds({:ulp, if(Number.truncated?(want.type) and not same?, do: 1, else: 0)}, want, call)
  end

  def bounds(:extremum, want, call), do: bounds(:moved, want, call)

  def bounds({:function, n}, want, call),
    do: bounds({:ulp, if(want.type == {:f, 64}, do: n, else: 1)}, want, call)

  def bounds(:complex, want, call),
    do: bounds({:ulp, if(want.type == {:c, 64}, do: 1, else: 512)}, want, call)

  def bounds({:ulp, n}, want, _call) do
    # A complex result is right when the error is small beside its absolute value.
    spread = if match?({:c, _}, want.type), do: 2, else: 1
    for x <- Number.list(want), do: bound(x, &(spread * n * Number.ulp(want.type, &1)))
  end

  # Twice, since both answers are rounded.
  def bounds({:sum, n}, want, call) do
    for {x, size} <- Enum.zip(Number.list(want), call |> absolute() |> Number.list()),
        do: bound(x, fn _ -> 2 * n * eps(want, call) * size(size) + tiny(want.type) end)
  end

  def bounds({:norm, n}, want, call) do
    numbers = Number.list(want)
    allowed = 2 * n * eps(want, call) * largest(numbers) + tiny(want.type)
    for x <- numbers, do: bound(x, fn _ -> allowed end)
  end

  def bounds({:near, part}, want, _call) do
    numbers = Number.list(want)
    for x <- numbers, do: bound(x, fn _ -> part * largest(numbers) end)
  end

  # The largest error of a rounding on the way: that of the type of the fewest digits. A number by itself is an f32.
  defp eps(want, {_fun, args}) do
    numbers = for number when is_float(number) <- args, do: Nx.Type.infer(number)

    ([want.type | numbers] ++ Enum.map(Call.operands(args), & &1.type))
    |> Enum.reject(&Number.integer?/1)
    |> Enum.map(&Number.eps/1)
    |> Enum.max()
  end

  defp largest(numbers),
    do: numbers |> Enum.map(&size/1) |> Enum.filter(&is_float/1) |> Enum.max(fn -> 0.0 end)

  defp exact(want), do: for(_ <- Number.list(want), do: :exact)

  defp bound(x, fun) do
    case size(x) do
      size when is_float(size) -> fun.(size)
      _ -> :exact
    end
  end

  # One step near zero, where relative errors say nothing.
  defp tiny(type), do: type |> Number.smallest() |> elem(0)

  defp absolute({fun, args}) do
    args =
      Call.map(args, fn %Operand{type: type} = operand ->
        %{operand | numbers: Enum.map(operand.numbers, &positive(&1, type))}
      end)

    Call.eager({fun, Enum.map(args, &positive(&1, {:f, 64}))}, Nx.BinaryBackend)
  end

  # The smallest signed integer has no positive one.
  defp positive(number, {:s, _} = type), do: min(abs(number), type |> Number.bounds() |> elem(1))
  defp positive(number, _type) when is_number(number), do: abs(number)
  defp positive(%Complex{} = number, _type), do: size(number)
  defp positive(other, _type), do: other

  @doc """
  Whether zeros must have the signs that they have in the right result.
  """
  def signed_zeros?(_tolerance, %{type: {:c, _}}), do: false
  def signed_zeros?({kind, _}, _want), do: kind in [:ulp, :function]
  def signed_zeros?(tolerance, _want), do: tolerance in [:exact, :moved]

  @doc """
  Whether `got` is close enough to `want`.
  """
  def close?(same, same, _bound), do: true

  def close?(%Complex{} = got, %Complex{} = want, :exact),
    do: got == want or (not finite?(got) and not finite?(want))

  def close?(_got, _want, :exact), do: false

  def close?(got, want, bound) do
    case subtract(got, want) do
      distance when is_float(distance) -> distance <= bound
      _ -> false
    end
  end

  defp subtract(%Complex{} = a, %Complex{} = b),
    do: if(finite?(a) and finite?(b), do: size(Complex.subtract(a, b)), else: :nan)

  defp subtract(a, b) when is_number(a) and is_number(b), do: abs(a - b) * 1.0
  defp subtract(_a, _b), do: :nan

  defp finite?(%Complex{re: re, im: im}), do: is_number(re) and is_number(im)

  defp size(%Complex{re: re, im: im}) when is_number(re) and is_number(im),
    do:
      if(max(abs(re), abs(im)) > 1.0e150, do: :nan, else: Complex.abs(Complex.new(re, im)) * 1.0)

  defp size(x) when is_number(x), do: abs(x) * 1.0
  defp size(_x), do: :nan
end
