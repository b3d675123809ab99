defmodule ExBurn.GPU.RoundingTest do
  @moduledoc """
  Arithmetic of one kernel on a GPU, each step of which is that of IEEE 754 whatever the driver's compiler makes of formulas,
  against `Nx.BinaryBackend`, with `EX_BURN_TEST_DEVICE=gpu`.
  """

  use ExUnit.Case, async: false
  use ExUnitProperties

  import ExBurn.TestDevice

  alias ExBurn.Defn.Compiler

  @moduletag skip: skip()

  @numbers [:nan, :infinity, :neg_infinity, 0.0, -0.0, 1.0, -1.5, 0.1, 3.3, -100.1]

  # Each of them with each.
  defp pairs(numbers \\ @numbers) do
    for axis <- [0, 1] do
      numbers
      |> Nx.tensor(type: :f32, backend: Nx.BinaryBackend)
      |> Nx.new_axis(1 - axis)
      |> Nx.broadcast({length(numbers), length(numbers)})
    end
  end

  defp on_gpu(fun, operands) do
    result = Nx.Defn.jit_apply(fun, operands, compiler: Compiler, device: gpu())
    Nx.backend_copy(result, Nx.BinaryBackend)
  end

  # As text, which tells zeros apart by their sign.
  defp assert_same(fun, operands) do
    result = on_gpu(fun, operands)
    expected = apply(fun, operands)
    assert inspect(Nx.to_flat_list(result)) == inspect(Nx.to_flat_list(expected))
  end

  # Nx itself calculates with numbers that are written in functions, so most cases have none.
  defp plus(x, y), do: Nx.add(x, y)
  defp minus(x, y), do: Nx.subtract(x, y)
  defp times(x, y), do: Nx.multiply(x, y)

  test "what is not a number is the extremum whatever it is compared with, and whatever is made of it" do
    x = Nx.tensor([:nan, :nan], type: :f32, backend: Nx.BinaryBackend)

    for extremum <- [&Nx.min/2, &Nx.max/2],
        last <- [&Nx.sin/1, &Nx.exp/1, &times(&1, &1), &Nx.sqrt/1],
        fun <- [
          &last.(extremum.(&1, 1.0)),
          &last.(extremum.(1.0, &1)),
          &extremum.(last.(&1), 2.0)
        ] do
      assert Nx.to_flat_list(on_gpu(fun, [x])) == [:nan, :nan]
    end
  end

  test "numbers nearer to 0 than the processor calculates with are compared and chosen as they are" do
    [x, y] = pairs([1.0e-39, -1.0e-39, 3.0e-45, 0.0, 2.0e-38, -1.0])

    for fun <- [&Nx.min/2, &Nx.max/2, &Nx.less/2, &Nx.less_equal/2, &Nx.greater/2, &Nx.equal/2],
        do: assert_same(fun, [x, y])

    for fun <- [&Nx.reduce_max(&1, axes: [1]), &Nx.cumulative_min(&1, axis: 0), &Nx.sort(&1)],
        do: assert_same(fun, [y])
  end

  test "what is not a number stays so where a formula would cancel it" do
    x = Nx.tensor([:nan, :infinity, :neg_infinity], type: :f32, backend: Nx.BinaryBackend)

    for fun <- [
          &plus(times(&1, 0.0), 1.0),
          &plus(times(0.0, &1), 1.0),
          &plus(minus(&1, &1), 1.0),
          &plus(plus(&1, Nx.negate(&1)), 1.0),
          &plus(plus(Nx.negate(&1), &1), 1.0),
          &plus(Nx.divide(&1, &1), 1.0),
          &plus(times(plus(&1, 1.0), 0.0), 1.0),
          &minus(plus(&1, 1.0), plus(&1, 1.0)),
          &Nx.select(Nx.greater_equal(minus(&1, &1), 0.0), 5.0, :nan)
        ] do
      assert Nx.to_flat_list(on_gpu(fun, [x])) == [:nan, :nan, :nan]
    end
  end

  test "sums are rounded one by one" do
    x = Nx.tensor([1.0], type: :f32, backend: Nx.BinaryBackend)
    y = Nx.tensor([1.0e8], type: :f32, backend: Nx.BinaryBackend)
    # The two numbers nearest to 1.0e8 are 8 apart.
    assert Nx.to_flat_list(on_gpu(&minus(plus(&1, 1.0e8), 1.0e8), [x])) == [0.0]
    assert Nx.to_flat_list(on_gpu(&minus(plus(&1, &2), &2), [x, y])) == [0.0]
    assert Nx.to_flat_list(on_gpu(&plus(minus(&1, &2), &2), [x, y])) == [0.0]
    # Knuth's sum of two numbers: what the rounding lost.
    lost = fn x, y ->
      sum = plus(x, y)
      part = minus(sum, x)
      plus(minus(x, minus(sum, part)), minus(y, part))
    end

    assert Nx.to_flat_list(on_gpu(lost, [x, y])) == [1.0]
  end

  test "products are rounded before they are added" do
    x = Nx.tensor([1.0 + 2 ** -12], type: :f32, backend: Nx.BinaryBackend)

    # The square is 1 + 2^-11 + 2^-24, which is rounded to 1 + 2^-11: a fused multiplication would keep the rest.
    assert Nx.to_flat_list(on_gpu(&minus(times(&1, &1), 1.0 + 2 ** -11), [x])) == [0.0]
  end

  test "zeros have the signs of their sums" do
    zeros = Nx.tensor([0.0, -0.0], type: :f32, backend: Nx.BinaryBackend)

    for {fun, signs} <- [
          {&minus(0.0, &1), [0, 0]},
          {&minus(&1, &1), [0, 0]},
          {&times(&1, 0.0), [0, 1]},
          {&times(&1, -1.0), [1, 0]}
        ] do
      result = on_gpu(fun, [zeros])
      bits = Nx.bitcast(result, :u32) |> Nx.to_flat_list()
      assert bits == Enum.map(signs, &(&1 * 0x80000000))
    end
  end

  test "odd functions keep the sign of a zero" do
    zeros = Nx.tensor([0.0, -0.0], type: :f32, backend: Nx.BinaryBackend)

    for fun <- [
          :erf,
          :sinh,
          :tanh,
          :sin,
          :tan,
          :asin,
          :atan,
          :expm1,
          :log1p,
          :cbrt,
          :erf_inv,
          :sqrt
        ] do
      result = on_gpu(&apply(Nx, fun, [&1]), [zeros])
      assert {fun, Nx.bitcast(result, :u32) |> Nx.to_flat_list()} == {fun, [0, 0x80000000]}
    end
  end

  test "what takes the sign of a number is chosen beside that number" do
    x = Nx.tensor([2.5, -2.5, 3.7, 0.0, 9.0], type: :f32, backend: Nx.BinaryBackend)

    for {fun, expected} <- [
          {&Nx.select(Nx.greater(&1, 0), Nx.round(&1), &1), [3.0, -2.5, 4.0, 0.0, 9.0]},
          {&Nx.select(Nx.greater(&1, 3.0), Nx.tanh(Nx.multiply(&1, 20)), Nx.multiply(&1, 20)),
           [50.0, -50.0, 1.0, 0.0, 1.0]},
          {&Nx.select(Nx.greater(&1, 3.0), &1, Nx.round(&1)), [3.0, -3.0, 3.7, 0.0, 9.0]}
        ] do
      result = on_gpu(fun, [x])
      expected = Nx.tensor(expected, type: :f32, backend: Nx.BinaryBackend)
      assert Nx.to_flat_list(result) == Nx.to_flat_list(expected)
    end
  end

  test "bits of two numbers are merged and chosen" do
    [x, y, chosen] =
      for {numbers, type} <- [
            {[0x40200000, 5, -5, 123_456_789], :s32},
            {[0x3F7C92C0, -6, 77, -99], :s32},
            {[1, 0, 1, 1], :u8}
          ],
          do: Nx.tensor(numbers, type: type, backend: Nx.BinaryBackend)

    size = fn x -> Nx.bitwise_and(x, 0x7FFFFFFF) end
    sign = fn x -> Nx.bitwise_and(x, -0x80000000) end

    for merge <- [&Nx.bitwise_or/2, &Nx.bitwise_xor/2, &Nx.add/2] do
      assert_same(&Nx.select(&3, merge.(size.(&1), sign.(&2)), &2), [x, y, chosen])
      assert_same(&Nx.select(&3, &2, merge.(size.(&1), sign.(&2))), [x, y, chosen])
    end
  end

  test "sines, cosines and tangents of large angles" do
    angles = [1.0e5, -3.0e5, 1.0e6, 3.0e6, 1.0e7, 1.0e9, -1.0e12, 1.0e20, 3.4e38]
    x = Nx.tensor(angles, type: :f32, backend: Nx.BinaryBackend)

    for fun <- [:sin, :cos, :tan] do
      expected = apply(Nx, fun, [x])
      result = on_gpu(&apply(Nx, fun, [&1]), [x])
      assert Nx.to_number(Nx.all_close(result, expected, rtol: 1.0e-6, atol: 1.0e-7)) == 1
    end
  end

  test "formulas that cancel in theory" do
    for fun <- [
          &minus(plus(&1, &2), &2),
          &plus(minus(&1, &2), &2),
          &minus(minus(plus(&1, &2), &1), &2),
          &minus(times(&1, &2), times(&1, &2)),
          &plus(times(&1, &2), times(&1, Nx.negate(&2))),
          &plus(times(&1, minus(&1, &2)), times(&2, &1)),
          &Nx.less(minus(&1, &2), 0.0),
          &Nx.less(plus(&1, &2), &2),
          &Nx.greater_equal(plus(&1, &2), &1),
          &Nx.equal(minus(&1, &2), 0.0),
          &Nx.less(times(&1, &2), plus(times(&1, &2), 1.0)),
          &Nx.max(minus(&1, &2), times(&1, 0.0)),
          &Nx.select(Nx.less(minus(&1, &1), 1.0), &2, &1)
        ] do
      assert_same(fun, pairs())
    end
  end

  test "quotients and roots are not undone" do
    for fun <- [
          &Nx.divide(times(&1, &2), &2),
          &times(Nx.divide(&1, &2), &2),
          &Nx.divide(&1, Nx.divide(&1, &2)),
          &times(Nx.sqrt(times(&1, &2)), Nx.sqrt(times(&1, &2))),
          &Nx.sqrt(times(plus(&1, &2), plus(&1, &2)))
        ] do
      assert_same(fun, pairs([1.0, 0.1, 3.3, 100.1, 7.0, 1.0e-3]))
    end
  end

  property "sums and products of sums and products" do
    check all(steps <- steps(), max_runs: 40) do
      fun = fn x, y ->
        steps
        |> Enum.reduce([y, x], fn {op, i, j}, values ->
          [step(op, Enum.at(values, i), Enum.at(values, j)) | values]
        end)
        |> hd()
      end

      assert_same(fun, pairs())
    end
  end

  # Four steps, each of the values before it, the last one first.
  defp steps do
    step = fn known ->
      tuple(
        {member_of([:add, :subtract, :multiply, :negate, :max]), integer(0..(known - 1)),
         integer(0..(known - 1))}
      )
    end

    tuple({step.(2), step.(3), step.(4), step.(5)}) |> map(&Tuple.to_list/1)
  end

  defp step(:negate, x, _y), do: Nx.negate(x)
  defp step(op, x, y), do: apply(Nx, op, [x, y])
end
