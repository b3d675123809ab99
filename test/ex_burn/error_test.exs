defmodule ExBurn.ErrorTest do
  use ExUnit.Case, async: true

  alias ExBurn.Error

  doctest Error

  test "a message is one line with what was given" do
    assert Exception.message(%Error{op: :fit, reason: "no data"}) == "fit: no data"
    details = %{lhs: [3, 4], rhs: [5, 6]}
    error = %Error{op: :matmul, reason: "shape mismatch", details: details}
    assert Exception.message(error) == "matmul: shape mismatch (lhs: [3, 4], rhs: [5, 6])"
  end

  test "an engine's error keeps its kind, its data and its sentence" do
    native =
      {:unsupported,
       %{op: "erf", dtype: "c64", device: "cpu", message: "erf of c64 is not implemented on cpu"}}

    error = Error.from_native(native)
    assert %{op: :erf, reason: :unsupported, details: %{dtype: "c64", device: "cpu"}} = error
    assert Exception.message(error) == "erf of c64 is not implemented on cpu"
  end

  test "an index outside of its axis raises Nx's own sentence" do
    native = {:out_of_bounds, %{op: "take", index: "7", axis: 0, shape: [3], message: "take: …"}}
    message = "index 7 is out of bounds for axis 0 in shape {3}"
    assert_raise ArgumentError, message, fn -> Error.unwrap!({:error, native}) end
  end
end
