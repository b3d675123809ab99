defmodule ExBurn.Defn.CompilerTest do
  use ExBurn.Case, async: false

  import Nx.Defn

  alias ExBurn.Defn.{Cache, Compiler}

  defn polynomial(x, y), do: x * x + 2 * y - 1

  defn steps(x) do
    {_, x, n} =
      while {i = 0, x, n = 0}, i < 5 do
        if rem(i, 2) == 0, do: {i + 1, x * 2, n + 1}, else: {i + 1, x - 1, n}
      end

    {x, n}
  end

  defn nested(x) do
    while {x, i = 0}, i < 3 do
      {inner, _, _} =
        while {x, j = 0, i}, j < i do
          {x + 1, j + 1, i}
        end

      {inner * 2, i + 1}
    end
  end

  defn pick(x) do
    cond do
      Nx.sum(x) > 10 -> {x, Nx.sum(x)}
      Nx.sum(x) > 5 -> {x * 2, Nx.sum(x) * 3}
      true -> {-x, 0.0}
    end
  end

  test "arithmetic, loops and branches give what BinaryBackend gives" do
    assert_same(&polynomial/2, [Nx.tensor([1.0, 2.0]), Nx.tensor([[3], [4]])])
    assert_same(&steps/1, [Nx.tensor([1.5, -2.0])])
    assert_same(&nested/1, [Nx.tensor([1, 2])])
    for scale <- [1, 3, 9], do: assert_same(&pick/1, [Nx.tensor([1.0 * scale, 1.5])])
  end

  test "a container comes back as the same container with the same names" do
    x = Nx.tensor([[1.0, 2.0]], names: [:a, :b])
    fun = fn x -> %{twice: Nx.multiply(x, 2), pair: {x, Nx.sum(x, axes: [:b])}} end
    result = Nx.Defn.jit_apply(fun, [x], compiler: Compiler)
    assert %{twice: %{names: [:a, :b]}, pair: {%{names: [:a, :b]}, %{names: [:a]}}} = result
  end

  test "vectorized arguments" do
    x = Nx.tensor([[1.0, 2.0], [3.0, 4.0]]) |> Nx.vectorize(:rows)
    result = Nx.Defn.jit_apply(&Nx.add(&1, Nx.sum(&1)), [x], compiler: Compiler)
    assert result.vectorized_axes == [rows: 2]
    assert_close(Nx.devectorize(result, keep_names: false), Nx.tensor([[4.0, 5.0], [10.0, 11.0]]))
  end

  test "a program is kept by function and argument types" do
    Cache.clear()
    fun = Nx.Defn.jit(&polynomial/2, compiler: Compiler)
    fun.(Nx.tensor([1.0]), Nx.tensor([1.0]))
    assert Cache.size() == 1
    fun.(Nx.tensor([2.0]), Nx.tensor([3.0]))
    assert Cache.size() == 1
    fun.(Nx.tensor([2.0, 3.0]), Nx.tensor([3.0]))
    assert Cache.size() == 2
  end

  test "functions that capture different values get different programs" do
    for value <- [2, 3] do
      table = Nx.tensor([value, value], backend: Nx.BinaryBackend)

      result =
        Nx.Defn.jit_apply(&Nx.multiply(&1, table), [Nx.tensor([10, 100])], compiler: Compiler)

      assert Nx.to_flat_list(result) == [10 * value, 100 * value]
    end
  end

  test "an argument that is not used is never asked for" do
    fun = Compiler.__compile__(make_ref(), [param(0), param(1)], fn [_x, y] -> Nx.exp(y) end, [])

    [result] =
      fun.([[fn -> flunk("the unused argument was asked for") end, fn -> Nx.tensor([0.0]) end]])

    assert Nx.to_flat_list(result) == [1.0]
  end

  defp param(position), do: Nx.Defn.Expr.parameter(:root, {:f, 32}, {1}, position)

  test "compiled functions run in any process" do
    fun =
      Nx.Defn.compile(&polynomial/2, [Nx.template({1}, :f32), Nx.template({1}, :f32)],
        compiler: Compiler
      )

    results =
      1..20
      |> Task.async_stream(fn i ->
        fun.(Nx.tensor([1.0 * i]), Nx.tensor([0.0])) |> Nx.to_flat_list()
      end)
      |> Enum.map(fn {:ok, result} -> result end)

    assert results == Enum.map(1..20, &[1.0 * &1 * &1 - 1])
  end

  test "what can't be a cache is refused" do
    for cache <- [3, :disk, "", %{}] do
      fun = fn -> Nx.Defn.jit_apply(&Nx.exp/1, [1.0], compiler: Compiler, cache: cache) end
      error = assert_raise ExBurn.Error, fun
      wanted = "compile: cache: is #{inspect(cache)}, expected true, false or the path of a file"
      assert Exception.message(error) == wanted
    end
  end

  test "a compiled function in one that is being compiled is told how to be a part of it" do
    twice = fn opts ->
      inner = Nx.Defn.jit(&Nx.add(&1, 1), [compiler: Compiler] ++ opts)
      Nx.Defn.jit(fn x -> x |> inner.() |> Nx.multiply(2) end, compiler: Compiler)
    end

    assert Nx.to_number(twice.(on_conflict: :reuse).(Nx.tensor(3))) == 8

    assert_raise ExBurn.Error, ~r/from_nx: got an expression.*on_conflict: :reuse/, fn ->
      twice.(on_conflict: :force).(Nx.tensor(3))
    end
  end

  test "options of other compilers are ignored, unknown devices are not" do
    opts = [compiler: Compiler, client: :host, max_float_type: {:f, 32}]
    assert Nx.Defn.jit_apply(&Nx.add(&1, 1), [Nx.tensor(1)], opts) |> Nx.to_number() == 2

    assert_raise Error, ~r/^device: there is no device :tpu/, fn ->
      Nx.Defn.jit_apply(&Nx.add(&1, 1), [Nx.tensor(1)], compiler: Compiler, device: :tpu)
    end
  end
end
