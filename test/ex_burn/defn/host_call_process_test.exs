defmodule ExBurn.Defn.HostCallProcessTest do
  # Where the functions run that a compiled function calls, and what becomes of their mistakes.
  use ExBurn.Case, async: false

  import ExBurn.Calls
  import Nx.Defn

  alias ExBurn.Defn.{Cache, Compiler}

  defn in_order(x, y) do
    sum = hook(x + y, :sum, see(:sum))
    hook(sum * y, :last)
  end

  defn loop(x) do
    {x, _} =
      while {x, i = 0}, i < 3 do
        {hook(x + i, :step), i + 1}
      end

    hook(x, :done)
  end

  defmodule Mistake do
    defexception [:value]
    def message(_), do: "my own mistake"
  end

  def mistaken(t, _opts), do: raise(Mistake, value: Nx.to_number(t))

  defn failing_call(x) do
    while x, x < 10 do
      if x == 4, do: Nx.runtime_call(x, x, &mistaken/2), else: x + 1
    end
  end

  test "an exception of a function reaches the caller as it is" do
    error = catch_error(Nx.Defn.jit_apply(&failing_call/1, [Nx.tensor(0)], compiler: Compiler))
    assert error == %Mistake{value: 4}

    try do
      Nx.Defn.jit_apply(&failing_call/1, [Nx.tensor(0)], compiler: Compiler)
    rescue
      Mistake -> assert [{__MODULE__, :mistaken, 2, _} | _] = __STACKTRACE__
    end

    fun = &Nx.Defn.Kernel.hook(&1, fn t -> throw({:thrown, Nx.to_number(t)}) end)
    assert {:thrown, 3} = catch_throw(Nx.Defn.jit_apply(fun, [Nx.tensor(3)], compiler: Compiler))
    fun = &Nx.Defn.Kernel.hook(&1, fn _ -> exit(:bye) end)
    assert :bye = catch_exit(Nx.Defn.jit_apply(fun, [Nx.tensor(3)], compiler: Compiler))
  end

  test "functions run in the process that called, and may call compiled functions" do
    Process.put(:mine, 5)
    inner = Nx.Defn.jit(&loop/1, compiler: Compiler)
    fun = &Nx.Defn.Kernel.hook(&1, fn t -> send(self(), {Process.get(:mine), inner.(t)}) end)
    Nx.Defn.jit_apply(fun, [Nx.tensor(8)], compiler: Compiler)
    assert_received {5, result}
    assert Nx.to_number(result) == 11
  end

  test "other functions on hooks of the same names run the same program" do
    Cache.clear()
    x = Nx.tensor([1, 2])

    for tag <- [:one, :two],
        do: Nx.Defn.jit_apply(&in_order/2, [x, x], compiler: Compiler, hooks: %{last: see(tag)})

    assert [:sum, :one, :sum, :two] = tags(seen())
    assert Cache.size() == 1
  end

  test "many processes run one program, each with functions of its own" do
    1..16
    |> Task.async_stream(fn n ->
      hooks = %{step: see({:step, n}), done: see({:done, n})}

      for _ <- 1..20 do
        x = Nx.Defn.jit_apply(&loop/1, [Nx.tensor(n)], compiler: Compiler, hooks: hooks)
        {Nx.to_number(x), for({tag, [t]} <- seen(), do: {tag, Nx.to_number(t)})}
      end
    end)
    |> Enum.with_index(1)
    |> Enum.each(fn {{:ok, runs}, n} ->
      steps = for x <- [n, n + 1, n + 3], do: {{:step, n}, x}
      assert Enum.uniq(runs) == [{n + 3, steps ++ [{{:done, n}, n + 3}]}]
    end)
  end

  test "a function that waits keeps nobody from running" do
    test = self()
    wait = fn _ -> send(test, :waiting) && Process.sleep(:infinity) end

    waiting =
      for _ <- 1..(2 * :erlang.system_info(:dirty_cpu_schedulers)) do
        spawn(fn ->
          Nx.Defn.jit_apply(&loop/1, [Nx.tensor(1)], compiler: Compiler, hooks: %{step: wait})
        end)
      end

    for _ <- waiting, do: assert_receive(:waiting, 5_000)
    assert Nx.to_number(Nx.Defn.jit_apply(&loop/1, [Nx.tensor(1)], compiler: Compiler)) == 4
    Enum.each(waiting, &Process.exit(&1, :kill))
  end

  test "a caller that ends in a call leaves no memory behind" do
    parent = self()
    # 64 MB that the rest of the run needs.
    fun = fn x ->
      big = Nx.broadcast(x, {16, 1024, 1024}) |> Nx.add(Nx.iota({16, 1024, 1024}))

      Nx.Defn.Kernel.hook(x, fn _ -> send(parent, :called) && Process.sleep(:infinity) end)
      |> Nx.add(Nx.sum(big))
    end

    run = fn ->
      {pid, monitor} =
        spawn_monitor(fn -> Nx.Defn.jit_apply(fun, [Nx.tensor(1.0)], compiler: Compiler) end)

      assert_receive :called, 10_000
      Process.exit(pid, :kill)
      assert_receive {:DOWN, ^monitor, _, _, :killed}
    end

    run.()
    before = ExBurn.Memory.resident()
    for _ <- 1..10, do: run.()
    assert ExBurn.Memory.resident() - before < 200_000_000
  end

  defn streamed(x), do: hook(x * 2, :progress)

  test "Nx.Serving streams hooks" do
    serving =
      Nx.Serving.jit(&streamed/1, compiler: Compiler)
      |> Nx.Serving.streaming(hooks: [:progress])

    batch = Nx.Batch.concatenate([Nx.tensor([1, 2])])

    assert [{:progress, seen}, {:batch, result}] =
             serving
             |> Nx.Serving.run(batch)
             |> Enum.map(fn
               {:batch, {result, _info}} -> {:batch, result}
               {:batch, result, _info} -> {:batch, result}
               other -> other
             end)

    assert Nx.to_flat_list(seen) == [2, 4]
    assert Nx.to_flat_list(result) == [2, 4]
  end

  test "Nx.Defn.Graph cuts behind a constant" do
    expr = Nx.Defn.debug_expr(&Nx.multiply(&1, 2)).(Nx.tensor([1, 2]))
    chain = Nx.Defn.Graph.split(expr, &if(&1.data.op == :multiply, do: :before, else: :none))
    result = Nx.Defn.Graph.run(chain, [Nx.tensor([1, 2])], compiler: Compiler)
    assert Nx.to_list(result) == [2, 4]
  end

  test "Nx.Defn.Graph runs stages around a call" do
    expr = Nx.Defn.debug_expr(&in_order/2).(Nx.tensor(2), Nx.tensor(3))
    chain = Nx.Defn.Graph.split(expr, &if(&1.data.op == :multiply, do: :before, else: :none))
    assert length(chain) == 2
    opts = [compiler: Compiler, hooks: %{last: see(:last)}]
    result = Nx.Defn.Graph.run(chain, [Nx.tensor(2), Nx.tensor(3)], opts)
    assert Nx.to_number(result) == 15
    assert [:sum, :last] = tags(seen())
  end
end
