defmodule ExBurn.Fuzz.Steps.Fragments do
  @moduledoc """
  Several steps as they come in models, for compilers to recognize.
  """

  import ExBurn.Fuzz.Builder

  @doc """
  Makers of steps and their weights.
  """
  def makers do
    [
      {3, &softmax/1},
      {3, &normalized/1},
      {2, &gelu/1},
      {2, &one_hot/1},
      {2, &attention/1},
      {2, &same_twice/1},
      {2, &there_and_back/1},
      {2, &reshaped/1},
      {2, &chain/1},
      {1, &momentum/1}
    ]
  end

  defp softmax(b) do
    ref = pick(b, &(float?(&1) and rank(&1) > 0))
    {_, b} = softmax(b, ref, axes: [rank(value(b, ref)) - 1], keep_axes: true)
    b
  end

  defp softmax(b, ref, fold) do
    {largest, b} = emit(b, :reduce_max, [ref, fold])
    {largest, b} = if chance(2), do: emit(b, :stop_grad, [largest]), else: {largest, b}
    {moved, b} = emit(b, :subtract, [ref, largest])
    {exp, b} = emit(b, :exp, [moved])
    {sum, b} = emit(b, :sum, [exp, fold])
    if chance(3), do: emit_log(b, moved, sum), else: emit(b, :divide, [exp, sum])
  end

  defp emit_log(b, moved, sum) do
    {log, b} = emit(b, :log, [sum])
    emit(b, :subtract, [moved, log])
  end

  defp normalized(b) do
    ref = pick(b, &(float?(&1) and rank(&1) > 0))
    fold = [axes: [one_of(axes(value(b, ref)))], keep_axes: true]
    {mean, b} = emit(b, :mean, [ref, fold])
    {moved, b} = emit(b, :subtract, [ref, mean])
    {square, b} = emit(b, :multiply, [moved, moved])

    {variance, b} =
      if chance(2), do: emit(b, :mean, [square, fold]), else: emit(b, :variance, [ref, fold])

    {safe, b} = emit(b, :add, [variance, 0.125])
    {_, b} = if chance(2), do: by_root(b, moved, safe), else: by_rsqrt(b, moved, safe)
    b
  end

  defp by_root(b, moved, safe) do
    {root, b} = emit(b, :sqrt, [safe])
    emit(b, :divide, [moved, root])
  end

  defp by_rsqrt(b, moved, safe) do
    {root, b} = emit(b, :rsqrt, [safe])
    emit(b, :multiply, [moved, root])
  end

  defp gelu(b) do
    ref = pick(b, &float?/1)
    # Exact in all types: eager Nx rounds numbers to f32 first, a defn doesn't.
    {scaled, b} = emit(b, :divide, [ref, 1.4140625])
    {erf, b} = emit(b, :erf, [scaled])
    {more, b} = emit(b, :add, [erf, 1])
    {half, b} = emit(b, :multiply, [ref, 0.5])
    {_, b} = emit(b, :multiply, [half, more])
    b
  end

  defp one_hot(b) do
    ref = pick(b, &(integer?(&1) and rank(&1) in 0..2))
    shape = value(b, ref).shape
    classes = 2 + below(3)
    {wide, b} = emit(b, :new_axis, [ref, -1])
    full = List.to_tuple(Tuple.to_list(shape) ++ [classes])

    {iota, b} =
      emit(b, :iota, [
        full,
        [axis: tuple_size(shape), type: one_of([{:s, 32}, {:s, 64}, value(b, ref).type])]
      ])

    {hot, b} = emit(b, :equal, [wide, iota])
    if chance(2), do: hot_product(b, hot), else: b
  end

  defp hot_product(b, hot) do
    {hot, b} = emit(b, :as_type, [hot, one_of([{:f, 32}, {:f, 32}, {:bf, 16}, {:s, 32}])])
    t = value(b, hot)
    table = pick(b, &(rank(&1) == 2 and elem(&1.shape, 0) == elem(t.shape, rank(t) - 1)))
    {_, b} = emit(b, :dot, [hot, table])
    b
  end

  defp attention(b) do
    query = pick(b, &(float?(&1) and rank(&1) == 2))
    {_, n} = value(b, query).shape
    key = pick(b, &(float?(&1) and rank(&1) == 2 and elem(&1.shape, 1) == n))
    {turned, b} = emit(b, :transpose, [key])
    {scores, b} = emit(b, :dot, [query, turned])
    {scaled, b} = emit(b, :multiply, [scores, 0.5])
    {scaled, b} = if chance(2), do: masked(b, scaled), else: {scaled, b}
    {weights, b} = softmax(b, scaled, axes: [1], keep_axes: true)
    {_, b} = emit(b, :dot, [weights, key])
    b
  end

  defp masked(b, scores) do
    shape = value(b, scores).shape
    {rows, b} = emit(b, :iota, [shape, [axis: 0]])
    {columns, b} = emit(b, :iota, [shape, [axis: 1]])
    {mask, b} = emit(b, :greater_equal, [rows, columns])
    emit(b, :select, [mask, scores, -1000.0])
  end

  # The last step again, and the sum of both.
  defp same_twice(%{steps: []}), do: throw(:skip)

  defp same_twice(%{steps: [{[out], op, args} | _]} = b) do
    {again, b} = emit(b, op, args)
    {_, b} = emit(b, one_of([:add, :subtract, :multiply, :equal]), [{:ref, out}, again])
    b
  end

  defp same_twice(_several), do: throw(:skip)

  defp there_and_back(b) do
    ref = pick(b, &(not integer?(&1)))
    type = value(b, ref).type
    {wide, b} = emit(b, :as_type, [ref, one_of([{:f, 64}, {:f, 32}, {:bf, 16}, {:f, 16}])])
    {changed, b} = emit(b, one_of([:tanh, :exp, :abs, :negate]), [wide])
    {_, b} = emit(b, :as_type, [changed, type])
    b
  end

  defp reshaped(b) do
    ref = pick(b, &(rank(&1) > 1))
    shape = value(b, ref).shape
    {flat, b} = emit(b, :reshape, [ref, {Tuple.product(shape)}])
    {flat, b} = if chance(2), do: emit(b, one_of([:negate, :abs]), [flat]), else: {flat, b}

    {flat, b} =
      if chance(2), do: emit(b, :reshape, [flat, {Tuple.product(shape), 1}]), else: {flat, b}

    {_, b} =
      emit(b, :reshape, [flat, shape |> Tuple.to_list() |> Enum.reverse() |> List.to_tuple()])

    b
  end

  # A chain of functions whose values stay small.
  defp chain(b) do
    {_, b} =
      Enum.reduce(1..(3 + below(5)), {pick(b, &float?/1), b}, fn _, {ref, b} ->
        case below(4) do
          0 ->
            emit(b, one_of([:tanh, :sigmoid, :sin, :cos, :erf, :abs, :negate]), [ref])

          1 ->
            emit(b, one_of([:add, :multiply, :subtract, :max, :min]), [
              ref,
              one_of([0.5, 1.0, -0.25, 2])
            ])

          _ ->
            with_partner(b, ref)
        end
      end)

    b
  end

  defp with_partner(b, ref) do
    {partner, b} = ExBurn.Fuzz.Steps.Elementwise.partner(b, ref)
    emit(b, one_of([:add, :multiply, :subtract, :max, :min]), [ref, partner])
  end

  # An update of an optimizer: several results of the same operands.
  defp momentum(b) do
    ref = pick(b, &float?/1)
    other = pick(b, &(float?(&1) and &1.shape == value(b, ref).shape))
    {kept, b} = emit(b, :multiply, [ref, 0.875])
    {new, b} = emit(b, :multiply, [other, 0.125])
    {moment, b} = emit(b, :add, [kept, new])
    {square, b} = emit(b, :multiply, [other, other])
    {root, b} = emit(b, :sqrt, [square])
    {safe, b} = emit(b, :add, [root, 0.0625])
    {_, b} = emit(b, :divide, [moment, safe])
    b
  end
end
