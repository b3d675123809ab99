defmodule ExBurn.InstructionTest do
  use ExUnit.Case, async: true

  alias ExBurn.Instruction

  doctest ExBurn.Type
  doctest Instruction
  doctest ExBurn.Program

  describe "element_bytes/2" do
    test "has the bytes of a tensor with the same number" do
      for {type, number} <- [
            u8: 255,
            s16: -2,
            s64: -1,
            f16: 0.1,
            f32: 0.1,
            f64: :nan,
            f32: :infinity
          ] do
        bytes = Nx.to_binary(Nx.tensor(number, type: type, backend: Nx.BinaryBackend))

        assert Instruction.element_bytes(Nx.Type.normalize!(type), number) ==
                 :binary.bin_to_list(bytes)
      end
    end

    test "gives a sub-byte number a byte of its own, with its sign" do
      assert Instruction.element_bytes({:u, 4}, 9) == [9]
      assert Instruction.element_bytes({:s, 4}, -1) == [255]
    end
  end

  test "a slice with a tensor among its starts is a dynamic one" do
    t = Nx.iota({4, 4})
    start = Nx.tensor(1)

    assert {{:slice, %{starts: [1, 0]}}, [^t]} =
             Instruction.build(:slice, t, [t, [1, 0], [2, 2], [1, 1]])

    args = [t, [start, 0], [2, 2], [1, 1]]
    assert {{:dynamic_slice, _}, [^t, ^start, 0]} = Instruction.build(:slice, t, args)
  end
end
