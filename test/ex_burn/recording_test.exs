defmodule ExBurn.RecordingTest do
  # What functions given to Nx.reduce/4 may do besides Nx: the answer is that of calling them on each element.
  use ExBurn.Case, async: true

  import Nx.Defn

  defp holds?(t), do: Nx.to_number(t) == 1

  # The same list, folded by Elixir on Nx.BinaryBackend.
  defp assert_each(list, fun) do
    Nx.default_backend(Nx.BinaryBackend)
    want = Enum.reduce(list, Nx.tensor(0), fn x, acc -> fun.(Nx.tensor(x), acc) end)
    Nx.default_backend(ExBurn.Backend)
    assert list |> Nx.tensor() |> Nx.reduce(0, fun) |> Nx.to_number() == Nx.to_number(want)
    windows = list |> Nx.tensor() |> Nx.window_reduce(0, {length(list)}, fun)
    assert Nx.to_flat_list(windows) == [Nx.to_number(want)]
  end

  @list [1, 5, 3, 9, 2, 7, 0]

  test "raising, throwing or exiting where no element comes to" do
    for leave <- [fn -> raise "no" end, fn -> throw(:no) end, fn -> exit(:no) end] do
      assert_each(@list, fn x, acc ->
        if holds?(Nx.greater(x, 100)), do: leave.(), else: Nx.add(x, acc)
      end)
    end

    reduce = &Nx.reduce(Nx.tensor(@list, backend: ExBurn.Backend), 0, &1)

    assert catch_throw(
             reduce.(fn x, acc ->
               if holds?(Nx.greater(x, 8)), do: throw(Nx.to_number(acc)), else: Nx.add(x, acc)
             end)
           ) == 9
  end

  test "catching all exceptions around what they decide and read" do
    for fun <- [
          fn x, acc -> if holds?(Nx.greater(x, 3)), do: Nx.add(x, acc), else: acc end,
          fn x, acc -> Nx.add(acc, Nx.to_number(x)) end,
          fn x, acc ->
            if holds?(Nx.greater(x, 3)), do: Nx.add(acc, Nx.to_number(x)), else: acc
          end
        ] do
      assert_each(@list, fn x, acc ->
        try do
          fun.(x, acc)
        rescue
          _ -> Nx.add(acc, 1000)
        catch
          _, _ -> Nx.add(acc, 1000)
        end
      end)

      # Outside of what is caught.
      assert_each(@list, fn x, acc ->
        y =
          try do
            fun.(x, 0)
          catch
            _, _ -> 1000
          end

        if holds?(Nx.less(x, 2)), do: acc, else: Nx.subtract(acc, y)
      end)
    end
  end

  test "calling compiled functions, which are seen through" do
    t = Nx.tensor(@list, backend: ExBurn.Backend)
    calls = :counters.new(1, [])

    for compiler <- [Nx.Defn.Evaluator, ExBurn.Defn.Compiler] do
      double = Nx.Defn.jit(&Nx.add(Nx.multiply(&1, 2), &2), compiler: compiler)
      triple = Nx.Defn.compile(&Nx.multiply(&1, 3), [Nx.template({}, :s32)], compiler: compiler)

      for {fun, want} <- [
            {double, 2 * Enum.sum(@list)},
            {fn x, acc -> Nx.add(triple.(x), acc) end, 3 * Enum.sum(@list)},
            {fn x, acc -> Nx.add(triple.(7), Nx.add(x, acc)) end,
             21 * length(@list) + Enum.sum(@list)}
          ] do
        counted = fn x, acc -> :counters.add(calls, 1, 1) && fun.(x, acc) end
        :counters.put(calls, 1, 0)
        assert Nx.to_number(Nx.reduce(t, 0, counted)) == want
        assert :counters.get(calls, 1) == 1
      end
    end
  end

  test "printing" do
    assert_each(@list, fn x, acc ->
      if inspect(x) =~ "\n  9", do: acc, else: Nx.add(acc, x)
    end)
  end

  test "doing something else each time" do
    for next <- [&rem(&1, 2), &rem(&1, 3), &div(&1, 2)] do
      calls = :counters.new(1, [])

      turn = fn ->
        :counters.add(calls, 1, 1)
        next.(:counters.get(calls, 1))
      end

      # Two ways to add, so that each answer is right.
      assert_each(@list, fn x, acc ->
        case turn.() do
          0 ->
            Nx.add(acc, x)

          1 ->
            if holds?(Nx.greater(x, 3)), do: Nx.add(acc, x), else: Nx.add(x, acc)

          _ ->
            if holds?(Nx.less(acc, 8)),
              do: Nx.add(x, acc),
              else: [x, acc] |> Nx.stack() |> Nx.sum()
        end
      end)
    end
  end

  test "dividing only where it can be done" do
    for op <- [&Nx.quotient(100, &1), &Nx.remainder(100, &1), &Nx.pow(2, Nx.subtract(&1, 1))] do
      fun = fn x, acc -> if holds?(Nx.greater(x, 0)), do: Nx.add(acc, op.(x)), else: acc end
      assert_each(@list, fun)

      t = Nx.tensor([@list, Enum.reverse(@list)], backend: ExBurn.Backend)
      [one, other] = t |> Nx.reduce(0, [axes: [1]], fun) |> Nx.to_list()
      assert one == other
    end

    # A constant above zero divides everywhere.
    assert_each(@list, fn x, acc ->
      if holds?(Nx.equal(Nx.remainder(x, 2), 0)), do: Nx.quotient(acc, 2), else: Nx.add(acc, x)
    end)

    assert_same(&divide/1, [Nx.tensor([[4, 0, 3], [0, 0, 5]])])
  end

  defn divide(t) do
    Nx.reduce(t, 0, [axes: [1]], fn x, acc ->
      if x != 0, do: acc + Nx.quotient(100, x), else: acc
    end)
  end

  test "deciding in too many ways, with tensors from around it" do
    one = Nx.tensor(1, backend: ExBurn.Backend)

    bits = fn x, acc ->
      Enum.reduce(0..9, acc, fn bit, acc ->
        set = Nx.equal(Nx.bitwise_and(Nx.right_shift(x, bit), one), one)
        if holds?(set), do: Nx.add(acc, one), else: acc
      end)
    end

    t = Nx.tensor([1023, 5, 0], backend: ExBurn.Backend)
    assert t |> Nx.reduce(0, bits) |> Nx.to_number() == 12
    assert t |> Nx.window_reduce(0, {2}, bits) |> Nx.to_flat_list() == [12, 2]
  end

  test "answering what is no scalar" do
    t = Nx.tensor([1, 2], backend: ExBurn.Backend)
    pair = Nx.tensor([1, 2], backend: ExBurn.Backend)

    assert_raise RuntimeError, ~r/must return a scalar tensor, got: \{2\}/, fn ->
      Nx.reduce(t, 0, fn x, _acc -> Nx.stack([x, x]) end)
    end

    assert_raise RuntimeError, ~r/got: \{\} vectorized by \[pair: 2\]/, fn ->
      Nx.reduce(t, 0, fn x, _acc -> Nx.multiply(x, Nx.vectorize(pair, :pair)) end)
    end
  end

  test "what stood for a value is nothing elsewhere" do
    t = Nx.tensor([1, 2, 3], backend: ExBurn.Backend)
    Nx.reduce(t, 0, fn x, acc -> send(self(), {x, Nx.greater(x, acc)}) && acc end)
    assert_receive {x, truth}

    for use <- [
          fn -> Nx.add(x, 1) end,
          fn -> Nx.to_number(truth) end,
          fn -> Nx.backend_copy(x, Nx.BinaryBackend) end,
          fn -> Nx.reduce(t, x, &Nx.add/2) end,
          fn -> Nx.reduce(t, 0, fn y, acc -> Nx.add(Nx.add(x, y), acc) end) end,
          fn -> Nx.reduce(t, 0, fn y, acc -> if holds?(truth), do: y, else: acc end) end,
          fn -> in_task(fn -> Nx.add(x, 1) end) end
        ] do
      assert_raise ExBurn.Error, ~r/has none outside of the function and its process/, use
    end
  end

  # What it raises there is raised here.
  defp in_task(fun) do
    caught = fn ->
      try do
        {:ok, fun.()}
      rescue
        error -> {:error, error}
      end
    end

    case Task.await(Task.async(caught)) do
      {:ok, answer} -> answer
      {:error, error} -> raise error
    end
  end
end
