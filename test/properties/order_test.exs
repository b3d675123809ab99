defmodule ExBurn.Properties.OrderTest do
  use ExBurn.Property, async: true

  import StreamData

  property "sort", do: same({Nx, :sort}, ordered(:any), :moved)
  property "argsort", do: same({Nx, :argsort}, ordered({-2, 2}))
  property "argsort of everything", do: same({Nx, :argsort}, ordered(:any))

  property "top_k" do
    same(
      {Nx, :top_k},
      bind({shape(rank: [1, 2, 3]), types(:real), vector()}, fn {shape, type, vector} ->
        last = elem(shape, tuple_size(shape) - 1)

        map(
          {operand(type, shape, vector: vector), options(k: integer(1..last))},
          &Tuple.to_list/1
        )
      end),
      :moved
    )
  end

  # Equal elements keep their order only if that is asked for.
  defp ordered(range) do
    bind({shape(rank: [1, 2, 3, 4]), types(:real), vector()}, fn {shape, type, vector} ->
      options = options(axis: axis(shape), direction: member_of([:asc, :desc]))

      map({operand(type, shape, vector: vector, range: range), options}, fn {t, options} ->
        [t, [stable: true] ++ options]
      end)
    end)
  end
end
