defmodule ExBurn.Defn.HostCallTest do
  # What functions a compiled function calls, against Nx.Defn.Evaluator on Nx.BinaryBackend.
  use ExBurn.Case, async: true

  import ExBurn.Calls
  import Nx.Defn

  alias ExBurn.Defn.Compiler

  defn in_order(x, y) do
    sum = hook(x + y, :sum, see(:sum))
    product = hook(sum * y, see(:product))
    {hook(product - sum, :last), sum}
  end

  test "hooks run in order, and named ones when they have a function" do
    args = [Nx.tensor([1, 2]), Nx.tensor(3)]
    assert [:sum, :product] = tags(assert_same_calls(&in_order/2, args))

    hooks = %{last: see(:hung), sum: see(:other), elsewhere: see(:never)}
    assert [:other, :product, :hung] = tags(assert_same_calls(&in_order/2, args, hooks: hooks))
    assert [:sum | _] = tags(assert_same_calls(&in_order/2, args, hooks: %{sum: nil, last: nil}))
  end

  defn seen_alone(x) do
    doubled = hook(Nx.exp(x) * 2, :doubled, see(:doubled))
    Nx.slice(Nx.concatenate([doubled, x]), [2], [2])
  end

  test "a hook is all that reads what was fused" do
    assert [:doubled] = tags(assert_same_calls(&seen_alone/1, [Nx.tensor([1.0, 2.0])]))
  end

  defn whole_containers(x) do
    %{a: {a, _}, b: b} = hook(%{a: {x + 1, x * 2}, b: {x}}, see(:container))
    {a, b}
  end

  test "a hook gets the whole container, also what nobody reads" do
    assert [container: [_, _, _]] =
             assert_same_calls(&whole_containers/1, [Nx.tensor([1.5, 2.5])])

    Nx.Defn.jit_apply(&whole_containers/1, [Nx.tensor(1)], compiler: Compiler)
    assert_received {:seen, :container, %{a: {a, _}, b: {_}}}
    assert Nx.to_number(a) == 2
  end

  defn vectorized_and_named(x), do: hook(x * 2, see(:named))

  test "a hook gets names and vectorized axes" do
    x = Nx.tensor([[1, 2], [3, 4]], names: [:rows, :columns])
    Nx.Defn.jit_apply(&vectorized_and_named/1, [x], compiler: Compiler)
    assert_received {:seen, :named, %{names: [:rows, :columns]}}

    Nx.Defn.jit_apply(&vectorized_and_named/1, [Nx.vectorize(x, :rows)], compiler: Compiler)
    assert_received {:seen, :named, %{vectorized_axes: [rows: 2], shape: {2}} = seen}
    assert Nx.to_flat_list(Nx.devectorize(seen)) == [2, 4, 6, 8]
  end

  # Deprecated, and gone in the next version of Nx.
  defp kernel(name, args), do: apply(Nx.Defn.Kernel, name, args)

  defp with_tokens(x, y) do
    token = kernel(:create_token, [])
    {token, _} = kernel(:hook_token, [token, Nx.add(y, 1), :b, see(:b)])
    inner = kernel(:hook, [Nx.multiply(x, y), see(:inner)])
    {token, hooked} = kernel(:hook_token, [token, inner, :a])
    {kernel(:hook, [kernel(:attach_token, [token, x]), see(:outer)]), hooked}
  end

  if function_exported?(Nx.Defn.Kernel, :create_token, 0) do
    test "hooks of tokens run in order, though nobody reads what they hook" do
      args = [Nx.tensor(2), Nx.tensor(3)]
      assert [:b, :inner, :outer] = tags(assert_same_calls(&with_tokens/2, args))
      hooked = assert_same_calls(&with_tokens/2, args, hooks: %{a: see(:a), b: see(:other)})
      assert [:other, :inner, :a, :outer] = tags(hooked)
    end
  end

  defn annotated(x), do: hook(stop_grad(x + 1), see(:stop_grad))

  test "hooks of annotated values, of arguments and of constants" do
    assert_same_calls(&annotated/1, [Nx.tensor(1)])
    assert_same_calls(&Nx.Defn.Kernel.hook(&1, see(:argument)), [Nx.tensor([1.0, 2.0])])

    assert_same_calls(fn x -> Nx.add(x, Nx.Defn.Kernel.hook(Nx.tensor(2), see(:constant))) end, [
      Nx.tensor(1)
    ])
  end

  defn looping(x) do
    {x, i} =
      while {x, i = 0}, hook(i, see(:condition)) < 3 do
        {x, _} =
          while {x, j = i}, j > 0 do
            {hook(x + 1, :inner, see(:inner)), j - 1}
          end

        hook({x * 2, i + 1}, see(:state))
      end

    {hook(x, see(:after)), i}
  end

  test "hooks in loops run in each iteration, in the condition and in loops inside too" do
    calls = assert_same_calls(&looping/1, [Nx.tensor([1, 2])])
    assert [:condition, :state, :condition, :inner, :state, :condition, :inner | _] = tags(calls)
    assert length(calls) == 4 + 3 + 3 + 1
  end

  defn branching(x) do
    cond do
      hook(x, see(:first)) > 10 -> hook(x * 2, see(:above_ten))
      hook(x + 1, see(:second)) > 5 -> if x > 7, do: hook(x - 1, see(:above_seven)), else: -x
      true -> hook(x * 3, see(:otherwise))
    end
  end

  test "hooks in branches run in those that are taken" do
    for {x, want} <- [
          {20, [:first, :above_ten]},
          {8, [:first, :second, :above_seven]},
          {6, [:first, :second]},
          {1, [:first, :second, :otherwise]}
        ],
        do: assert(want == tags(assert_same_calls(&branching/1, [Nx.tensor(x)])))
  end

  defn before_branches(x, y) do
    both = hook(x * y, see(:both))
    one = hook(x - y, see(:one))
    if x > 0, do: {hook(both + 1, see(:positive)), one}, else: {both, y}
  end

  test "a hook before a branch runs once, and not when nobody needs it" do
    for {x, want} <- [{1, [:both, :positive, :one]}, {-1, [:both]}],
        do:
          assert(
            want == tags(assert_same_calls(&before_branches/2, [Nx.tensor(x), Nx.tensor(3)]))
          )
  end

  # The second cond reads the first one, in its predicate and in a branch.
  defn branch_of_branch(x) do
    doubled = hook(x * 2, see(:doubled))

    {first, second} =
      cond do
        x > 10 -> {x, hook(doubled + 1, see(:above_ten))}
        x > 5 -> {x + 1, hook(doubled + 2, see(:above_five))}
        true -> {x + 2, x}
      end

    if first > 3, do: second, else: hook(second, see(:otherwise))
  end

  test "hooks of a branch that another branch reads run when theirs is taken" do
    for {x, want} <- [
          {20, [:doubled, :above_ten]},
          {7, [:doubled, :above_five]},
          {3, []},
          {1, [:otherwise]}
        ],
        do: assert(want == tags(assert_same_calls(&branch_of_branch/1, [Nx.tensor(x)])))
  end

  # The cond in the middle is computed whichever branch of the last is taken, and reads what one of these reads.
  defn branch_and_cond_before(x) do
    doubled = hook(x * 2, see(:doubled))
    middle = if x > 5, do: x, else: doubled

    cond do
      x > 10 -> middle + 1
      x > 3 -> hook(middle, see(:above_three))
      true -> doubled - middle
    end
  end

  # What two conds read is read by two others, of which the function answers the last and one inside it.
  defn cond_in_conds(x, y) do
    zero = x - x
    called = if y > y, do: x, else: hook(x, see(:called))

    {first, _} =
      if x < x, do: {hook(x, see(:never)), zero}, else: {zero, hook(called, see(:inner))}

    second =
      if first > y,
        do: if(y > zero, do: first, else: hook(called, see(:first))),
        else: hook(called + x, see(:second))

    {if(y > 0, do: x, else: second * x), second * x}
  end

  # What both read is computed before both: with 7, where nobody needs it, it is called all the same.
  test "what a cond before a branch and the branch read is called once" do
    assert [:doubled, :above_three] = called(&branch_and_cond_before/1, [Nx.tensor(4)])
    assert [:doubled] = called(&branch_and_cond_before/1, [Nx.tensor(1)])

    # Nx.Defn.Evaluator calls again after a predicate that is false.
    for x <- [-1, 2], y <- [-2, 0, 3] do
      args = [Nx.tensor(x), Nx.tensor(y)]
      [want, got] = for c <- [Nx.Defn.Evaluator, Compiler], do: calls(&cond_in_conds/2, args, c)
      assert got == Enum.uniq(want)
    end
  end

  defp calls(fun, args, compiler) do
    Nx.Defn.jit_apply(fun, args, compiler: compiler)
    seen()
  end

  defp called(fun, args), do: tags(assert_same_calls(fun, args))

  def same(t, tag) do
    send(self(), {:seen, tag, t})
    t
  end

  defn late_predicate(x, y) do
    called = Nx.runtime_call(y, y, :called, &same/2)
    hooked = hook(y * 2, see(:hooked))

    cond do
      x > 10 -> x
      called > 10 -> called + 1
      x > 5 -> called
      hooked > 5 -> hooked * 3
      true -> y
    end
  end

  # Nx.Defn.Evaluator calls again where a predicate and a branch that is not its own read the same.
  test "what a later predicate and what comes after it read is called once" do
    for {x, y, want, calls} <- [
          {20, 20, 20, []},
          {1, 20, 21, [:called]},
          {7, 1, 1, [:called]},
          {1, 4, 24, [:called, :hooked]},
          {1, 1, 1, [:called, :hooked]}
        ] do
      args = [Nx.tensor(x), Nx.tensor(y)]
      got = Nx.Defn.jit_apply(&late_predicate/2, args, compiler: Compiler)
      assert {want, calls} == {Nx.to_number(got), tags(seen())}
    end
  end

  # What stays the same in each iteration is computed before the loop, but for the hook before it.
  defn before_invariant(x, y) do
    {_, _, sum} =
      while {y, i = 0, sum = x}, i < 3 do
        {y, i + 1, sum + Nx.sum(hook(y, see(:same))) * Nx.exp(y)}
      end

    sum
  end

  test "a hook on what stays the same in a loop runs in each iteration" do
    args = [Nx.tensor([1.0, 2.0]), Nx.tensor([0.0, 1.0])]
    assert List.duplicate(:same, 3) == tags(assert_same_calls(&before_invariant/2, args))
  end

  defn loop_in_branch_in_loop(x) do
    while x, x < 100 do
      if rem(x, 2) == 0 do
        {x, _} =
          while {x, n = 0}, n < 2 do
            {hook(x * 3, see(:tripled)), n + 1}
          end

        x + 1
      else
        hook(x + 1, see(:increased))
      end
    end
  end

  test "branches in loops and loops in branches" do
    for x <- [0, 1, 7, 200],
        do: assert_same_calls(&loop_in_branch_in_loop/1, [Nx.tensor(x)])
  end

  def halves(t, opts) do
    send(self(), {:seen, {:halves, opts}, t})
    Nx.divide(t, 2)
  end

  def pair({x, %{y: y}}, opts) do
    send(self(), {:seen, :pair, {x, y}})
    %{sum: Nx.add(x, y), rest: {Nx.multiply(x, opts[:scale]), Nx.tensor(7, type: :u8)}}
  end

  defn halved(x), do: Nx.runtime_call(Nx.as_type(x, :f32), x, [by: 2], &halves/2) + 1

  defn paired(x, y) do
    out = %{sum: x + y, rest: {x, Nx.u8(0)}}
    %{sum: sum, rest: {scaled, seven}} = Nx.runtime_call(out, {x, %{y: y}}, [scale: 3], &pair/2)
    {sum * 2, scaled, seven}
  end

  test "runtime calls of tensors and containers" do
    assert [{{:halves, [by: 2]}, _}] = assert_same_calls(&halved/1, [Nx.tensor([1, 2, 3])])
    assert [pair: [_, _]] = assert_same_calls(&paired/2, [Nx.tensor([1, 2]), Nx.tensor([5, 6])])
  end

  defn called_in_loops(x) do
    while x, Nx.sum(x) > 1 do
      if Nx.sum(x) > 20, do: x - 5.0, else: Nx.runtime_call(x, x, &halves/2)
    end
  end

  test "runtime calls in loops and branches" do
    calls = assert_same_calls(&called_in_loops/1, [Nx.tensor([20.0, 16.0])])
    assert length(calls) == 4
  end

  def on_any_backend(_t, backend), do: Nx.tensor([1.0, 2.0], backend: backend)

  test "a runtime call may answer tensors of any backend" do
    for backend <- [Nx.BinaryBackend, ExBurn.Backend] do
      fun =
        &Nx.runtime_call(Nx.template({2}, :f32), &1, backend, fn t, o -> on_any_backend(t, o) end)

      assert Nx.Defn.jit_apply(fun, [Nx.tensor(0)], compiler: Compiler) |> Nx.to_list() == [
               1.0,
               2.0
             ]
    end
  end

  test "a runtime call may answer numbers that are like the template" do
    output = {Nx.template({}, :f32), Nx.template({}, :s32), Nx.template({}, :c64)}
    numbers = fn _, _ -> {1.5, 2, Complex.new(0, 1)} end
    fun = &Nx.runtime_call(output, &1, [], numbers)

    assert {a, b, c} = Nx.Defn.jit_apply(fun, [Nx.tensor(0)], compiler: Compiler)
    assert {Nx.to_number(a), Nx.type(b), Nx.to_number(b)} == {1.5, {:s, 32}, 2}
    assert Nx.to_number(c) == Complex.new(0.0, 1.0)
  end

  def integers(t, _opts), do: Nx.as_type(t, :s32)
  defn wrong_type(x), do: Nx.runtime_call(x, x, &integers/2)

  test "a result that is not like the template is refused as Nx refuses it" do
    message = "expected the runtime_call function to match the given output template"

    for compiler <- [Nx.Defn.Evaluator, Compiler] do
      assert_raise RuntimeError, message, fn ->
        Nx.Defn.jit_apply(&wrong_type/1, [Nx.tensor(1.5)], compiler: compiler)
      end
    end
  end

  # The scalars that Nx.BinaryBackend takes out of a tensor keep its names, so it is their negatives that are compared.
  defn folding(t, start) do
    Nx.reduce(t, start, [axes: [1], keep_axes: true], fn x, acc ->
      2 * hook(-acc, see(:accumulator)) - hook(-x, :element, see(:element))
    end)
  end

  defn folding_all(t), do: Nx.reduce(t, 1, fn x, acc -> hook(x - acc, see(:all)) end)

  defn folding_in_branch(t) do
    if Nx.sum(t) > 3, do: folding(t, 5) + 1, else: t[[.., 0..0]]
  end

  defp numbers(calls, tag), do: for({^tag, [x]} <- calls, do: Nx.to_number(x))

  test "calls inside the function of reduce run for each element, in the order of the rows" do
    t = Nx.tensor([[1, 2, 3], [4, 5, 6]])
    calls = assert_same_calls(&folding/2, [t, Nx.tensor(7)])
    assert numbers(calls, :element) == [-1, -2, -3, -4, -5, -6]
    assert [-7, 13 | _] = numbers(calls, :accumulator)

    assert_same_calls(&folding/2, [Nx.transpose(t), Nx.tensor(0.5)])
    assert_same_calls(&folding/2, [Nx.iota({2, 2, 2}, type: :f64), Nx.tensor(1)])
    assert_same_calls(&folding/2, [t, Nx.tensor(7)], hooks: %{element: see(:other)})
    assert length(assert_same_calls(&folding_all/1, [t])) == 6
    assert length(assert_same_calls(&folding_in_branch/1, [t])) == 12
    assert assert_same_calls(&folding_in_branch/1, [Nx.multiply(t, 0)]) == []
  end

  defn folding_windows(t) do
    Nx.window_reduce(
      t,
      -1,
      {2, 2},
      [strides: [1, 2], padding: [{0, 0}, {1, 0}], window_dilations: [1, 2]],
      fn x, acc -> hook(x, see(:element)) * 3 + acc end
    )
  end

  test "calls inside the function of window_reduce run for each element of each window" do
    assert_same_calls(&folding_windows/1, [Nx.iota({3, 4}, type: :f32)])
    calls = assert_same_calls(&folding_windows/1, [Nx.iota({3, 4}, type: :s32)])
    assert [-1, 1, -1, 5 | _] = numbers(calls, :element)
  end

  @table Nx.tensor([10, 20, 30], backend: Nx.BinaryBackend)

  def looked_up(x, _opts), do: Nx.multiply(x, 3)

  defn folding_by_calls(t) do
    Nx.reduce(t, 0, fn x, acc ->
      {acc, _x} =
        while {acc, x}, acc < 40 do
          {acc + Nx.runtime_call(x, x, &looked_up/2) + @table[1], x}
        end

      acc + x
    end)
  end

  test "the function of reduce may loop over runtime calls and read captured tensors" do
    assert_same_calls(&folding_by_calls/1, [Nx.tensor([1, 2, 5])])
  end
end
