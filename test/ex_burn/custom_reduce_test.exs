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
