defmodule ExBurn.Fuzz.Steps.Indexing do
  @moduledoc """
  Steps that read and write at places.
  """

  import ExBurn.Fuzz.Builder

  alias ExBurn.Property.Operand

  @doc """
  Makers of steps and their weights.
  """
  def makers do
    [
      {5, &slice/1},
      {3, &put_slice/1},
      {3, &take/1},
      {2, &take_along_axis/1},
      {3, &gather/1},
      {3, &indexed/1}
    ]
  end

  defp slice(b) do
    ref = pick(b, &(rank(&1) > 0))
    sizes = Tuple.to_list(value(b, ref).shape)
    lengths = Enum.map(sizes, &one_of(1..&1))
    {starts, b} = starts(b, sizes)
    strides = if chance(2), do: [], else: [strides: Enum.map(sizes, fn _ -> 1 + below(2) end)]
    {_, b} = emit(b, :slice, [ref, starts, lengths, strides])
    b
  end

  # Places that lie outside too, some of them known when the program runs only.
  defp starts(b, sizes) do
    Enum.map_reduce(sizes, b, fn size, b ->
      if chance(4), do: start(b), else: {below(size), b}
    end)
  end

  defp start(b), do: {pick(b, &(rank(&1) == 0 and integer?(&1) and &1.vectorized_axes == [])), b}

  defp put_slice(b) do
    ref = pick(b, &(rank(&1) > 0))
    t = value(b, ref)
    slice = pick(b, &inside?(&1, t))
    {starts, b} = starts(b, Tuple.to_list(t.shape))
    {_, b} = emit(b, :put_slice, [ref, starts, slice])
    b
  end

  defp inside?(a, t) do
    rank(a) == rank(t) and
      Enum.all?(Enum.zip(Tuple.to_list(a.shape), Tuple.to_list(t.shape)), fn {m, n} -> m <= n end)
  end

  defp take(b) do
    ref = pick(b, &(rank(&1) in 1..3))
    axis = one_of(axes(value(b, ref)))
    {indices, b} = places(b, one_of([{}, {2}, {3}, {2, 2}]), [elem(value(b, ref).shape, axis)])
    {_, b} = emit(b, :take, [ref, indices, [axis: axis]])
    b
  end

  # Known from a sort, or any.
  defp take_along_axis(b) do
    ref = pick(b, &(rank(&1) in 1..3 and real?(&1)))
    axis = one_of(axes(value(b, ref)))
    {indices, b} = emit(b, :argsort, [ref, [axis: axis, stable: true]])
    {_, b} = emit(b, :take_along_axis, [ref, indices, [axis: axis]])
    b
  end

  defp gather(b) do
    ref = pick(b, &(rank(&1) in 1..3))
    {indices, axes, b} = points(b, value(b, ref))
    {_, b} = emit(b, :gather, [ref, indices, [axes: axes]])
    b
  end

  defp points(b, t) do
    axes = t |> axes() |> some(1) |> Enum.sort()
    {indices, b} = places(b, {1 + below(3), length(axes)}, Enum.map(axes, &elem(t.shape, &1)))
    {indices, axes, b}
  end

  defp indexed(b) do
    ref = pick(b, &(rank(&1) in 1..3))
    t = value(b, ref)
    {indices, axes, b} = points(b, t)
    count = elem(value(b, indices).shape, 0)
    rest = for axis <- axes(t), axis not in axes, do: elem(t.shape, axis)
    {updates, b} = tensor(b, t.type, List.to_tuple([count | rest]))

    op =
      if repeated?(value(b, indices)),
        do: :indexed_add,
        else: one_of([:indexed_add, :indexed_put])

    {_, b} = emit(b, op, [ref, indices, updates, [axes: axes]])
    b
  end

  # Which of several updates of one place stays is not defined.
  defp repeated?(indices) do
    rows = Nx.to_list(indices)
    Enum.uniq(rows) != rows
  end

  # Indices below `sizes`, which go round along the last axis.
  defp places(b, shape, sizes) do
    count = max(Tuple.product(shape), 1)
    numbers = sizes |> Stream.cycle() |> Enum.take(count) |> Enum.map(&below/1)

    operand = %Operand{
      type: one_of([{:s, 64}, {:s, 32}, {:u, 8}]),
      shape: shape,
      numbers: numbers
    }

    input(b, operand, :captured)
  end

  defp tensor(b, type, shape) do
    {ref, b} =
      input(b, %Operand{type: {:s, 32}, shape: shape, numbers: numbers(shape)}, :captured)

    emit(b, :as_type, [ref, type])
  end

  defp numbers(shape), do: for(_ <- 1..max(Tuple.product(shape), 1), do: below(7))
end
