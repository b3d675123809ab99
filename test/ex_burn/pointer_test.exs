defmodule ExBurn.PointerTest do
  use ExBurn.Case, async: true

  alias ExBurn.Backend

  setup do
    Nx.default_backend(Backend)
    :ok
  end

  defp at(pointer, type, shape, opts \\ []),
    do: Nx.from_pointer(Backend, pointer, type, shape, opts)

  test "a local pointer shares the memory" do
    t = Nx.tensor([[1.0, 2.0], [3.0, 4.0]])
    pointer = Nx.to_pointer(t)
    assert %Nx.Pointer{kind: :local, data_size: 16, handle: nil} = pointer
    same = at(pointer, :f32, {4}, names: [:x])
    assert {same.names, Nx.to_flat_list(same)} == {[:x], [1.0, 2.0, 3.0, 4.0]}
    assert Nx.to_pointer(same) == pointer
    assert Nx.to_pointer(t, mode: :local) == pointer
    # Without a size, as an address from elsewhere.
    assert %Nx.Pointer{kind: :local, address: pointer.address}
           |> at({:f, 32}, {1, 2})
           |> Nx.to_flat_list() == [1.0, 2.0]
  end

  test "operations on the shared memory never write to it" do
    t = Nx.iota({10_000}, type: :s32)
    same = at(Nx.to_pointer(t), :s32, {10_000})
    Nx.put_slice(same, [0], Nx.broadcast(7, {10_000}))
    Nx.negate(same)
    assert Nx.to_number(Nx.sum(t)) == div(9_999 * 10_000, 2)
  end

  test "a strided tensor is put in order" do
    t = Nx.iota({2, 3}, type: :u8) |> Nx.transpose()
    assert Nx.to_pointer(t) |> at(:u8, {6}) |> Nx.to_flat_list() == [0, 3, 1, 4, 2, 5]
    assert Nx.to_pointer(t) == Nx.to_pointer(t)
    assert Nx.to_flat_list(t) == [0, 3, 1, 4, 2, 5]
  end

  test "shared memory is read by this process" do
    t = Nx.iota({100}, type: :f64)
    pointer = Nx.to_pointer(t, mode: :ipc)
    assert %Nx.Pointer{kind: :ipc, address: nil, data_size: 800, handle: "/" <> _} = pointer
    assert Nx.to_pointer(t, mode: :ipc) == pointer
    assert Nx.to_flat_list(at(pointer, :f64, {10, 10})) == Nx.to_flat_list(t)
    assert Nx.to_number(t[99]) == 99.0
  end

  test "shared memory is read by another process of the system" do
    t = Nx.iota({1000}, type: :s64)
    pointer = Nx.to_pointer(t, mode: :ipc, permissions: 0o600)

    code = """
    pointer = %Nx.Pointer{kind: :ipc, handle: #{inspect(pointer.handle)}, data_size: 8000}
    t = Nx.from_pointer(ExBurn.Backend, pointer, :s64, {1000})
    IO.write(Nx.to_number(Nx.sum(t)))
    """

    paths = Enum.flat_map(:code.get_path(), &["-pa", to_string(&1)])
    {answer, 0} = System.cmd("elixir", paths ++ ["-e", code])
    assert answer == t |> Nx.sum() |> Nx.to_number() |> to_string()
  end

  test "the name goes with the process, though the tensor is alive" do
    code = """
    t = Nx.iota({1000}, type: :u8, backend: ExBurn.Backend)
    :persistent_term.put(:kept, t)
    IO.write(Nx.to_pointer(t, mode: :ipc).handle)
    """

    paths = Enum.flat_map(:code.get_path(), &["-pa", to_string(&1)])
    {handle, 0} = System.cmd("elixir", paths ++ ["-e", code])

    assert_raise Error, ~r/No such file/, fn ->
      at(%Nx.Pointer{kind: :ipc, handle: handle}, :u8, {1000})
    end
  end

  test "the name goes with the tensor, a mapping stays" do
    t = Nx.iota({1000}, type: :u8)
    pointer = Nx.to_pointer(t, mode: :ipc)
    opened = at(pointer, :u8, {1000})
    assert Nx.backend_deallocate(t) == :ok

    assert_raise Error, ~r/^from_pointer: shared memory .* No such file/, fn ->
      at(pointer, :u8, {1000})
    end

    assert Nx.to_number(opened[255]) == 255
  end

  test "pointers that name nothing are refused" do
    t = Nx.iota({4}, type: :f32)
    address = Nx.to_pointer(t).address
    ipc = Nx.to_pointer(t, mode: :ipc)

    for {pointer, message} <- [
          {%Nx.Pointer{kind: :local, address: address, data_size: 15}, ~r/data_size is 15/},
          {%Nx.Pointer{kind: :local, address: 0}, ~r/no 16 readable bytes at address 0/},
          {%Nx.Pointer{kind: :local, address: address + 1},
           ~r/is not aligned for elements of f32/},
          {%Nx.Pointer{kind: :local, address: -4}, ~r/expected an Nx.Pointer/},
          {%Nx.Pointer{kind: :local, address: 2 ** 64}, ~r/expected an Nx.Pointer/},
          {%Nx.Pointer{kind: :local, address: 2 ** 64 - 4}, ~r/readable bytes/},
          {%Nx.Pointer{kind: :local}, ~r/expected an Nx.Pointer/},
          {%Nx.Pointer{kind: :ipc, handle: "/no.such.memory"},
           ~r/"\/no.such.memory": No such file/},
          {%Nx.Pointer{kind: :ipc, handle: ipc.handle, data_size: 4}, ~r/data_size is 4/},
          {%Nx.Pointer{kind: :ipc, handle: <<255>>}, ~r/expected an Nx.Pointer/},
          {%Nx.Pointer{kind: :ipc, handle: ""}, ~r/shared memory/},
          {%Nx.Pointer{kind: :file, handle: "x"}, ~r/expected an Nx.Pointer/},
          {:nonsense, ~r/expected an Nx.Pointer/}
        ] do
      assert_raise Error, message, fn -> at(pointer, :f32, {4}) end
    end

    assert_raise Error, ~r/has 16 bytes, the tensor takes 32/, fn ->
      at(%{ipc | data_size: nil}, :f32, {8})
    end

    assert_raise Error, ~r/larger than memory/, fn ->
      at(%Nx.Pointer{kind: :local, address: address}, :f32, {2 ** 60, 2 ** 60})
    end

    assert Nx.to_flat_list(t) == [0.0, 1.0, 2.0, 3.0]
  end

  if File.exists?("/proc/self/maps") do
    test "memory that cannot be read is refused" do
      assert_raise Error, ~r/no 16 readable bytes at address 64/, fn ->
        at(%Nx.Pointer{kind: :local, address: 64}, :f32, {4})
      end
    end
  end

  test "tensors without memory have no pointer" do
    t = Nx.tensor([1, 2])
    Nx.backend_deallocate(t)

    for mode <- [:local, :ipc] do
      assert_raise Error, "to_pointer: the tensor has been deallocated", fn ->
        Nx.to_pointer(t, mode: mode)
      end
    end
  end

  test "options are checked" do
    t = Nx.tensor([1, 2])
    assert_raise Error, ~r/unknown option :made/, fn -> Nx.to_pointer(t, made: :local) end
    assert_raise Error, ~r/mode: is :far/, fn -> Nx.to_pointer(t, mode: :far) end

    assert_raise Error, ~r/permissions: is -1/, fn ->
      Nx.to_pointer(t, mode: :ipc, permissions: -1)
    end

    pointer = Nx.to_pointer(t)

    assert_raise Error, ~r/no device :abacus/, fn ->
      Nx.from_pointer({Backend, device: :abacus}, pointer, :s32, {2})
    end
  end
end
