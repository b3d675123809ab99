defmodule ExBurn.Properties.IndexingTest do
  use ExBurn.Property, async: true

  import StreamData

  property "slice" do
    same(
      {Nx, :slice},
      with_shape(fn t, shape ->
        bind(boxes(shape), fn boxes ->
          {lengths, strides} = Enum.unzip(boxes)

          map({starts(shape), options(strides: constant(strides))}, fn {starts, opts} ->
            [t, starts, lengths, opts]
          end)
        end)
      end)
    )
  end

  property "slice_along_axis" do
    same(
      {Nx, :slice_along_axis},
      with_shape([rank: [1, 2, 3]], fn t, shape ->
        bind(axis(shape), fn axis ->
          size = axis_size(shape, axis)

          bind(integer(1..size), fn length ->
            map({one_of([integer(0..(size - length)), index()]), strides(axis)}, fn {start, opts} ->
              [t, start, length, opts]
            end)
          end)
        end)
      end)
    )
  end

  property "put_slice" do
    same(
      {Nx, :put_slice},
      with_shape([vector: false], fn t, shape ->
        bind({boxes(shape), types(:any)}, fn {boxes, type} ->
          lengths = for {length, _} <- boxes, do: length

          map({starts(shape), operand(type, List.to_tuple(lengths), names: false)}, fn {starts, s} ->
            [t, starts, s]
          end)
        end)
      end)
    )
  end

  property "take" do
    same(
      {Nx, :take},
      with_shape([rank: [1, 2, 3], names: false], fn t, shape ->
        bind(axis(shape), fn axis ->
          map(
            indices(axis_size(shape, axis), shape(rank: [0, 1, 2], largest: 4)),
            &[t, &1, [axis: axis]]
          )
        end)
      end)
    )
  end

  property "take_along_axis" do
    same(
      {Nx, :take_along_axis},
      with_shape([rank: [1, 2, 3], names: false], fn t, shape ->
        bind({axis(shape), integer(1..4)}, fn {axis, count} ->
          index_shape = constant(put_elem(shape, position(shape, axis), count))
          map(indices(axis_size(shape, axis), index_shape), &[t, &1, [axis: axis]])
        end)
      end)
    )
  end

  property "gather" do
    same(
      {Nx, :gather},
      with_shape([rank: [1, 2, 3], names: false], fn t, shape ->
        bind({axes(shape, 1), shape(rank: [0, 1, 2], largest: 3)}, fn {axes, outer} ->
          axes = Enum.sort(axes)
          map(tuples(shape, axes, outer), &[t, &1, [axes: axes]])
        end)
      end)
    )
  end

  property "indexed_add", do: same({Nx, :indexed_add}, indexed(:moderate), {:sum, 16})
  property "indexed_put", do: same({Nx, :indexed_put}, indexed(:any))

  property "select" do
    same(
      {Nx, :select},
      bind({shape(), vector()}, fn {shape, vector} ->
        side = fn kind ->
          bind({types(kind), one_of([constant(shape), constant({}), narrower(shape)])}, fn {type,
                                                                                            shape} ->
            operand(type, shape, vector: vector)
          end)
        end

        map({side.(:any), side.(:any), side.(:any)}, &Tuple.to_list/1)
      end)
    )
  end

  # Bounds that every type of a result has: what does not fit wraps around, in Nx after clipping, here before it.
  property "clip" do
    bound =
      bind({types(:real), member_of([{-9, 9}, :moderate])}, fn {type, range} ->
        operand(type, {}, range: range)
      end)

    same(
      {Nx, :clip},
      with_shape([kind: :real], fn t, _shape ->
        map({bound, bound}, fn {low, high} -> [t, low, high] end)
      end)
    )
  end

  property "access" do
    same(source(fn t -> t[0] end), one(:any, rank: [1, 2, 3]))
    same(source(fn t -> t[[.., -1..0//-1]] end), one(:any, rank: [2, 3]))

    same(
      source(fn t, i -> t[i] end),
      with_shape([rank: [1, 2, 3]], fn t, _ -> map(index(), &[t, &1]) end)
    )
  end

  # Nx flattens the updates of vectorized tensors, of which Nx.BinaryBackend then reads one number a row.
  defp indexed(range) do
    with_shape([rank: [1, 2, 3], names: false, vector: false, range: range], fn t, shape ->
      bind({axes(shape, 1), integer(1..4), types(:any)}, fn {axes, count, type} ->
        axes = Enum.sort(axes)
        kept = for axis <- 0..(tuple_size(shape) - 1), axis not in axes, do: elem(shape, axis)
        updates = operand(type, List.to_tuple([count | kept]), names: false, range: range)
        map({tuples(shape, axes, {count}), updates}, fn {i, u} -> [t, i, u, [axes: axes]] end)
      end)
    end)
  end

  defp with_shape(opts \\ [], fun) do
    vector = if Keyword.get(opts, :vector, true), do: vector(), else: constant([])

    bind({shape([largest: 4] ++ opts), types(opts[:kind] || :any), vector}, fn {shape, type,
                                                                                vector} ->
      bind(
        operand(type, shape, [vector: vector] ++ Keyword.delete(opts, :vector)),
        &fun.(&1, shape)
      )
    end)
  end

  # Lengths that fit into each axis, and strides.
  defp boxes(shape) do
    shape |> Tuple.to_list() |> Enum.map(&{integer(1..&1), integer(1..2)}) |> fixed_list()
  end

  # Whole numbers, or tensors that are known at run time only; those out of bounds are clamped.
  defp starts(shape) do
    list_of(one_of([integer(0..2), index()]), length: tuple_size(shape))
  end

  defp index, do: bind(types(:int), &operand(&1, {}, range: {-2, 5}))

  defp strides(axis), do: map(integer(1..2), &[axis: axis, strides: &1])

  # Nearly always inside of an axis of `size`, else both raise.
  defp indices(size, shape) do
    bind({types(:int), shape, outside()}, fn {type, shape, outside} ->
      operand(type, shape, names: false, range: {0 - outside, size - 1 + outside})
    end)
  end

  defp outside, do: frequency([{9, constant(0)}, {1, constant(1)}])

  # Positions on some axes: one column for each axis.
  defp tuples(shape, axes, outer) do
    least = axes |> Enum.map(&elem(shape, &1)) |> Enum.min()
    full = Tuple.insert_at(outer, tuple_size(outer), length(axes))
    indices(least, constant(full))
  end

  defp axis_size(shape, axis), do: elem(shape, position(shape, axis))
  defp position(shape, axis), do: if(axis < 0, do: axis + tuple_size(shape), else: axis)
end
