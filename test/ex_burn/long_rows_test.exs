defmodule ExBurn.LongRowsTest do
  @moduledoc """
  Folds of so many and so long rows that their last results are joined side by side, against `Nx.BinaryBackend`.
  """

  use ExUnit.Case, async: true

  # Two groups of sixteen rows and some more; two blocks of 64 elements and some more.
  @rows 37
  @length 131

  defp numbers(type, backend) do
    {@rows, @length + 5}
    |> Nx.iota(type: :s64, backend: backend)
    |> Nx.multiply(7919)
    |> Nx.remainder(251)
    |> Nx.as_type(type)
  end

  defp folds(x) do
    for fold <- [&Nx.sum/2, &Nx.reduce_max/2, &Nx.reduce_min/2, &Nx.all/2, &Nx.any/2],
        rows <- [x, x[[0..-1//1, 2..(@length + 1)]]],
        do: rows |> fold.(axes: [1]) |> Nx.to_list()
  end

  for type <- [:u8, :s32, :u64, :f32, :f64] do
    test "of #{type}, whole and cut" do
      assert folds(numbers(unquote(type), ExBurn.Backend)) ==
               folds(numbers(unquote(type), Nx.BinaryBackend))
    end
  end

  test "a row with NaN has NaN alone" do
    x = Nx.iota({@rows, @length}, type: :f32, backend: ExBurn.Backend)
    nan = Nx.tensor([[:nan]], backend: ExBurn.Backend)
    got = x |> Nx.put_slice([20, 70], nan) |> Nx.reduce_max(axes: [1]) |> Nx.to_list()
    expected = for row <- 0..(@rows - 1), do: (row + 1) * @length - 1.0
    assert got == List.replace_at(expected, 20, :nan)
  end
end
