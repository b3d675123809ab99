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

  # Whether a process runs on a dirty scheduler now.
  defp busy_schedulers,
    do:
      Enum.count(
        Process.list(),
        &(Process.info(&1, :current_function) ==
            {:current_function, {ExBurn.NIF, :program_run_dirty, 2}})
      )

  defp wait_until(fun, tries \\ 500) do
    unless fun.() do
      if tries == 0, do: flunk("never happened")
      Process.sleep(10)
      wait_until(fun, tries - 1)
    end
  end
end
