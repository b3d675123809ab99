defmodule ExBurn.Properties.BinaryTest do
  use ExBurn.Property, async: true

  @arithmetic ~w(add subtract multiply)a
  @comparisons ~w(equal not_equal)a
  @orders ~w(greater less greater_equal less_equal)a
  @logic ~w(logical_and logical_or logical_xor)a
  @bitwise ~w(bitwise_and bitwise_or bitwise_xor)a
  @shifts ~w(left_shift right_shift)a

  for name <- @arithmetic do
    property "#{name}", do: same({Nx, unquote(name)}, two(:real, :real), {:ulp, 1})

    property "#{name} of complex numbers",
      do: same({Nx, unquote(name)}, two(:any, :complex, range: :moderate), {:ulp, 4})
  end

  for name <- @comparisons ++ @logic do
    property "#{name}", do: same({Nx, unquote(name)}, two(:any, :any))
  end

  for name <- @orders do
    property "#{name}", do: same({Nx, unquote(name)}, two(:real, :real))
  end

  for name <- [:max, :min] do
    property "#{name}", do: same({Nx, unquote(name)}, two(:real, :real), :moved)
  end

  for name <- @bitwise do
    property "#{name}", do: same({Nx, unquote(name)}, two(:int, :int))
  end

  for name <- @shifts do
    property "#{name}", do: same({Nx, unquote(name)}, two(:int, :int, right: [range: {0, 70}]))
  end

  property "divide", do: same({Nx, :divide}, two(:real, :real), {:ulp, 1})

  property "divide of complex numbers",
    do: same({Nx, :divide}, two(:any, :complex, range: :positive), {:ulp, 8})

  property "quotient", do: same({Nx, :quotient}, two(:int, :int))
  property "remainder", do: same({Nx, :remainder}, two(:real, :real), {:ulp, 1})
  property "pow", do: same({Nx, :pow}, two(:float, :real), {:ulp, 1})
  property "pow of integers", do: same({Nx, :pow}, two(:int, :int, right: [range: {0, 9}]))

  property "pow of complex numbers",
    do: same({Nx, :pow}, two(:any, :complex, range: :positive), {:ulp, 64})

  property "atan2", do: same({Nx, :atan2}, two(:real, :real), {:ulp, 1})
  property "complex", do: same({Nx, :complex}, two(:real, :real, range: :moderate))

  property "log of a base",
    do:
      same(
        {Nx, :log},
        two(:wide_float, :wide_float, range: :positive, right: [range: {2, 9}]),
        {:norm, 8}
      )
end
