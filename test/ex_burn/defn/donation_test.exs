defmodule ExBurn.Defn.DonationTest do
  use ExBurn.Case, async: true

  import Nx.Defn

  alias ExBurn.Defn.Compiler

  @compiled [compiler: Compiler]
  @deallocated ~r"the tensor has been deallocated"

  # Long enough to have memory of its own on the native side.
  defp numbers do
    Nx.backend_copy(Nx.iota({5000}, type: :f32, backend: ExBurn.Backend), ExBurn.Backend)
  end

  defp expected(fun, x),
    do:
      Nx.Defn.jit_apply(fun, [Nx.backend_copy(x, Nx.BinaryBackend)], compiler: Nx.Defn.Evaluator)

  defp address(t), do: Nx.to_pointer(t, mode: :local).address

  defn everything(x) do
    x = Nx.runtime_call(x, x, &increment/2)
    x = if x[0] > 0, do: x * 2, else: x

    {x, _} =
      while {x, i = 0}, i < 3 do
        {Nx.put_slice(x, [i], Nx.new_axis(x[i + 1], 0)), i + 1}
      end

    x
  end

  def increment(x, _opts), do: Nx.add(x, 1)

  test "results are written over donated memory" do
    for fun <- [
          &Nx.multiply(&1, 3.0),
          &Nx.add(Nx.exp(Nx.negate(&1)), 1.0),
          &Nx.put_slice(&1, [7], Nx.tensor([1.0, 2.0]))
        ] do
      x = numbers()
      want = expected(fun, numbers())
      before = address(x)
      result = Nx.Defn.jit_apply(fun, [ExBurn.donate(x)], @compiled)
      assert address(result) == before
      assert Nx.to_binary(result) == Nx.to_binary(want)
      assert_raise Error, @deallocated, fn -> Nx.to_binary(x) end
    end
  end

  test "without a donation arguments stay" do
    x = numbers()
    result = Nx.Defn.jit_apply(&Nx.multiply(&1, 3.0), [x], @compiled)
    assert address(result) != address(x)
    assert Nx.to_number(x[10]) == 10.0
  end

  test "a state goes from call to call in the same memory" do
    step = Nx.Defn.jit(fn {sum, count}, x -> {Nx.add(sum, x), Nx.add(count, 1)} end, @compiled)
    state = {numbers(), Nx.tensor(0)}
    before = address(elem(state, 0))
    one = Nx.broadcast(1.0, {5000})
    {sum, count} = Enum.reduce(1..10, state, fn _, state -> step.(ExBurn.donate(state), one) end)
    assert address(sum) == before
    assert Nx.to_number(count) == 10
    assert Nx.to_number(sum[3]) == 13.0
  end

  test "memory that someone else sees is left alone" do
    x = numbers()
    view = Nx.reshape(x, {50, 100})
    binary = Nx.to_binary(x)
    same = :binary.copy(binary)
    result = Nx.Defn.jit_apply(&Nx.multiply(&1, 2.0), [ExBurn.donate(x)], @compiled)
    assert Nx.to_number(result[4999]) == 9998.0
    assert Nx.to_number(view[49][99]) == 4999.0
    assert binary == same
  end

  test "one tensor given twice is read before it is written" do
    x = ExBurn.donate(numbers())

    result =
      Nx.Defn.jit_apply(
        fn a, b -> Nx.add(Nx.multiply(a, 2), Nx.reverse(b)) end,
        [x, x],
        @compiled
      )

    assert Nx.to_number(result[0]) == 4999.0
    assert Nx.to_number(result[4999]) == 9998.0
  end

  test "arguments that a function does not read stay" do
    {x, y} = ExBurn.donate({numbers(), numbers()})
    Nx.Defn.jit_apply(fn {x, _y} -> Nx.multiply(x, 2) end, [{x, y}], @compiled)
    assert_raise Error, @deallocated, fn -> Nx.to_binary(x) end
    assert Nx.to_number(y[1]) == 1.0
  end

  test "loops, branches and calls take donated memory too" do
    fun = &everything/1
    x = numbers()
    want = expected(fun, numbers())
    result = Nx.Defn.jit_apply(fun, [ExBurn.donate(x)], @compiled)
    assert Nx.to_binary(result) == Nx.to_binary(want)
    assert_raise Error, @deallocated, fn -> Nx.to_binary(x) end
  end

  test "a tensor that Nx marks as donatable is donated" do
    x = numbers()
    Nx.Defn.jit_apply(&Nx.multiply(&1, 2), [Map.put(x, :donatable?, true)], @compiled)
    assert_raise Error, @deallocated, fn -> Nx.to_binary(x) end
  end

  test "tensors of other backends are copied as always" do
    x = Nx.tensor([1.0, 2.0], backend: Nx.BinaryBackend)
    result = Nx.Defn.jit_apply(&Nx.multiply(&1, 2), [ExBurn.donate(x)], @compiled)
    assert Nx.to_list(result) == [2.0, 4.0]
    assert Nx.to_list(x) == [1.0, 2.0]
  end
end
