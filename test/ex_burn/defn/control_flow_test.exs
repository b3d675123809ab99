defmodule ExBurn.Defn.ControlFlowTest do
  # Branches with many clauses and loops that nobody waits for.
  use ExBurn.Case, async: true

  import Nx.Defn

  @compiler [compiler: ExBurn.Defn.Compiler]

  # A function of so many clauses that it is better written by a program.
  clauses = Enum.map_join(0..199, "\n", &"x < #{&1} -> x * #{&1}")

  Code.compile_string("""
  defmodule #{inspect(__MODULE__)}.Ladder do
    import Nx.Defn

    defn many(x) do
      cond do
        #{clauses}
        true -> x - 1
      end
    end
  end
  """)

  test "two hundred clauses" do
    for x <- [-1, 0, 5, 150, 198, 199, 1000] do
      want = if x < 199, do: x * max(x + 1, 0), else: x - 1

      assert x
             |> Nx.tensor()
             |> Nx.Defn.jit(&__MODULE__.Ladder.many/1, @compiler).()
             |> Nx.to_number() == want
    end
  end

  defn classes(x, table) do
    scaled = x * Nx.sum(table)

    cond do
      scaled > 30 -> {scaled, 3}
      Nx.cos(scaled) > 2 or scaled > 20 -> {scaled + table[0], 2}
      Nx.any(table > scaled) -> {-scaled, 1}
      true -> {table[1] * 1.0, 0}
    end
  end

  test "predicates that the clauses compute themselves, and several results" do
    for x <- [6.0, 3.6, 1.0, 0.1, -1.0],
        do: assert_same(&classes/2, [Nx.tensor(x), Nx.tensor([1.0, 2.0, 3.0])])
  end

  # `if` of a predicate that is a tensor, for functions that build themselves.
  defp branch(predicate, yes, no) do
    always = Nx.Defn.Expr.tensor(Nx.tensor(1, backend: Nx.BinaryBackend))

    Nx.Defn.Expr.defn_cond(__ENV__.file, [
      {[line: 1], {predicate, yes}},
      {[line: 1], {always, no}}
    ])
  end

  defp nested(0, x), do: Nx.multiply(x, 100)

  defp nested(n, x) do
    branch(
      Nx.greater(x, n),
      fn -> Nx.add(nested(n - 1, Nx.add(x, 1)), 1) end,
      fn -> Nx.subtract(x, n) end
    )
  end

  test "branches nested sixty deep" do
    for depth <- [20, 60], x <- [100, depth - 3] do
      want = if x > depth, do: (x + depth) * 100 + depth, else: x - depth

      assert Nx.Defn.jit_apply(&nested(depth, &1), [Nx.tensor(x)], @compiler) |> Nx.to_number() ==
               want
    end

    assert_raise Error, "program: nested deeper than 64 levels", fn ->
      Nx.Defn.jit_apply(&nested(65, &1), [Nx.tensor(1)], @compiler)
    end
  end

  # Each `if` reads the one before in both of its branches.
  defp chain(n, x, p) do
    Enum.reduce(1..n, x, fn i, x ->
      branch(Nx.greater(p, i), fn -> Nx.add(x, 1) end, fn -> Nx.multiply(x, 2) end)
    end)
  end

  test "a chain of branches grows with its length" do
    fun = &chain(60, &1, &2)
    text = ExBurn.explain(fun, [Nx.template({}, :u64), Nx.template({}, :s32)])
    assert length(String.split(text, "cond(")) == 61

    for p <- [0, 30, 60] do
      want = Enum.reduce(1..60, 1, fn i, x -> if p > i, do: x + 1, else: x * 2 end)
      args = [Nx.tensor(1, type: :u64), Nx.tensor(p)]
      assert Nx.Defn.jit_apply(fun, args, @compiler) |> Nx.to_number() == want
    end
  end

  # Two of three branches read the one before.
  defn three_ways(x, p) do
    cond do
      p > 1 -> x + 1
      p > 0 -> x * 2
      true -> p
    end
  end

  defp long_way(x, p),
    do: Enum.reduce(1..30, x, fn i, x -> three_ways(x, Nx.subtract(p, rem(i, 3))) end)

  test "a chain of branches of which some read the one before grows with its length" do
    for p <- [0, 1, 2, 3, 4], do: assert_same(&three_times/2, [Nx.tensor(5), Nx.tensor(p)])

    assert Nx.Defn.jit_apply(&long_way/2, [Nx.tensor(1), Nx.tensor(4)], @compiler)
           |> Nx.to_number() == 31
  end

  defn three_times(x, p), do: x |> three_ways(p) |> three_ways(p - 1) |> three_ways(p - 2)

  # What only some branches read may fail, or never end.
  defn needed_at_times(x, p) do
    quotient = Nx.quotient(10, x)
    picked = if p > 5, do: quotient, else: quotient + 1
    endless = forever(x)

    cond do
      p > 2 -> picked
      p > 1 -> picked + 1
      p < 0 -> endless
      p < -1 -> endless + 1
      true -> x
    end
  end

  test "what no branch that is taken reads is not computed" do
    assert Nx.Defn.jit_apply(&needed_at_times/2, [Nx.tensor(0), Nx.tensor(0)], @compiler)
           |> Nx.to_number() == 0

    assert Nx.Defn.jit_apply(&needed_at_times/2, [Nx.tensor(5), Nx.tensor(2)], @compiler)
           |> Nx.to_number() == 4
  end

  defn vectorized(x, y) do
    {x, _, n} =
      while {x, y, n = 0}, n < 3 do
        shifted = if n == 1, do: x * y, else: x + n
        {shifted, y, n + 1}
      end

    %{x: x, pair: {Nx.sum(x), n}}
  end

  test "vectorized tensors in loops and branches" do
    x = Nx.iota({2, 3}, type: :f32, names: [:a, :b]) |> Nx.vectorize(:a)
    y = Nx.tensor([1.0, 2.0, 3.0], names: [:b])
    args = [x, y]
    want = Nx.Defn.jit_apply(&vectorized/2, args, compiler: Nx.Defn.Evaluator)
    got = Nx.Defn.jit_apply(&vectorized/2, args, @compiler)

    plain = fn %{x: x, pair: {s, n}} ->
      [x, s, n] |> Enum.map(&Nx.devectorize/1) |> List.to_tuple()
    end

    assert_close(plain.(got), plain.(want))
    assert got.x.vectorized_axes == [a: 2]
  end

  defn each_row(x) do
    while {x, i = 0}, Nx.any(x > 0) do
      {if Nx.sum(x) > 10 do
         Nx.reduce(x, 0, fn a, b -> Nx.max(a - 1, b) end) + 0 * x
       else
         x - 1
       end, i + 1}
    end
  end

  test "a fold by a function in a branch in a loop" do
    for start <- [[1, 2, 3], [9, 0, 5], [0, 0, 0]],
        do: assert_same(&each_row/1, [Nx.tensor(start)])
  end

  defn predicates_per_row(x) do
    while x = Nx.vectorize(x, :rows), x < 10 do
      x * 2
    end
  end

  test "a fold by a function that answers a value of the function around it alone" do
    folds = [
      reduce: &Nx.reduce(&1, 0, fn _, _ -> Nx.multiply(&2, 3) end),
      window_reduce: &Nx.window_reduce(&1, 0, {2}, fn _, _ -> &2 end)
    ]

    for {op, fold} <- folds do
      assert_raise ExBurn.Error,
                   ~r/^#{op}: the function reads a value of the function around/,
                   fn ->
                     Nx.Defn.jit(fold, @compiler).(Nx.iota({3}), Nx.tensor(2))
                   end
    end

    # Numbers, and tensors that are no arguments, it does see.
    two = Nx.tensor(2)

    for two <- [2, two] do
      fold = &Nx.reduce(&1, 0, fn _, _ -> two end)
      assert Nx.to_number(Nx.Defn.jit(fold, @compiler).(Nx.iota({3}))) == 2
    end
  end

  defn counted(first, step, limit, opts \\ []) do
    {last, turns, _, _} =
      while {i = first, turns = 0, step, limit}, goes_on(i, limit, opts) do
        {i + step, turns + 1, step, limit}
      end

    {last, turns}
  end

  deftransformp goes_on(i, limit, opts) do
    case opts[:limit] do
      nil -> apply(Nx, opts[:compare], [i, limit])
      limit -> apply(Nx, opts[:compare], [i, Nx.tensor(limit, type: i.type)])
    end
  end

  test "loops that count, by integers of all kinds up to what is given or known" do
    loops = [
      {:less, 0, 3, 100},
      {:less, 9, 1, 3},
      {:less_equal, 0, 5, 100},
      {:not_equal, 0, 4, 100},
      {:equal, 7, 1, 7},
      {:greater, 100, 255, 3},
      {:greater_equal, 100, 255, 3}
    ]

    for type <- ~w(u8 s16 s32 u32 s64 u64)a, {compare, first, step, limit} <- loops do
      # 255 is one less than nothing for u8; the others count down by a step that they can hold.
      step = if step == 255 and type != :u8, do: -5, else: step
      numbers = [first, step, limit]

      if Enum.all?(numbers, &(&1 >= 0 or match?("s" <> _, Atom.to_string(type)))) do
        args = Enum.map(numbers, &Nx.tensor(&1, type: type))
        assert_same(&counted(&1, &2, &3, compare: compare), args)
        assert_same(&counted(&1, &2, &3, compare: compare, limit: limit), args)
      end
    end
  end

  test "loops that count beyond what signed numbers hold" do
    half = 2 ** 63
    args = Enum.map([half - 2, 1, half + 3], &Nx.tensor(&1, type: :u64))

    {last, turns} =
      Nx.Defn.jit(&counted(&1, &2, &3, compare: :less), @compiler).(
        hd(args),
        Enum.at(args, 1),
        Enum.at(args, 2)
      )

    assert {Nx.to_number(last), Nx.to_number(turns)} == {half + 3, 5}
  end

  test "a vectorized condition" do
    x = Nx.tensor([1, 3, 20])
    want = Nx.Defn.jit_apply(&predicates_per_row/1, [x], compiler: Nx.Defn.Evaluator)
    got = Nx.Defn.jit_apply(&predicates_per_row/1, [x], @compiler)
    assert_close(Nx.devectorize(got), Nx.devectorize(want))
  end

  # The gradient of the counter begins as f32 and is f64 after one turn.
  defn divided(x, count) do
    {_, y} =
      while {count, y = x}, count < 4 do
        {count + 1, y / count}
      end

    Nx.sum(y)
  end

  defn gradient_of_divided(x, count), do: grad(x, &divided(&1, count))

  test "the gradient of a loop whose states have several types" do
    x = Nx.tensor([0.5, -1.5], type: :f64)
    assert_same(&gradient_of_divided/2, [x, Nx.tensor(1)])
  end

  defn forever(x) do
    while x, x > 0 do
      x + 1 - 1
    end
  end

  defn forever_folded(t), do: Nx.reduce(t, 0, fn x, acc -> forever(x) + acc end)

  test "an endless loop ends with the process that runs it" do
    for fun <- [&forever/1, &forever_folded/1] do
      {pid, reference} =
        spawn_monitor(fn -> Nx.Defn.jit_apply(fun, [Nx.tensor(1)], @compiler) end)

      wait_until(fn -> busy_schedulers() > 0 end)
      Process.exit(pid, :kill)
      assert_receive {:DOWN, ^reference, :process, ^pid, :killed}, 5_000
    end

    # More work than there are dirty schedulers would wait for ever behind loops that go on.
    1..(2 * :erlang.system_info(:dirty_cpu_schedulers))
    |> Enum.map(fn _ ->
      Task.async(fn -> Nx.Defn.jit_apply(&count/1, [Nx.tensor(0)], @compiler) end)
    end)
    |> Enum.each(fn task -> assert task |> Task.await(30_000) |> Nx.to_number() == 10 end)
  end

  defn count(x) do
    while x, x < 10 do
      x + 1
    end
  end

  # Loops of constants, whose end nobody finds by running them while they are compiled.
  defn unless_still(p, x) do
    if p > 0 do
      {x, _} = while({x, i = 0}, i < 1, do: {x, i})
      x
    else
      x
    end
  end

  defn unless_swinging(p, x) do
    if p > 0 do
      {x, _} = while({x, i = 0}, i < 2, do: {x, 1 - i})
      x
    else
      x
    end
  end

  test "an endless loop in a branch that is not taken" do
    for fun <- [&unless_still/2, &unless_swinging/2] do
      result = Nx.Defn.jit_apply(fun, [Nx.tensor(0), Nx.tensor([1, 2])], @compiler)
      assert Nx.to_flat_list(result) == [1, 2]
    end
  end

  # Whether a process runs on a dirty scheduler now.
  defp busy_schedulers,
    do:
      Enum.count(
        Process.list(),
        &(Process.info(&1, :current_function) ==
            {:current_function, {ExBurn.NIF, :program_run_dirty, 3}})
      )

  defp wait_until(fun, tries \\ 500) do
    unless fun.() do
      if tries == 0, do: flunk("never happened")
      Process.sleep(10)
      wait_until(fun, tries - 1)
    end
  end
end
