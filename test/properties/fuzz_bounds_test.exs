defmodule ExBurn.FuzzBoundsTest do
  use ExUnit.Case, async: true

  alias ExBurn.Fuzz.Compare

  # The squares of such numbers are zero, or too large; a bound is the same part of each number all the same.
  test "the bound of a complex number grows with its size, however small or large" do
    for power <- [-1010, -540, 0, 540, 1010], scale = :math.pow(2, power) do
      bounds = Compare.bounds([number(3.0, scale), number(3.0 + 2.0e-13, scale)])
      assert [{_, bound}] = bounds
      # Four times the distance, and 512 places of a number of size 5.
      assert_in_delta bound / scale, 4 * 2.0e-13 + 512 * :math.pow(2, -50), 1.0e-14
    end
  end

  defp number(re, scale),
    do: Nx.tensor([Complex.new(re * scale, 4 * scale)], type: :c128, backend: Nx.BinaryBackend)
end
