defmodule ExBurn.Fuzz.Steps.Control do
  @moduledoc """
  Steps with functions: branches, loops, folds by a function, gradients.
  """

  import ExBurn.Fuzz.Builder

  alias ExBurn.Fuzz.{Generator, Scope}
  alias ExBurn.Fuzz.Steps.Folds
  alias ExBurn.Property.Operand

  @deepest 2

  @doc """
  Makers of steps and their weights.
  """
  def makers do
    [
      {4, &branch/1},
      {4, &loop/1},
      {2, &fold/1},
      {1, &window_fold/1},
      {4, &gradient/1},
      {1, &stop/1},
      {1, &hook/1},
      {1, &call/1},
      {2, &own_gradient/1}
    ]
  end

  defp branch(%{depth: @deepest}), do: throw(:skip)

  defp branch(b) do
    count = 1 + below(2)
    {first, b} = Scope.open(b, [], &body(&1, count))
    kinds = Enum.map(first.results, &value(b, {:ref, &1}))

    {predicates, b} =
      Enum.map_reduce(1..(1 + below(2)), b, fn _, b -> Scope.open(b, [], &predicate/1) end)

    {others, b} =
      Enum.map_reduce(predicates, b, fn _, b -> Scope.open(b, [], &like(&1, kinds)) end)

    [last | bodies] = shuffled([first | others])
    {_, b} = emit_many(b, :cond, [Enum.zip_with(predicates, bodies, &[&1, &2]), last], count)
    b
  end

  defp body(b, count) do
    b = Generator.add(b, 1 + below(5))
    {Enum.map(1..count, fn _ -> pick(b, &(&1.vectorized_axes == [])) end), b}
  end

  defp like(b, kinds) do
    b |> Generator.add(1 + below(4)) |> conform_all(kinds)
  end

  defp conform_all(b, kinds), do: Enum.map_reduce(kinds, b, &conform(&2, pick(&2, plain(&1)), &1))

  # Of the same type and shape first, if there is one.
  defp plain(kind), do: &(&1.vectorized_axes == [] and (real?(&1) or not real?(kind)))

  defp conform(b, ref, kind) do
    same =
      for n <- b.seen,
          t = value(b, {:ref, n}),
          {t.type, t.shape, t.vectorized_axes} == {kind.type, kind.shape, []},
          do: n

    cond do
      same != [] and not chance(4) -> {{:ref, Enum.at(same, below(min(length(same), 3)))}, b}
      value(b, ref).shape == kind.shape -> emit(b, :as_type, [ref, kind.type])
      true -> filled(b, ref, kind)
    end
  end

  defp filled(b, ref, kind) do
    {one, b} = emit(b, :sum, [ref])
    {one, b} = emit(b, :as_type, [one, kind.type])
    emit(b, :broadcast, [one, kind.shape])
  end

  defp predicate(b) do
    ref = pick(b, &(real?(&1) and &1.vectorized_axes == []))
    {one, b} = emit(b, one_of([:sum, :reduce_max, :reduce_min]), [ref])
    {predicate, b} = emit(b, one_of([:greater, :less, :equal]), [one, one_of([0, 1, 2])])
    {[predicate], b}
  end

  defp loop(%{depth: @deepest}), do: throw(:skip)

  defp loop(b) do
    {counter, b} = input(b, %Operand{type: {:s, 32}, shape: {}, numbers: [0]}, :captured)
    states = for _ <- 1..(1 + below(3)), do: pick(b, &(&1.vectorized_axes == []))
    initial = Enum.uniq([counter | states])
    {condition, b} = Scope.closed(b, initial, &condition/2)
    {body, b} = Scope.closed(b, initial, &iteration/2)
    {_, b} = emit_many(b, :while, [initial, condition, body], length(initial))
    b
  end

  defp condition(b, [counter | states]) do
    {few, b} = emit(b, :less, [counter, below(5)])
    state = List.last(states)

    if state && real?(value(b, state)) && chance(3) do
      {largest, b} = emit(b, :reduce_max, [state])
      {small, b} = emit(b, :less, [largest, 50])
      {both, b} = emit(b, :logical_and, [few, small])
      {[both], b}
    else
      {[few], b}
    end
  end

  defp iteration(b, [counter | states]) do
    {next, b} = emit(b, :add, [counter, 1])
    b = Generator.add(b, 2 + below(6))
    kinds = Enum.map(states, &value(b, &1))
    {results, b} = conform_all(b, kinds)
    {[next | results], b}
  end

  defp fold(b) do
    ref = pick(b, &real?/1)
    t = value(b, ref)
    {fun, start, b} = folding(b, t)

    options =
      if chance(3), do: [], else: [axes: some(axes(t), min(rank(t), 1)), keep_axes: chance(2)]

    {_, b} = emit(b, :reduce, [ref, start, options, fun])
    b
  end

  defp window_fold(b) do
    ref = pick(b, &(real?(&1) and rank(&1) in 1..3))
    t = value(b, ref)
    {fun, start, b} = folding(b, t)

    {_, b} =
      emit(b, :window_reduce, [ref, start, Folds.dimensions(t), Folds.window_options(t), fun])

    b
  end

  # The start is of the type that is folded: Nx.BinaryBackend pads with the bits of a start of another type.
  defp folding(b, t) do
    start = if float?(t), do: one_of([0.0, 1.0]), else: one_of([0, 1])
    {scalar, b} = input(b, %Operand{type: t.type, shape: {}, numbers: [start]}, :captured)
    {fun, b} = Scope.closed(b, [scalar, scalar], &combination(&1, &2, t.type))
    {fun, scalar, b}
  end

  defp combination(b, [x, acc], type) do
    {x, b} = if chance(2), do: emit(b, one_of([:abs, :negate]), [x]), else: {x, b}

    {x, b} =
      if chance(3), do: emit(b, one_of([:multiply, :max]), [x, one_of([2, 3])]), else: {x, b}

    {sum, b} = emit(b, one_of([:add, :max, :min, :subtract]), [acc, x])
    {sum, b} = emit(b, :as_type, [sum, type])
    {[sum], b}
  end

  defp gradient(%{depth: depth}) when depth > 0, do: throw(:skip)

  defp gradient(b) do
    plain = &(&1.type in [{:f, 32}, {:f, 64}, {:bf, 16}, {:f, 16}] and &1.vectorized_axes == [])
    refs = Enum.uniq(for _ <- 1..(1 + below(2)), do: pick(b, plain))
    {fun, b} = Scope.open(b, refs, &objective/2)
    {_, b} = emit_many(b, :grad, [refs, fun], length(refs))
    b
  end

  defp objective(b, _params) do
    b = Generator.add(b, 2 + below(8))
    ref = pick(b, &(float?(&1) and &1.vectorized_axes == []))
    {sum, b} = emit(b, one_of([:sum, :mean]), [ref])
    {[sum], b}
  end

  defp stop(b) do
    {_, b} = emit(b, :stop_grad, [pick(b)])
    b
  end

  defp hook(b) do
    {_, b} = emit(b, :hook, [pick(b), one_of([:left, :right])])
    b
  end

  defp call(b) do
    {_, b} = emit(b, :runtime_call, [pick(b), one_of([:negate, :reverse])])
    b
  end

  # A function of one tensor whose gradient is another one.
  defp own_gradient(b) do
    ref = pick(b, &(float?(&1) and &1.vectorized_axes == []))
    {value, b} = emit(b, one_of([:tanh, :exp, :sin]), [ref])

    {fun, b} =
      Scope.open(b, [ref], fn b, [upstream] ->
        {scaled, b} = emit(b, :multiply, [upstream, one_of([0.5, 2.0])])
        {product, b} = emit(b, :multiply, [scaled, value])
        {[product], b}
      end)

    {_, b} = emit(b, :custom_grad, [value, [ref], fun])
    b
  end
end
