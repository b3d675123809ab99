defmodule ExBurn.Fuzz.Steps.Linear do
  @moduledoc """
  Products of matrices and convolutions.
  """

  import ExBurn.Fuzz.Builder

  @doc """
  Makers of steps and their weights.
  """
  def makers do
    [
      {4, &plain/1},
      {4, &axes_dot/1},
      {3, &transposed/1},
      {1, &outer/1},
      {3, &conv/1},
      {2, &affine/1},
      {1, &norm/1},
      {1, &factored/1}
    ]
  end

  defp plain(b) do
    left = pick(b, &(rank(&1) > 0))
    t = value(b, left)
    size = elem(t.shape, rank(t) - 1)
    {_, b} = emit(b, :dot, [left, pick(b, &contracts?(&1, size))])
    b
  end

  # Nx.dot contracts the last axis but one of the right operand.
  defp contracts?(t, size), do: rank(t) > 0 and elem(t.shape, max(rank(t) - 2, 0)) == size

  defp axes_dot(b) do
    left = pick(b, &(rank(&1) in 1..3))
    right = pick(b, &(rank(&1) in 1..3))
    [l, r] = Enum.map([left, right], &value(b, &1))
    batch? = elem(l.shape, 0) == elem(r.shape, 0) and chance(2)
    {batch, from} = if batch?, do: {[0], 1}, else: {[], 0}

    pairs =
      for i <- axes(l),
          j <- axes(r),
          i >= from,
          j >= from,
          elem(l.shape, i) == elem(r.shape, j),
          do: {i, j}

    {is, js} = pairs |> shuffled() |> Enum.take(1 + below(2)) |> distinct() |> Enum.unzip()
    {_, b} = emit(b, :dot, [left, is, batch, right, js, batch])
    b
  end

  defp distinct(pairs), do: pairs |> Enum.uniq_by(&elem(&1, 0)) |> Enum.uniq_by(&elem(&1, 1))

  defp transposed(b) do
    left = pick(b, &(rank(&1) == 2))
    {m, n} = value(b, left).shape

    right =
      pick(b, &(rank(&1) == 2 and (m in Tuple.to_list(&1.shape) or n in Tuple.to_list(&1.shape))))

    {left, b} = if chance(2), do: emit(b, :transpose, [left]), else: {left, b}
    {right, b} = if chance(2), do: emit(b, :transpose, [right]), else: {right, b}
    {_, b} = emit(b, :dot, [left, right])
    b
  end

  defp outer(b) do
    {_, b} = emit(b, :outer, [pick(b, &(Nx.size(&1) < 8)), pick(b, &(Nx.size(&1) < 8))])
    b
  end

  # A layer: weights, bias, activation.
  defp affine(b) do
    left = pick(b, &(rank(&1) == 2 and float?(&1)))
    {_, n} = value(b, left).shape
    right = pick(b, &(rank(&1) == 2 and elem(&1.shape, 0) == n and real?(&1)))
    {product, b} = emit(b, :dot, [left, right])
    {_, k} = value(b, product).shape
    bias = pick(b, &(&1.shape in [{k}, {}, {1, k}] and real?(&1)))
    {sum, b} = emit(b, :add, [product, bias])
    {_, b} = emit(b, one_of([:tanh, :sigmoid, :abs]), [sum])
    b
  end

  defp conv(b) do
    {image, b} = ranked(b)
    {kernel, b} = ranked(b)
    [i, k] = Enum.map([image, kernel], &value(b, &1).shape)

    {kernel, b} =
      if elem(i, 1) == elem(k, 1),
        do: {kernel, b},
        else: emit(b, :transpose, [kernel, [axes: [1, 0, 2]]])

    {_, b} = emit(b, :conv, [image, kernel, options()])
    b
  end

  defp ranked(b) do
    ref = pick(b, &(rank(&1) in 2..3 and not integer?(&1)))
    if rank(value(b, ref)) == 3, do: {ref, b}, else: emit(b, :new_axis, [ref, below(3)])
  end

  defp options do
    [
      strides: 1 + below(2),
      padding: one_of([:valid, :same, [{1, 0}]]),
      input_dilation: 1 + below(2),
      kernel_dilation: 1 + below(2)
    ]
  end

  defp norm(b) do
    {_, b} = emit(b, :norm, [pick(b, &(rank(&1) in 1..2 and float?(&1)))])
    b
  end

  # Of a matrix that is not far from a multiple of the unit matrix.
  defp factored(b) do
    ref = pick(b, &(rank(&1) == 2 and &1.type in [{:f, 32}, {:f, 64}]))
    {turned, b} = emit(b, :transpose, [ref])
    {product, b} = emit(b, :dot, [ref, turned])
    {eye, b} = emit(b, :eye, [elem(value(b, product).shape, 0)])
    {more, b} = emit(b, :multiply, [eye, 4])
    {matrix, b} = emit(b, :add, [product, more])
    op = one_of([:determinant, :cholesky, :solve])
    {_, b} = emit(b, op, if(op == :solve, do: [matrix, ref], else: [matrix]))
    b
  end
end
