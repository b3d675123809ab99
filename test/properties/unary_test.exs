defmodule ExBurn.Properties.UnaryTest do
  use ExBurn.Property, async: true

  @real_or_complex ~w(exp expm1 log log1p sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh sqrt rsqrt cbrt
                      sigmoid)a
  # On the axes lie the cuts of the branches, where the sign of zero decides.
  @real ~w(erf erfc erf_inv)a
  @exact ~w(abs negate sign ceil floor round)a
  @parts ~w(abs negate sign real imag conjugate)a
  @tests ~w(is_nan is_infinity logical_not)a
  @bits ~w(bitwise_not population_count count_leading_zeros)a

  for name <- @real_or_complex do
    # 1 / (1 + exp(-x)) is rounded three times.
    @tolerance if(name == :sigmoid, do: {:ulp, 3}, else: {:function, 2})
    property "#{name}", do: same({Nx, unquote(name)}, one(:real), @tolerance)

    property "#{name} of complex numbers",
      do: same({Nx, unquote(name)}, one(:complex, range: :off_axes), :complex)
  end

  for name <- @real do
    property "#{name}", do: same({Nx, unquote(name)}, one(:real), {:function, 2})
  end

  for name <- @exact do
    property "#{name}", do: same({Nx, unquote(name)}, one(:real), :moved)
  end

  for name <- @parts do
    property "#{name} of complex numbers",
      do: same({Nx, unquote(name)}, one(:complex, range: :moderate), :complex)
  end

  for name <- @tests do
    property "#{name}", do: same({Nx, unquote(name)}, one(:any))
  end

  for name <- @bits do
    property "#{name}", do: same({Nx, unquote(name)}, one(:int))
  end

  property "phase", do: same({Nx, :phase}, one(:any, range: :finite), {:ulp, 2})
  property "log2", do: same({Nx, :log2}, one([:int, :wide_float]), {:ulp, 3})
  property "log10", do: same({Nx, :log10}, one([:int, :wide_float]), {:ulp, 3})
end
