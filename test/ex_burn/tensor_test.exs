defmodule ExBurn.TensorTest do
  use ExUnit.Case, async: true
  doctest ExBurn.Tensor

  alias ExBurn.{Error, Tensor}

  test "from Nx and back, for each type of the engine" do
    for type <- ~w(u8 u16 u32 u64 s8 s16 s32 s64 bf16 f16 f32 f64)a do
      nx = Nx.tensor([[1, 2, 3], [4, 5, 6]], type: type, backend: Nx.BinaryBackend)
      assert {:ok, tensor} = Tensor.from_nx(nx)
      assert Tensor.shape(tensor) == {2, 3}
      assert Tensor.type(tensor) == Nx.type(nx)
      assert {:ok, back} = Tensor.to_nx(tensor)
      assert Nx.to_binary(back) == Nx.to_binary(nx)
    end
  end

  test "a tensor of the backend is the same memory" do
    nx = Nx.tensor([1.0], backend: ExBurn.Backend)
    assert {:ok, tensor} = Tensor.from_nx(nx)
    assert tensor.ref == nx.data.ref
  end

  test "types that do not exist are errors" do
    assert {:error, %Error{}} = Tensor.from_binary(<<1>>, :f32, {1})
    assert {:error, %Error{op: :from_binary}} = Tensor.from_binary(<<1>>, :q8, {1})
    assert_raise Error, ~r/^zeros: /, fn -> Tensor.zeros({2}, :nothing) end
    assert_raise Error, ~r/^ones: /, fn -> Tensor.ones({-1}, :f32) end

    assert_raise Error, "rand: type is :s32, expected a float such as :f32", fn ->
      Tensor.rand({2}, :s32)
    end
  end

  test "two draws differ and fill the unit interval" do
    [a, b] =
      for _draw <- 1..2 do
        {:ok, nx} = Tensor.to_nx(Tensor.rand({1000}, :f32))
        Nx.to_flat_list(nx)
      end

    assert a != b
    assert Enum.min(a) >= 0.0 and Enum.max(a) < 1.0

    # The mean of 1000 such numbers is within 0.5 +- 6 * sqrt(1 / 12 / 1000) unless one draw in a billion is made.
    assert_in_delta Enum.sum(a) / 1000, 0.5, 0.055
  end
end
