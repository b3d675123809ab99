defmodule ExBurn.Properties.WindowTest do
  use ExBurn.Property, async: true

  import StreamData

  property "window_sum", do: same({Nx, :window_sum}, windows(:any, :moderate), {:sum, 32})
  property "window_sum of integers", do: same({Nx, :window_sum}, windows(:int, :any))
  property "window_product", do: same({Nx, :window_product}, windows(:any, :unit), {:sum, 32})

  property "window_mean",
    do: same({Nx, :window_mean}, windows([:int, :wide_float], :moderate), {:sum, 32})

  property "window_max",
    do: same({Nx, :window_max}, windows(:real, :any), :extremum)

  property "window_min",
    do: same({Nx, :window_min}, windows(:real, :any), :extremum)

  for name <- [:window_scatter_max, :window_scatter_min] do
    property "#{name}", do: same({Nx, unquote(name)}, scattered(), {:norm, 16})
  end

  for {name, fun} <- [
        addition:
          quote(
            do: fn t, acc, window, opts ->
              Nx.window_reduce(t, acc, window, opts, fn a, b -> Nx.add(a, b) end)
            end
          ),
        minimum:
          quote(
            do: fn t, acc, window, opts ->
              Nx.window_reduce(t, acc, window, opts, fn a, b -> Nx.min(a, b) end)
            end
          )
      ] do
    property "window_reduce by #{name}" do
      same(source(unquote(fun)), with_start(), {:norm, 32})
    end
  end

  defp windows(kind, range) do
    bind({shape(rank: [1, 2, 3, 4], largest: 4), types(kind), vector()}, fn {shape, type, vector} ->
      bind({operand(type, shape, range: range, vector: vector), window(shape)}, fn {t, window} ->
        map(window_options(shape), &[t, window, &1])
      end)
    end)
  end

  # Nx.BinaryBackend calls the function with s32 and f32 only.
  defp with_start do
    bind({shape(rank: [1, 2, 3], largest: 4), types([{:s, 32}, {:f, 32}])}, fn {shape, type} ->
      operands =
        {operand(type, shape, range: :moderate, names: false),
         operand(type, {}, range: :moderate)}

      map({operands, window(shape), window_options(shape)}, fn {{t, acc}, window, opts} ->
        [t, acc, window, opts]
      end)
    end)
  end

  # Windows that fit, so that there is at least one.
  defp window(shape) do
    shape
    |> Tuple.to_list()
    |> Enum.map(&integer(1..min(&1, 3)))
    |> fixed_list()
    |> map(&List.to_tuple/1)
  end

  defp window_options(shape) do
    rank = tuple_size(shape)
    each = list_of(integer(1..3), length: rank)
    sides = list_of({integer(-1..2), integer(0..2)}, length: rank)

    options(
      strides: one_of([integer(1..2), each]),
      padding: one_of([constant(:same), constant(:valid), sides]),
      window_dilations: one_of([integer(1..2), each])
    )
  end

  # Nx.BinaryBackend makes numbers f32 on the way, and chooses otherwise among elements of less than a byte.
  defp scattered do
    bind(
      {shape(rank: [1, 2, 3], largest: 5), types([:bytes, {:bf, 16}, {:f, 16}, {:f, 32}])},
      fn {shape, type} ->
        bind({window(shape), window_places(shape)}, fn {window, opts} ->
          source =
            Nx.Shape.pool(
              shape,
              window,
              opts[:strides],
              opts[:padding],
              List.duplicate(1, tuple_size(shape))
            )
            |> elem(0)

          operands =
            {operand(type, shape, range: {-3, 3}, names: false),
             operand(type, source, range: :moderate, names: false),
             operand(type, {}, range: {-8, 8})}

          map(operands, fn {t, source, init} -> [t, source, init, window, opts] end)
        end)
      end
    )
  end

  defp window_places(shape) do
    rank = tuple_size(shape)

    map(
      {list_of(integer(1..2), length: rank),
       list_of({integer(0..1), integer(0..1)}, length: rank)},
      fn {strides, padding} ->
        [strides: strides, padding: padding]
      end
    )
  end
end
