defmodule ExBurn.Properties.CreationTest do
  use ExBurn.Property, async: true

  import StreamData

  property "iota" do
    same(
      {Nx, :iota},
      bind({shape(), types(:any)}, fn {shape, type} ->
        axis = if shape == {}, do: constant(nil), else: one_of([constant(nil), axis(shape)])
        map(axis, &[shape, [type: type, axis: &1]])
      end)
    )
  end

  property "eye" do
    same(
      {Nx, :eye},
      map({shape(rank: [1, 2, 3, 4]), types(:any)}, fn {shape, type} -> [shape, [type: type]] end)
    )
  end

  property "tri" do
    same(
      {Nx, :tri},
      map({integer(1..5), integer(1..5), integer(-5..5), types(:any)}, fn {n, m, k, type} ->
        [n, m, [k: k, type: type]]
      end)
    )
  end

  property "linspace" do
    ends = map(integer(-64..64), &(&1 / 8))

    same(
      {Nx, :linspace},
      map({ends, ends, integer(2..9), types(:wide_float), boolean()}, fn {a, b, n, type, endpoint} ->
        [a, b, [n: n, type: type, endpoint: endpoint]]
      end),
      {:norm, 8}
    )
  end

  property "broadcast of a number" do
    same(
      {Nx, :broadcast},
      bind({shape(), types(:any)}, fn {shape, type} ->
        map(number(type), &[&1, shape])
      end)
    )
  end

  property "tensor of numbers" do
    same(
      {Nx, :tensor},
      bind({types(:any), integer(1..6)}, fn {type, n} ->
        map(list_of(number(type), length: n), &[&1, [type: type]])
      end)
    )
  end

  property "fill" do
    same(
      {Nx, :fill},
      bind({types(:any), shape(), types(:any)}, fn {type, shape, other} ->
        map({operand(type, shape), number(other)}, fn {t, x} -> [t, x, [type: other]] end)
      end)
    )
  end
end
