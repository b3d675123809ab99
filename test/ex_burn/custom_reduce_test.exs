defmodule ExBurn.CustomReduceTest do
  # Reductions by Elixir functions, against Nx.BinaryBackend.
  use ExBurn.Case, async: true

  import Nx.Defn

  doctest ExBurn.Defn.Recording

  # Neither commutative nor associative.
  defp horner(x, acc), do: Nx.add(x, Nx.multiply(acc, 2))

  test "elements are folded in row-major order along any axes" do
    t = Nx.tensor([[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [-1, -2, -3]]])

    for axes <- [nil, [0], [1], [2], [0, 1], [2, 0], [-1], [0, 1, 2]], keep <- [false, true] do
      assert_same(
        &Nx.reduce(&1, 1, [axes: axes, keep_axes: keep], fn x, acc -> horner(x, acc) end),
        [t]
      )
    end
  end

  test "of scalars, of no axes, of vectorized and named tensors" do
    assert_same(&Nx.reduce(&1, 3, fn x, acc -> horner(x, acc) end), [Nx.tensor(4)])
    t = Nx.tensor([[1, 2], [3, 4]], names: [:a, :b])
    assert_same(&Nx.reduce(&1, 3, [axes: []], fn x, acc -> horner(x, acc) end), [t])
    assert_same(&Nx.reduce(&1, 3, [axes: [:b]], fn x, acc -> horner(x, acc) end), [t])

    vectorized = fn t ->
      t |> Nx.vectorize(:a) |> Nx.reduce(3, fn x, acc -> horner(x, acc) end) |> Nx.devectorize()
    end

    assert_same(vectorized, [Nx.tensor([[1, 2], [3, 4], [5, 6]])])
  end

  test "every real type, and results of another type than the operand" do
    for type <- ~w(u2 u4 u8 u16 u32 u64 s2 s4 s8 s16 s32 s64 f8 f8_e4m3fn bf16 f16 f32 f64)a,
        compiler <- [Nx.Defn.Evaluator, ExBurn.Defn.Compiler] do
      fold = fn t ->
        t
        |> Nx.as_type(type)
        |> Nx.reduce(0, [axes: [1]], fn x, acc -> horner(x, acc) end)
        |> Nx.as_type(:s64)
      end

      t = Nx.tensor([[1, 0, 1], [0, 1, 1]], backend: ExBurn.Backend)
      want = Nx.tensor([5, 3], backend: Nx.BinaryBackend) |> Nx.as_type(type) |> Nx.as_type(:s64)
      assert Nx.Defn.jit_apply(fold, [t], compiler: compiler) |> on_binary() == [want]
    end

    for type <- ~w(u8 s16 f32)a do
      t = Nx.tensor([1, 2, 3], type: type)
      assert_same(&Nx.reduce(&1, 0, [type: :f64], fn x, acc -> Nx.add(x, acc) end), [t])
    end

    complex = Nx.tensor([Complex.new(1, 2), Complex.new(-1, 3)])
    assert_same(&Nx.reduce(&1, 1, fn x, acc -> Nx.multiply(x, acc) end), [complex])
  end

  test "sums, products and extrema with a start" do
    for op <- [&Nx.add/2, &Nx.multiply/2, &Nx.max/2, &Nx.min/2],
        t <- [Nx.tensor([[3, -2], [5, 100]], type: :s8), Nx.tensor([[0.5, -1.5], [2.0, 8.0]])] do
      assert_same(&Nx.reduce(&1, 2, [axes: [0]], op), [t])
      assert_same(&Nx.reduce(&1, 2, fn x, acc -> op.(acc, x) end), [t])
    end
  end

  test "a function may answer another type" do
    t = Nx.tensor([[1, 5], [3, 2]], backend: ExBurn.Backend)
    count = &Nx.reduce(&1, 2, [axes: [1]], fn x, acc -> Nx.greater(x, acc) end)

    for compiler <- [Nx.Defn.Evaluator, ExBurn.Defn.Compiler] do
      assert Nx.Defn.jit_apply(count, [t], compiler: compiler) |> Nx.to_flat_list() == [1, 1]
    end
  end

  test "functions that choose, loop and use blocks" do
    t = Nx.tensor([[4.0, -1.0, 2.0], [0.5, 3.0, -2.0]])
    larger = fn x, acc -> Nx.select(Nx.greater(Nx.abs(x), Nx.abs(acc)), x, acc) end
    assert_same(&Nx.reduce(&1, 0.0, [axes: [1]], larger), [t])
    assert_same(&reduce_by_cond/1, [t])
    assert_same(&reduce_by_while/1, [t])

    sorted = fn x, acc ->
      [x, acc] |> Nx.stack() |> Nx.sort() |> Nx.cumulative_sum() |> Nx.mean()
    end

    assert_same(&Nx.reduce(&1, 0.0, [axes: [1]], sorted), [t])
  end

  defn reduce_by_cond(t) do
    Nx.reduce(t, 1.0, [axes: [1]], fn x, acc ->
      cond do
        x > 2 -> acc * x
        x < 0 -> acc - x
        true -> acc
      end
    end)
  end

  defn reduce_by_while(t) do
    Nx.reduce(t, 1.0, [axes: [0]], fn x, acc ->
      {sum, _, _} =
        while {sum = acc, x, i = 0}, i < 3 do
          {sum + x, x, i + 1}
        end

      sum
    end)
  end

  # Elixir decides by the values of tensors.
  defp holds?(t), do: Nx.to_number(t) == 1

  defp ours(list), do: Nx.tensor(list, backend: ExBurn.Backend)

  describe "functions that decide" do
    test "are called once for each way through them, and for each decision" do
      calls = :counters.new(1, [])

      clamped = fn x, acc ->
        :counters.add(calls, 1, 1)

        cond do
          holds?(Nx.greater(x, 100)) -> Nx.add(acc, 100)
          holds?(Nx.less(x, 0)) -> acc
          true -> Nx.add(acc, x)
        end
      end

      list = for i <- 0..9_999, do: rem(i * 37, 301) - 100
      sum = list |> Enum.map(&min(max(&1, 0), 100)) |> Enum.sum()
      assert list |> ours() |> Nx.reduce(0, clamped) |> Nx.to_number() == sum
      assert :counters.get(calls, 1) == 5

      windows =
        list
        |> Enum.chunk_every(2, 1, :discard)
        |> Enum.map(&Enum.sum(Enum.map(&1, fn x -> min(max(x, 0), 100) end)))

      assert list |> ours() |> Nx.window_reduce(0, {2}, clamped) |> Nx.to_flat_list() == windows
      assert :counters.get(calls, 1) == 10
    end

    test "make no more native calls for more elements, where the evaluator runs them" do
      for fun <- [&reduce_by_cond/1, &window_by_cond(Nx.flatten(&1))] do
        [few, many] =
          for rows <- [2, 200] do
            t = Nx.iota({rows, 3}, type: :f32, backend: ExBurn.Backend)
            native_calls(fn -> Nx.Defn.jit_apply(fun, [t], compiler: Nx.Defn.Evaluator) end)
          end

        assert few > 0 and many == few
      end
    end

    test "by truths of every kind, and by several at once" do
      truths = [
        &Nx.greater(&1, &2),
        &Nx.logical_and(Nx.greater(&1, 0), Nx.not_equal(&2, 3)),
        &Nx.logical_not(Nx.less_equal(&1, &2)),
        &Nx.all(Nx.stack([Nx.greater(&1, -2), Nx.less(&2, 4)])),
        &Nx.reshape(Nx.any(Nx.stack([Nx.equal(&1, 2), Nx.equal(&2, 2)]), keep_axes: true), {}),
        fn x, _acc -> Nx.is_nan(Nx.log(x)) end
      ]

      t = ours([[3, -1, 2], [0, 0, 5], [-4, 2, 1]])

      for truth <- truths, axes <- [[0], [1], [0, 1]] do
        fold = &Nx.reduce(&1, 1, [axes: axes], &2)
        chosen = fn x, acc -> Nx.select(truth.(x, acc), Nx.subtract(acc, x), Nx.add(x, 2)) end

        decided = fn x, acc ->
          if holds?(truth.(x, acc)), do: Nx.subtract(acc, x), else: Nx.add(x, 2)
        end

        want =
          Nx.with_default_backend(Nx.BinaryBackend, fn -> fold.(hd(on_binary(t)), chosen) end)

        assert_close(fold.(t, decided), want)
      end
    end

    test "run only what they decide for" do
      table = ours([10, 20, 30])

      known = fn x, acc ->
        if holds?(Nx.less(x, 3)), do: Nx.add(acc, Nx.take(table, x)), else: acc
      end

      assert [0, 2, 7, 1, 9] |> ours() |> Nx.reduce(0, known) |> Nx.to_number() == 60

      positive = fn x, acc ->
        if holds?(Nx.less(x, 0)),
          do: raise("#{Nx.to_number(x)} is negative"),
          else: Nx.add(x, acc)
      end

      assert [1, 2, 3] |> ours() |> Nx.reduce(0, positive) |> Nx.to_number() == 6

      assert_raise RuntimeError, "-2 is negative", fn ->
        Nx.reduce(ours([1, -2, 3]), 0, positive)
      end
    end

    test "inside of one another, by what is around them" do
      inner = ours([1, 5, 9])

      count_larger = fn x, acc ->
        larger = fn y, n -> if holds?(Nx.greater(y, x)), do: Nx.add(n, 1), else: n end
        if holds?(Nx.equal(x, 0)), do: acc, else: Nx.add(acc, Nx.reduce(inner, 0, larger))
      end

      assert [0, 2, 7, 10] |> ours() |> Nx.reduce(0, count_larger) |> Nx.to_number() == 3
    end

    test "as often as they like" do
      gcd = fn x, acc -> gcd(x, acc) end
      assert [48, 180, 84] |> ours() |> Nx.reduce(0, gcd) |> Nx.to_number() == 12
      assert_same(&reduce_by_gcd/1, [Nx.tensor([[48, 180, 84], [35, 21, 14]])])

      # A thousand ways.
      bits = fn x, acc ->
        Enum.reduce(0..9, acc, fn bit, acc ->
          if holds?(Nx.equal(Nx.bitwise_and(Nx.right_shift(x, bit), 1), 1)),
            do: Nx.add(acc, 1),
            else: acc
        end)
      end

      assert [1023, 5, 0] |> ours() |> Nx.reduce(0, bits) |> Nx.to_number() == 12
    end
  end

  defp gcd(a, b), do: if(holds?(Nx.equal(b, 0)), do: a, else: gcd(b, Nx.remainder(a, b)))

  defn reduce_by_gcd(t) do
    Nx.reduce(t, 0, [axes: [1]], fn x, acc ->
      {gcd, _} =
        while {a = x, b = acc}, b != 0 do
          {b, Nx.remainder(a, b)}
        end

      gcd
    end)
  end

  defp native_calls(fun) do
    :erlang.trace_pattern({ExBurn.NIF, :_, :_}, true, [:local])

    # A process can't trace itself.
    task =
      Task.async(fn ->
        receive do: (:traced -> fun.())
      end)

    :erlang.trace(task.pid, true, [:call])
    send(task.pid, :traced)
    Task.await(task)
    delivered = :erlang.trace_delivered(task.pid)
    assert_receive {:trace_delivered, _pid, ^delivered}
    count_calls(0)
  end

  defp count_calls(count) do
    receive do
      {:trace, _pid, :call, _mfa} -> count_calls(count + 1)
    after
      0 -> count
    end
  end

  test "inside of loops and branches" do
    assert_same(&reduce_in_loop/1, [Nx.tensor([[1, 2], [3, 4]])])
  end

  defn reduce_in_loop(t) do
    {t, _} =
      while {t, i = 0}, i < 3 do
        folded = Nx.reduce(t, 1, [axes: [0]], fn x, acc -> x - 2 * acc end)

        next =
          if i == 1 do
            t + Nx.reduce(t, 0, fn x, acc -> x + 3 * acc end)
          else
            t - folded
          end

        {next, i + 1}
      end

    t
  end

  test "a function may use tensors from around it" do
    table = Nx.tensor([1, 10, 100], backend: Nx.BinaryBackend)
    fun = fn x, acc -> Nx.add(Nx.multiply(x, Nx.sum(table)), acc) end
    assert_same(&Nx.reduce(&1, 0, [axes: [0]], fun), [Nx.tensor([[1, 2], [3, 4]])])
  end

  test "empty windows of the operand's axes fold to the start" do
    t = Nx.broadcast(1.0, {2, 1}) |> Nx.multiply(2)
    assert_same(&Nx.reduce(&1, 5.0, [axes: [1]], fn x, acc -> horner(x, acc) end), [t])
  end

  test "windows: strides, padding, dilations" do
    t = Nx.iota({4, 5}) |> Nx.remainder(7)
    fun = fn x, acc -> horner(x, acc) end

    for {dimensions, opts} <- [
          {{2, 2}, []},
          {{2, 3}, padding: :same},
          {{1, 2}, strides: [2, 1], padding: [{0, 1}, {2, 0}]},
          {{2, 2}, window_dilations: [2, 1], strides: 2},
          {{2, 2}, padding: [{-1, 1}, {0, -1}]}
        ] do
      assert_same(&Nx.window_reduce(&1, 1, dimensions, opts, fun), [t])
    end

    vectorized = fn t ->
      t |> Nx.vectorize(:a) |> Nx.window_reduce(0, {2}, fun) |> Nx.devectorize()
    end

    assert_same(vectorized, [t])
  end

  test "windows by functions with branches" do
    assert_same(&window_by_cond/1, [Nx.tensor([4, -1, 2, 7, -3])])
  end

  defn window_by_cond(t) do
    Nx.window_reduce(t, 0, {3}, fn x, acc ->
      if x > acc do
        x
      else
        acc - 1
      end
    end)
  end

  test "many elements" do
    t = Nx.remainder(Nx.iota({300, 300}, backend: ExBurn.Backend), 7)

    fold = fn t, axes ->
      Nx.reduce(t, 0, [axes: axes], fn x, acc -> Nx.remainder(horner(x, acc), 1009) end)
    end

    column = Enum.reduce(0..299, 0, &rem(rem(&1 * 300, 7) + &2 * 2, 1009))
    assert fold.(t, [0])[0] |> Nx.to_number() == column
  end
end
