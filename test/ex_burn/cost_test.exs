defmodule ExBurn.CostTest do
  use ExUnit.Case, async: true

  alias ExBurn.{Cost, Program}

  doctest Cost

  defp brief?(op, operands, outputs), do: Cost.brief?(Cost.of(op, operands, outputs))

  test "work that cannot be foreseen costs more than any number" do
    assert Cost.of({:while, %{}}, [], []) > 1.0e300
    refute brief?({:while, %{}}, [], [])
  end

  test "the length of what is contracted counts" do
    dot = {:dot, %{lhs_contract: [1]}}
    cost = &Cost.of(dot, [{:s32, [10, &1]}, {:s32, [&1, 30]}], [{:s32, [10, 30]}])
    assert cost.(2000) > 100 * cost.(10)
  end

  test "matrices count as often as they are passed over" do
    op = {:linalg, {:svd, %{full_matrices: true, max_iter: 100}}}
    matrix = {:f32, [64, 64]}
    refute brief?(op, [matrix], [matrix, {:f32, [64]}, matrix])
    assert brief?({:linalg, :determinant}, [{:f32, [3, 3]}], [{:f32, []}])
  end

  test "a loop over vectors may be longer than one of slow functions" do
    many = fn type -> {type, [200_000]} end
    assert brief?({:unary, :exp}, [many.(:f32)], [many.(:f32)])
    refute brief?({:unary, :exp}, [many.(:f64)], [many.(:f64)])
    refute brief?({:unary, :exp}, [many.(:f16)], [many.(:f16)])
    refute brief?({:unary, :acos}, [many.(:f32)], [many.(:f32)])
    refute brief?({:binary, :pow}, [many.(:f32), many.(:f32)], [many.(:f32)])
  end

  test "short rows take longer than long ones" do
    rows = {:f32, [250_000, 2]}
    refute brief?({:reduce, %{axes: [1]}}, [rows], [{:f32, [250_000]}])
    refute brief?({:reduce, %{axes: [0]}}, [rows], [{:f32, [2]}])
    assert brief?({:reduce, %{axes: nil}}, [rows], [{:f32, []}])
    assert brief?({:binary, :add}, [rows, rows], [rows])
    spread = Cost.of({:binary, :add}, [{:f32, [250_000, 1]}, {:f32, [1, 2]}], [rows])
    assert spread > Cost.of({:binary, :add}, [rows, rows], [rows])
    refute brief?({:stack, %{axis: 1}}, [{:f32, [250_000]}, {:f32, [250_000]}], [rows])
  end

  test "fused loops take a third of their time, but no less than the longest of them" do
    type = {:f32, [1_000_000]}

    chain = fn count ->
      Enum.reduce(1..count//1, {{:input, 0}, Program.new([type])}, &exp(&1, &2, type))
    end

    cost = fn count, fusion? -> count |> chain.() |> elem(1) |> Program.cost(fusion?) end
    assert_in_delta cost.(1, true), cost.(1, false), 1
    assert_in_delta cost.(12, true) - 12_000, (cost.(12, false) - 12_000) / 3, 1
    assert_in_delta cost.(12, false), 12 * cost.(1, false), 1
  end

  test "what cannot be foreseen is so with and without fusion" do
    type = {:f32, [2]}
    {_, program} = Program.emit(Program.new([type]), {:while, %{}}, [{:input, 0}], [type])
    assert Program.cost(program, true) == Program.cost(program, false)
  end

  defp exp(_, {ref, program}, type) do
    {[ref], program} = Program.emit(program, {:unary, :exp}, [ref], [type])
    {ref, program}
  end
end
