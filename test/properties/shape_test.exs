defmodule ExBurn.Properties.ShapeTest do
  use ExBurn.Property, async: true

  import StreamData

  property "reshape" do
    same(
      {Nx, :reshape},
      with_shape(fn t, shape ->
        map({order(tuple_size(shape)), member_of([0, 1])}, fn {order, ones} ->
          sizes = for axis <- order, do: elem(shape, axis)
          [t, List.to_tuple(List.duplicate(1, ones) ++ sizes)]
        end)
      end)
    )
  end

  property "flatten" do
    same({Nx, :flatten}, with_shape(fn t, _shape -> constant([t]) end))
  end

  property "squeeze", do: same({Nx, :squeeze}, one(:any, largest: 2))

  property "new_axis" do
    same(
      {Nx, :new_axis},
      with_shape(fn t, shape ->
        rank = tuple_size(shape)
        map(integer(-(rank + 1)..rank), &[t, &1])
      end)
    )
  end

  property "transpose" do
    same(
      {Nx, :transpose},
      with_shape(fn t, shape ->
        map(options(axes: order(tuple_size(shape))), &[t, &1])
      end)
    )
  end

  property "reverse" do
    same({Nx, :reverse}, with_shape(fn t, shape -> map(options(axes: axes(shape)), &[t, &1]) end))
  end

  property "broadcast" do
    same(
      {Nx, :broadcast},
      bind({shape(), types(:any), vector()}, fn {shape, type, vector} ->
        bind(narrower(shape), fn narrow ->
          map(operand(type, narrow, vector: vector, names: false), &[&1, shape])
        end)
      end)
    )
  end

  property "broadcast to named axes" do
    same(
      {Nx, :broadcast},
      bind({shape(rank: [1, 2, 3, 4]), types(:any)}, fn {shape, type} ->
        bind(axes(shape), fn axes ->
          axes = Enum.sort(axes)
          kept = axes |> Enum.map(&elem(shape, &1)) |> List.to_tuple()
          map(operand(type, kept, names: false), &[&1, shape, [axes: axes]])
        end)
      end)
    )
  end

  property "tile" do
    same(
      {Nx, :tile},
      with_shape([names: false], fn t, shape ->
        map(list_of(integer(1..3), length: min(tuple_size(shape) + 1, 3)), &[t, &1])
      end)
    )
  end

  property "pad" do
    same(
      {Nx, :pad},
      bind({shape(), types(:any), vector()}, fn {shape, type, vector} ->
        low_high_inner = {integer(-2..2), integer(-2..2), integer(0..2)}
        configuration = list_of(low_high_inner, length: tuple_size(shape))

        map(
          {operand(type, shape, vector: vector), filling(type), configuration},
          &Tuple.to_list/1
        )
      end)
    )
  end

  property "pad_outer" do
    modes = member_of([:reflect, :symmetric, :edge, :circular])

    same(
      {Nx, :pad_outer},
      with_shape([rank: [1, 2, 3]], fn t, shape ->
        map({modes, list_of({integer(0..2), integer(0..2)}, length: tuple_size(shape))}, fn {mode,
                                                                                             pads} ->
          [t, mode, pads]
        end)
      end)
    )
  end

  property "concatenate" do
    same({Nx, :concatenate}, joined(fn shape, axis -> put_axis(shape, axis, integer(1..3)) end))
  end

  property "stack" do
    same(
      {Nx, :stack},
      bind({shape(largest: 3), vector()}, fn {shape, vector} ->
        bind(integer(1..3), fn count ->
          each = bind(types(:any), &operand(&1, shape, vector: vector))

          map(
            {list_of(each, length: count), integer(-(tuple_size(shape) + 1)..tuple_size(shape))},
            fn {ts, axis} -> [ts, [axis: axis]] end
          )
        end)
      end)
    )
  end

  property "split" do
    same(
      {Nx, :split},
      with_shape([rank: [1, 2, 3]], fn t, shape ->
        bind(axis(shape), fn axis ->
          map(integer(-1..(axis_size(shape, axis) + 1)), &[t, &1, [axis: axis]])
        end)
      end)
    )
  end

  property "tril and triu" do
    for name <- [:tril, :triu] do
      same(
        {Nx, name},
        with_shape([rank: [1, 2, 2, 3]], fn t, _ -> map(options(k: integer(-4..4)), &[t, &1]) end)
      )
    end
  end

  property "take_diagonal" do
    same(
      {Nx, :take_diagonal},
      with_shape([rank: [2, 3]], fn t, _ -> map(options(offset: integer(-3..3)), &[t, &1]) end)
    )
  end

  property "make_diagonal" do
    same(
      {Nx, :make_diagonal},
      with_shape([rank: [1, 2]], fn t, _ -> map(options(offset: integer(-3..3)), &[t, &1]) end)
    )
  end

  property "put_diagonal" do
    same(
      {Nx, :put_diagonal},
      bind({integer(1..5), integer(1..5), integer(-2..2)}, fn {rows, columns, offset} ->
        size = if offset >= 0, do: min(rows, columns - offset), else: min(rows + offset, columns)

        bind({types(:any), types(:any)}, fn {type, other} ->
          map({operand(type, {rows, columns}), operand(other, {max(size, 1)})}, fn {t, d} ->
            [t, d, [offset: offset]]
          end)
        end)
      end)
    )
  end

  property "as_type" do
    same(
      {Nx, :as_type},
      bind({types(:any), types(:any), shape(largest: 3), vector()}, fn {from, to, shape, vector} ->
        map(operand(from, shape, vector: vector), &[&1, to])
      end),
      {:ulp, 1}
    )
  end

  property "bitcast" do
    same(
      {Nx, :bitcast},
      bind({types(:any), shape(largest: 3)}, fn {{_, size} = from, shape} ->
        to =
          for type <- ExBurn.Property.Generators.all_types(), match?({_, ^size}, type), do: type

        map({operand(from, shape), member_of(to)}, fn {t, to} -> [t, to] end)
      end)
    )
  end

  property "vectorize and devectorize" do
    fun =
      source(fn t ->
        t
        |> Nx.devectorize(keep_names: false)
        |> Nx.vectorize([:n])
        |> Nx.add(1)
        |> Nx.devectorize()
      end)

    same(fun, one(:real, range: :moderate, rank: [1, 2, 3]), {:ulp, 1})
  end

  property "revectorize" do
    same(source(fn t -> Nx.revectorize(t, [n: :auto], target_shape: {}) end), one(:any))
  end

  # An operand of any type and what `fun` makes of it and its shape.
  defp with_shape(opts \\ [], fun) do
    bind({shape(opts), types(:any), vector()}, fn {shape, type, vector} ->
      bind(operand(type, shape, [vector: vector] ++ opts), &fun.(&1, shape))
    end)
  end

  defp filling(type),
    do: one_of([operand(type, {}), bind(types(:real), &operand(&1, {})), constant(0)])

  defp joined(shapes) do
    bind({shape(rank: [1, 2, 3, 4], largest: 3), vector(), integer(1..3)}, fn {shape, vector,
                                                                               count} ->
      bind(axis(shape), fn axis ->
        each =
          bind({types(:any), shapes.(shape, axis)}, fn {type, shape} ->
            operand(type, shape, vector: vector, names: false)
          end)

        map(list_of(each, length: count), &[&1, [axis: axis]])
      end)
    end)
  end

  defp put_axis(shape, axis, sizes), do: map(sizes, &put_elem(shape, index(shape, axis), &1))
  defp axis_size(shape, axis), do: elem(shape, index(shape, axis))
  defp index(shape, axis), do: if(axis < 0, do: axis + tuple_size(shape), else: axis)
end
