defmodule ExBurn.BackendTest do
  use ExBurn.Case, async: true

  doctest ExBurn.Backend

  setup do
    Nx.default_backend(ExBurn.Backend)
    :ok
  end

  test "tensors live on the backend and come back as they were" do
    types =
      ~w(u8 u16 u32 u64 s8 s16 s32 s64 f8 f8_e4m3fn bf16 f16 f32 f64 c64 c128)a

    for type <- types,
        shape <- [{}, {1}, {2, 3}] do
      t = Nx.iota(shape, type: type)
      assert %ExBurn.Backend{} = t.data
      reference = Nx.iota(shape, type: type, backend: Nx.BinaryBackend)
      assert Nx.backend_copy(t, Nx.BinaryBackend) == reference
      assert Nx.backend_transfer(Nx.backend_transfer(reference, ExBurn.Backend)) == reference
    end
  end

  test "elements of less than a byte are packed as Nx packs them" do
    for type <- [:u2, :u4, :s2, :s4], size <- 0..9//3, size > 0 do
      numbers = for i <- 1..size, do: rem(i, 2)
      t = Nx.tensor(numbers, type: type)
      reference = Nx.tensor(numbers, type: type, backend: Nx.BinaryBackend)
      assert Nx.to_binary(t) == Nx.to_binary(reference)
      assert Nx.to_flat_list(Nx.negate(t)) == Nx.to_flat_list(Nx.negate(reference))
      assert Nx.to_binary(Nx.backend_copy(reference, ExBurn.Backend)) == Nx.to_binary(reference)
    end

    assert_raise Error, "from_binary: 2 bytes do not make a tensor of u4[3,3]", fn ->
      ExBurn.Backend.upload(Nx.template({3, 3}, :u4), <<1, 2>>)
    end
  end

  test "functions of f64 are within a unit of the last place of the C library's, which the BEAM calls" do
    functions =
      ~w(exp log cos sin tan cosh sinh tanh acos asin atan acosh asinh atanh sqrt erf erfc)a

    xs = for i <- 1..2000, x <- [i / 2001, 1 + i / 700, i * 1.0e5], do: x

    for function <- functions,
        inside = Enum.filter(xs, &defined?(function, &1)),
        ys = Nx.to_flat_list(apply(Nx, function, [Nx.tensor(inside, type: :f64)])),
        {x, y} <- Enum.zip(inside, ys) do
      want = apply(:math, function, [x])
      assert abs(y - want) <= abs(want) * 2.0 ** -52, "#{function}(#{x}) is #{want}, got #{y}"
    end
  end

  defp defined?(function, x) do
    apply(:math, function, [x])
    true
  rescue
    ArithmeticError -> false
  end

  # A 16-bit float holds no 70000, and bf16 no 65535; each is a number of the result's type first, however they are computed.
  test "operands become numbers of the merged type before powers, angles and sums" do
    left = Nx.tensor([65_535, 70_000, 3], type: :u32, backend: Nx.BinaryBackend)
    bf16 = Nx.tensor([1.0e5, 2.0, 257.0], type: :bf16, backend: Nx.BinaryBackend)
    right = &Nx.tensor([0.5, 0.001, -3.0], type: &1, backend: Nx.BinaryBackend)
    operands = [{left, right.(:f16)}, {left, right.(:bf16)}, {bf16, right.(:f16)}]

    for {a, b} <- operands,
        fun <- [&Nx.pow/2, &Nx.atan2/2, &Nx.add(Nx.atan2(&1, &2), &2)] do
      merged = Nx.Type.merge(a.type, b.type)
      want = fun.(Nx.as_type(a, merged), Nx.as_type(b, merged))
      ours = Enum.map([a, b], &Nx.backend_copy(&1, ExBurn.Backend))
      compiled = Nx.Defn.jit_apply(fun, ours, compiler: ExBurn.Defn.Compiler)
      # Nx.BinaryBackend cuts bf16 off where it is to round it.
      for got <- [apply(fun, ours), compiled], do: assert_close(got, want, 0.03)
    end
  end

  test "operands of other backends are accepted" do
    binary = Nx.tensor([1.0, 2.0], backend: Nx.BinaryBackend)
    assert Nx.add(Nx.tensor([1.0, 2.0]), binary) |> Nx.to_flat_list() == [2.0, 4.0]
  end

  test "inspecting prints as Nx prints" do
    assert inspect(Nx.tensor([[1, 2]], names: [:a, :b])) =~ "s32[a: 1][b: 2]"
    assert inspect(Nx.iota({1000})) =~ "..."

    for type <- [:s4, :s8], do: assert(inspect(Nx.tensor([1, -2, 3], type: type)) =~ "[1, -2, 3]")

    for type <- [:u2, :u8],
        do: assert(inspect(Nx.tensor([[1, 2], [3, 0]], type: type)) =~ "[3, 0]")
  end

  test "memory is given back once" do
    t = Nx.tensor([1, 2])
    assert Nx.backend_deallocate(t) == :ok
    assert Nx.backend_deallocate(t) == :already_deallocated
    assert_raise Error, "to_binary: the tensor has been deallocated", fn -> Nx.to_binary(t) end
    assert_raise Error, "add: the tensor has been deallocated", fn -> Nx.add(t, 1) end
  end

  test "batches, the last one filled up from the start" do
    t = Nx.iota({5, 2})
    assert [a, b, c] = Enum.map(Nx.to_batched(t, 2), &Nx.to_flat_list/1)
    assert {a, b, c} == {[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]}
    assert [_, _] = Enum.to_list(Nx.to_batched(t, 2, leftover: :discard))
  end

  test "an index outside of its axis raises as Nx does" do
    message = "index 3 is out of bounds for axis 0 in shape {3}"
    t = Nx.tensor([1, 2, 3])

    for fun <- [
          &Nx.take(t, &1),
          &Nx.gather(t, Nx.reshape(&1, {1, 1})),
          &Nx.indexed_put(t, Nx.reshape(&1, {1}), 0)
        ] do
      assert_raise ArgumentError, message, fn -> fun.(Nx.tensor(3)) end
    end
  end

  test "a slice that would start before its axis starts with it" do
    slice = &Nx.slice(&1, [-1, 1], [2, 2])
    t = Nx.iota({3, 4}, backend: Nx.BinaryBackend)
    expected = t |> slice.() |> Nx.to_flat_list()
    assert t |> Nx.backend_copy(ExBurn.Backend) |> slice.() |> Nx.to_flat_list() == expected
    compiled = Nx.Defn.jit_apply(slice, [t], compiler: ExBurn.Defn.Compiler)
    assert Nx.to_flat_list(compiled) == expected
  end

  test "options" do
    assert Nx.tensor(1, backend: {ExBurn.Backend, device: :cpu}) |> Nx.to_number() == 1

    assert_raise Error, ~r/^device: there is no device :abacus/, fn ->
      Nx.tensor(1, backend: {ExBurn.Backend, device: :abacus})
    end

    assert_raise ArgumentError, ~r/unknown options \[:devise\]/, fn ->
      Nx.tensor(1, backend: {ExBurn.Backend, devise: :cpu})
    end
  end
end
