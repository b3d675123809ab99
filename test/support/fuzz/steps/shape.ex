defmodule ExBurn.Fuzz.Steps.Shape do
  @moduledoc """
  Steps that move elements, and steps that make tensors of none.
  """

  import ExBurn.Fuzz.Builder

  alias ExBurn.Property.Operand

  @doc """
  Makers of steps and their weights.
  """
  def makers do
    [
      {4, &reshape/1},
      {4, &transpose/1},
      {4, &broadcast/1},
      {2, &squeeze/1},
      {2, &new_axis/1},
      {2, &reverse/1},
      {3, &pad/1},
      {3, &concatenate/1},
      {2, &stack/1},
      {1, &tile/1},
      {1, &split/1},
      {1, &triangle/1},
      {3, &iota/1},
      {1, &eye/1},
      {1, &random/1},
      {1, &diagonal/1},
      {1, &vectorize/1},
      {2, &devectorize/1}
    ]
  end

  defp reshape(b) do
    ref = pick(b)

    {_, b} =
      emit(b, :reshape, [ref, b |> value(ref) |> Nx.size() |> factors() |> List.to_tuple()])

    b
  end

  # Axes of so many elements, with some of one element.
  defp factors(1), do: List.duplicate(1, below(3))

  defp factors(size) do
    divisor = one_of(for n <- 1..size, rem(size, n) == 0, do: n)

    if divisor == size or chance(4),
      do: shuffled([divisor, div(size, divisor)]),
      else: [divisor | factors(div(size, divisor))]
  end

  defp transpose(b) do
    ref = pick(b, &(rank(&1) > 1))
    axes = b |> value(ref) |> axes()
    args = if chance(3), do: [ref], else: [ref, [axes: shuffled(axes)]]
    {_, b} = emit(b, :transpose, args)
    b
  end

  defp broadcast(b) do
    ref = pick(b, &(rank(&1) < 4))
    t = value(b, ref)

    sizes =
      Enum.map(Tuple.to_list(t.shape), &if(&1 == 1 and chance(2), do: 1 + below(4), else: &1))

    args =
      case below(3) do
        0 -> [ref, List.to_tuple([1 + below(3) | sizes])]
        1 -> [ref, List.to_tuple(sizes ++ [1 + below(3)]), [axes: axes(t)]]
        2 -> [ref, List.to_tuple(sizes)]
      end

    {_, b} = emit(b, :broadcast, args)
    b
  end

  defp squeeze(b) do
    {_, b} = emit(b, :squeeze, [pick(b, &(1 in Tuple.to_list(&1.shape)))])
    b
  end

  defp new_axis(b) do
    ref = pick(b, &(rank(&1) < 5))
    {_, b} = emit(b, :new_axis, [ref, below(rank(value(b, ref)) + 1)])
    b
  end

  defp reverse(b) do
    ref = pick(b)
    {_, b} = emit(b, :reverse, [ref, [axes: b |> value(ref) |> axes() |> some(0)]])
    b
  end

  defp pad(b) do
    ref = pick(b)
    t = value(b, ref)
    {fill, b} = fill(b, t)

    config =
      Enum.map(axes(t), fn _ ->
        {one_of([0, 0, 1, 2, -1]), one_of([0, 1, -1]), one_of([0, 0, 0, 1])}
      end)

    {_, b} = emit(b, :pad, [ref, fill, config])
    b
  end

  # Nx.BinaryBackend pads with the bits of a number of another type, so it has to be of the same one.
  defp fill(b, t) do
    if integer?(t) and chance(2),
      do: {0, b},
      else: emit(b, :as_type, [pick(b, &(rank(&1) == 0 and &1.vectorized_axes == [])), t.type])
  end

  defp concatenate(b) do
    ref = pick(b, &(rank(&1) > 0))
    t = value(b, ref)
    axis = below(rank(t))
    other = pick(b, &alike?(&1, t, axis))
    refs = Enum.take(shuffled([ref, other, ref]), 2 + below(2))
    {_, b} = emit(b, :concatenate, [refs, [axis: axis]])
    b
  end

  defp alike?(a, t, axis),
    do: rank(a) == rank(t) and put_elem(a.shape, axis, 0) == put_elem(t.shape, axis, 0)

  defp stack(b) do
    ref = pick(b, &(rank(&1) < 4))
    t = value(b, ref)
    refs = shuffled([ref, pick(b, &(&1.shape == t.shape))])
    {_, b} = emit(b, :stack, [refs, [axis: below(rank(t) + 1)]])
    b
  end

  defp tile(b) do
    ref = pick(b, &(rank(&1) in 1..3))
    {_, b} = emit(b, :tile, [ref, Enum.map(axes(value(b, ref)), fn _ -> 1 + below(2) end)])
    b
  end

  defp split(b) do
    ref = pick(b, &(rank(&1) > 0 and elem(&1.shape, 0) > 1))
    {_, b} = emit_many(b, :split, [ref, 1], 2)
    b
  end

  defp triangle(b) do
    {_, b} =
      emit(b, one_of([:tril, :triu]), [pick(b, &(rank(&1) >= 2)), [k: one_of([-1, 0, 0, 1])]])

    b
  end

  defp diagonal(b) do
    ref = pick(b, &(rank(&1) in 1..2))
    op = if rank(value(b, ref)) == 1, do: :make_diagonal, else: :take_diagonal
    {_, b} = emit(b, op, [ref])
    b
  end

  # As wide as some value, so that they meet.
  defp iota(b) do
    t = value(b, pick(b))
    axis = if axes(t) == [] or chance(3), do: nil, else: one_of(axes(t))
    type = one_of([{:s, 32}, {:s, 64}, {:u, 8}, {:f, 32}, {:bf, 16}, {:f, 64}, {:s, 16}])
    {_, b} = emit(b, :iota, [t.shape, [axis: axis, type: type]])
    b
  end

  defp eye(b) do
    {_, b} =
      emit(b, :eye, [1 + below(4), [type: one_of([{:f, 32}, {:s, 32}, {:u, 8}, {:f, 16}])]])

    b
  end

  # Bits of a counter, by loops and shifts.
  defp random(b) do
    numbers = [below(1000), below(1000)]
    {key, b} = input(b, %Operand{type: {:u, 32}, shape: {2}, numbers: numbers}, :captured)
    shape = value(b, pick(b)).shape

    {op, range} = one_of(uniform: [0.0, 1.0], randint: [0, 9])
    {_, b} = emit_many(b, op, [key | range] ++ [[shape: shape]], 2)
    b
  end

  defp vectorize(b) do
    ref = pick(b, &(rank(&1) in 1..3 and &1.vectorized_axes == [] and elem(&1.shape, 0) in 2..3))
    size = elem(value(b, ref).shape, 0)
    {_, b} = emit(b, :vectorize, [ref, if(size == 2, do: :two, else: :three)])
    b
  end

  defp devectorize(b) do
    {_, b} = emit(b, :devectorize, [pick(b, &(&1.vectorized_axes != []))])
    b
  end
end
