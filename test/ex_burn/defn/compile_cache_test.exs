defmodule ExBurn.Defn.CompileCacheTest do
  # Empties the caches and counts compilations.
  use ExBurn.Case, async: false

  import ExUnit.CaptureIO
  import ExUnit.CaptureLog

  alias ExBurn.Defn.{Cache, Compiler, Recompilation}

  setup do
    Cache.clear()
    id = "test #{inspect(make_ref())}"
    :telemetry.attach(id, [:ex_burn, :compile, :stop], &__MODULE__.report/4, self())
    on_exit(fn -> :telemetry.detach(id) end)
  end

  def report(_event, times, metadata, test), do: send(test, {:compiled, times, metadata})

  # How often something was compiled since the last call.
  defp compilations(count \\ 0) do
    receive do
      {:compiled, _times, _metadata} -> compilations(count + 1)
    after
      0 -> count
    end
  end

  defp run(fun, args, opts \\ []),
    do: Nx.Defn.jit_apply(fun, args, [compiler: Compiler] ++ opts) |> Nx.to_flat_list()

  defp binary(numbers), do: Nx.tensor(numbers, backend: Nx.BinaryBackend)
  defp times(tensor), do: &Nx.multiply(&1, tensor)

  test "a function is compiled once for each types of arguments" do
    x = Nx.tensor([1.0, 2.0])

    arguments = [
      x,
      Nx.tensor([1.0]),
      Nx.tensor([1, 2]),
      Nx.tensor([1.0, 2.0], names: [:a]),
      Nx.vectorize(x, :rows)
    ]

    for _ <- 1..2, arg <- arguments, do: run(&Nx.exp/1, [arg])
    assert compilations() == 5
    assert Cache.size() == 5
  end

  test "a function by its name is the one that its module has now" do
    on_exit(fn -> Code.put_compiler_option(:ignore_module_conflict, false) end)
    Code.put_compiler_option(:ignore_module_conflict, true)
    module = Module.concat(__MODULE__, Anew)

    for factor <- [2, 3, 3] do
      text = "defmodule #{inspect(module)} do def times(x), do: Nx.multiply(x, #{factor}) end"
      Code.compile_string(text)
      fun = Function.capture(module, :times, 1)
      for _ <- 1..2, do: assert(run(fun, [Nx.tensor([5, 7])]) == [5 * factor, 7 * factor])
    end

    assert compilations() == 2
  end

  test "containers that differ in more than tensors are told apart" do
    fun = fn map -> if map[:a], do: Nx.add(map.a, 1), else: Nx.add(map.b, 2) end
    assert run(fun, [%{a: Nx.tensor([5])}]) == [6]
    assert run(fun, [%{b: Nx.tensor([5])}]) == [7]
    assert compilations() == 2
  end

  test "tensors around a function may end within a byte" do
    for type <- [:u2, :s4], numbers <- [[1], [0], [1, 0, 1]] do
      tensor = Nx.tensor(numbers, type: type, backend: Nx.BinaryBackend)
      assert run(times(tensor), [Nx.tensor(3)]) == Enum.map(numbers, &(3 * &1))
    end
  end

  test "functions with equal tensors around them share a program, with others never" do
    x = Nx.tensor([10, 100])
    assert run(times(binary([1, 2])), [x]) == [10, 200]
    assert run(times(binary([1, 2])), [x]) == [10, 200]
    assert compilations() == 1
    assert run(times(binary([1, 3])), [x]) == [10, 300]
    assert run(times(binary([2, 1])), [x]) == [20, 100]
    assert compilations() == 2
    assert run(&Nx.multiply(&1, 3), [x]) == [30, 300]
    for n <- 4..6, do: assert(run(times(n), [x]) == [10 * n, 100 * n])
  end

  test "functions that come to the same program share its native form" do
    x = Nx.tensor([1.0, 2.0])
    table = binary([3.0, 4.0])
    run(&Nx.add(&1, table), [x])
    run(fn x -> Nx.add(x, table) end, [x])
    assert {Cache.size(), Cache.size(Cache.programs())} == {2, 1}
    run(&Nx.subtract(&1, table), [x])
    run(fn x -> Nx.add(x, Nx.multiply(table, 2)) end, [x])
    run(&Nx.add(&1, table), [x], fusion: false)
    assert Cache.size(Cache.programs()) == 4
  end

  test "of hooks, only the names count" do
    for _ <- 1..2, do: run(&Nx.exp/1, [Nx.tensor(1.0)], hooks: %{})
    run(&Nx.exp/1, [Nx.tensor(1.0)])
    assert compilations() == 1

    # Nothing in the function has these names.
    for _ <- 1..2 do
      test = self()
      run(&Nx.exp/1, [Nx.tensor(1.0)], hooks: %{seen: &send(test, {make_ref(), &1})})
    end

    assert compilations() == 1
  end

  test "cache: false compiles anew and keeps nothing" do
    for _ <- 1..3, do: assert(run(&Nx.negate/1, [Nx.tensor([1])], cache: false) == [-1])
    assert compilations() == 3
    assert {Cache.size(), Cache.size(Cache.programs())} == {0, 0}
  end

  test "many processes that need one new program compile it once" do
    test = self()

    fun = fn x ->
      send(test, :traced)
      Process.sleep(20)
      Nx.add(x, 1)
    end

    results = 1..20 |> Task.async_stream(&run(fun, [Nx.tensor(&1)]), max_concurrency: 20)
    assert Enum.map(results, &elem(&1, 1)) == Enum.map(1..20, &[&1 + 1])
    assert compilations() == 1
    assert_received :traced
    refute_received :traced
  end

  test "an exception while tracing is the caller's and is not kept" do
    {:ok, broken?} = Agent.start_link(fn -> true end)

    fun = fn x ->
      if Agent.get(broken?, & &1), do: raise(KeyError, key: :weights, term: %{}), else: Nx.exp(x)
    end

    for _ <- 1..2, do: assert_raise(KeyError, fn -> run(fun, [Nx.tensor(0.0)]) end)
    Agent.update(broken?, fn _ -> false end)
    assert run(fun, [Nx.tensor(0.0)]) == [1.0]
  end

  test "a function may run another while it is traced, the same one too" do
    force = [compiler: Compiler, on_conflict: :force]
    inner = fn x -> Nx.add(x, 1) end

    outer = fn x ->
      three = Nx.Defn.jit_apply(inner, [binary(2)], force) |> Nx.to_number()
      Nx.multiply(x, three)
    end

    assert run(outer, [Nx.tensor([1, 2])]) == [3, 6]

    depth = :counters.new(1, [])

    itself = fn again, x ->
      :counters.add(depth, 1, 1)

      if :counters.get(depth, 1) < 3,
        do: Nx.Defn.jit_apply(&again.(again, &1), [binary(1)], force)

      Nx.add(x, 1)
    end

    assert run(&itself.(itself, &1), [binary(1)]) == [2]
    assert :counters.get(depth, 1) == 3
  end

  test "a function that holds an expression is no key, so nothing walks the expression as a tree" do
    chain = fn x -> Enum.reduce(1..60, x, fn _, x -> Nx.add(x, x) end) end
    expr = Nx.Defn.debug_expr_apply(chain, [Nx.template({}, :f64)])
    for _ <- 1..2, do: assert(run(fn _ -> expr end, [Nx.tensor(1.0, type: :f64)]) == [2.0 ** 60])
    assert {Cache.size(), Cache.size(Cache.programs())} == {0, 1}
  end

  test "stages of a graph, whose parameters may have no context" do
    fun = fn a, b -> Nx.subtract(Nx.multiply(Nx.add(a, b), 2), a) end
    args = [Nx.tensor([1, 2]), Nx.tensor([3, 4])]

    stages =
      Nx.Defn.Graph.split(Nx.Defn.debug_expr_apply(fun, args), fn
        %Nx.Tensor{data: %{op: :multiply}} -> :both
        _ -> :none
      end)

    result = Nx.Defn.Graph.run(stages, args, compiler: Compiler)
    assert Nx.to_flat_list(result) == [7, 10]
  end

  test "telemetry tells how long it took, and of what" do
    fun = fn x ->
      Process.sleep(5)
      Nx.exp(x)
    end

    run(fun, [Nx.tensor(0.0)], fusion: false)
    assert_received {:compiled, times, %{key: ^fun, source: :traced, options: options}}
    assert options[:fusion] == false
    assert System.convert_time_unit(times.eval_time, :native, :millisecond) >= 5
    assert times.compile_time > 0
    assert times.total_time == times.eval_time + times.compile_time
  end

  describe "config :ex_burn, recompilation_warning:" do
    setup do
      Recompilation.clear()
      Application.put_env(:ex_burn, :recompilation_warning, 2)
      on_exit(fn -> Application.delete_env(:ex_burn, :recompilation_warning) end)
    end

    test "tells which argument changed" do
      sum = fn x, y -> Nx.sum(Nx.add(x, y)) end
      args = fn n -> [Nx.tensor(1), Nx.iota({n})] end
      assert capture_log(fn -> for n <- 1..2, do: run(sum, args.(n)) end) == ""
      log = capture_log(fn -> for n <- 3..5, do: run(sum, args.(n)) end)
      assert log =~ "has compiled #{inspect(sum)} 3 times"
      assert log =~ "argument 2, which was s32[2] and is s32[3]"
      assert length(String.split(log, "has compiled")) == 2
    end

    test "tells of values around the function, and of options" do
      log = capture_log(fn -> for n <- 1..3, do: run(&Nx.add(&1, n), [Nx.tensor(1)]) end)
      assert log =~ "differ in the values around the function"

      fun = fn x -> Nx.add(x, 7) end
      opts = [[], [], [fusion: false]]
      log = capture_log(fn -> for o <- [[passes: []] | opts], do: run(fun, [Nx.tensor(1)], o) end)
      assert log =~ "the options, which were [] and are [fusion: false]"
    end
  end

  test "debug: true prints the program, also of a function that was compiled before" do
    x = Nx.tensor([1.0])
    run(&Nx.exp/1, [x])
    printed = capture_io(fn -> run(&Nx.exp/1, [x], debug: true) end)
    assert printed =~ "%1: f32[1] = exp(%0)"
    assert capture_io(fn -> run(&Nx.exp/1, [x], debug: false) end) == ""
  end
end
