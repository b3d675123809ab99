defmodule ExBurn.Property.Number do
  @moduledoc """
  Numbers of a type: ranges, rounding, distance. Everything is computed in f64 and integers.
  """

  # {bits of precision, smallest exponent of a normal number, largest finite number}
  @floats %{
    {:f, 64} => {53, -1022, 1.7976931348623157e308},
    {:f, 32} => {24, -126, 3.4028234663852886e38},
    {:f, 16} => {11, -14, 65504.0},
    {:bf, 16} => {8, -126, 3.3895313892515355e38},
    {:f, 8} => {3, -14, 57344.0},
    {:f8_e4m3fn, 8} => {4, -6, 448.0}
  }

  @doc """
  Whether the type is an integer type.
  """
  def integer?({kind, _}), do: kind in [:u, :s]

  @doc """
  The real type whose pairs are a complex type; any other type itself.
  """
  def real({:c, size}), do: {:f, div(size, 2)}
  def real(type), do: type

  @doc """
  The smallest and the largest number of an integer type.
  """
  def bounds({:u, size}), do: {0, 2 ** size - 1}
  def bounds({:s, size}), do: {-(2 ** (size - 1)), 2 ** (size - 1) - 1}

  @doc """
  The largest finite number of a float type.
  """
  def largest(type), do: @floats |> Map.fetch!(real(type)) |> elem(2)

  @doc """
  An infinity as the number that would follow the largest one; any other number itself.

  Rounding to the nearest answers an infinity where Nx, which truncates some types, answers the largest number.
  """
  def closed(:infinity, type), do: largest(type) + ulp(type, largest(type))
  def closed(:neg_infinity, type), do: -closed(:infinity, type)
  def closed(number, _type), do: number

  @doc """
  Whether Nx truncates numbers to write them in this type.
  """
  def truncated?(type), do: type in [{:bf, 16}, {:f, 8}, {:f8_e4m3fn, 8}]

  @doc """
  The smallest number above zero, and the smallest with all bits of precision.
  """
  def smallest(type) do
    {precision, exponent, _} = Map.fetch!(@floats, real(type))
    {:math.pow(2.0, exponent - precision + 1), :math.pow(2.0, exponent)}
  end

  @doc """
  Half of the distance from 1.0 to the next number: the largest relative error of one rounding.
  """
  def eps(type), do: :math.pow(2.0, -(@floats |> Map.fetch!(real(type)) |> elem(0)))

  @doc """
  The distance between neighbours of a float type at `x`.
  """
  def ulp(type, x) do
    {precision, smallest, _} = Map.fetch!(@floats, real(type))
    power = max(exponent(x), smallest) - precision + 1

    if power < -1022,
      do: :math.pow(2.0, power + 60) * :math.pow(2.0, -60),
      else: :math.pow(2.0, power)
  end

  @doc """
  `x` rounded to the nearest number of a float type, ties to even. `f8_e4m3fn` has no infinity and saturates.
  """
  def round_to(_type, x) when is_atom(x), do: x
  def round_to({:f, 64}, x), do: x * 1.0

  def round_to(type, x) do
    if abs(x) > 2 * largest(type), do: beyond(type, x), else: nearest(type, x * 1.0)
  end

  defp nearest(type, x) do
    step = ulp(type, x)
    rounded = half_even(x / step) * step

    cond do
      rounded == 0 -> x * 0.0
      abs(rounded) <= largest(type) -> rounded
      true -> beyond(type, x)
    end
  end

  defp beyond({:f8_e4m3fn, 8}, x), do: if(x > 0, do: 448.0, else: -448.0)
  defp beyond(_type, x), do: if(x > 0, do: :infinity, else: :neg_infinity)

  # Dividing by a power of two is exact, and a quotient with all its bits before the point is a whole number already.
  defp half_even(x) do
    floor = Float.floor(x)
    odd = floor - 2 * Float.floor(floor / 2)

    case x - floor do
      half when half > 0.5 -> floor + 1
      0.5 -> floor + odd
      _ -> floor
    end
  end

  @doc """
  The elements of a tensor, vectorized or not, as numbers.
  """
  def list(%{type: {:f, 8}} = t),
    do:
      for(<<sign::1, exponent::5, fraction::2 <- t |> Nx.devectorize() |> Nx.to_binary()>>,
        do: f8(sign, exponent, fraction)
      )

  def list(t), do: t |> Nx.devectorize() |> Nx.to_flat_list()

  # By hand, since Nx reads those below the smallest normal number wrongly.
  defp f8(0, 31, 0), do: :infinity
  defp f8(1, 31, 0), do: :neg_infinity
  defp f8(_sign, 31, _fraction), do: :nan
  defp f8(1, exponent, fraction), do: -f8(0, exponent, fraction)
  defp f8(0, 0, fraction), do: fraction * :math.pow(2.0, -16)
  defp f8(0, exponent, fraction), do: (4 + fraction) * :math.pow(2.0, exponent - 17)

  @doc """
  The sign of a zero of floats, `:plus` or `:minus`, and that of each part of a complex number; `nil` of other numbers.
  """
  def zero(%Complex{re: re, im: im}) when is_number(re) and is_number(im),
    do: {zero(re), zero(im)}

  def zero(x) when is_float(x) and x == 0,
    do: if(<<x::float>> == <<0::64>>, do: :plus, else: :minus)

  def zero(_x), do: nil

  @doc """
  Whether two numbers have zeros of the same sign where both have zeros.
  """
  def zeros_alike?(a, b), do: alike?(zero(a), zero(b))

  defp alike?({re, im}, {other_re, other_im}), do: alike?(re, other_re) and alike?(im, other_im)
  defp alike?(a, b), do: a == nil or b == nil or a == b

  # Of the number as it is written: e with 2^e <= |x| < 2^(e+1).
  defp exponent(x) do
    case <<x::float-64>> do
      <<_::1, 0::11, 0::52>> -> -10_000
      <<_::1, 0::11, fraction::52>> -> length(Integer.digits(fraction, 2)) - 1075
      <<_::1, e::11, _::52>> -> e - 1023
    end
  end
end
