defmodule ExBurn.RemoteTest do
  # Starts distribution, which belongs to the whole VM.
  use ExBurn.Case, async: false

  alias ExBurn.Keeper

  setup_all do
    System.cmd("epmd", ["-daemon"])

    unless Node.alive?() do
      start(:"ex_burn_#{System.pid()}@127.0.0.1", 100)
      on_exit(&Node.stop/0)
    end

    {_peer, node} = peer()
    %{node: node}
  end

  # epmd listens only a while after it was started.
  defp start(name, tries) do
    with {:error, reason} <- Node.start(name) do
      if tries == 0, do: flunk("no distribution: #{inspect(reason)}")
      Process.sleep(100)
      start(name, tries - 1)
    end
  end

  defp peer do
    {:ok, peer, node} = :peer.start_link(%{name: :peer.random_name(), host: ~c"127.0.0.1"})
    :ok = :erpc.call(node, :code, :add_pathsa, [:code.get_path()])
    {:ok, _} = :erpc.call(node, :application, :ensure_all_started, [:ex_burn])
    {peer, node}
  end

  test "tensors of another node are read, used and given back", %{node: node} do
    t = Keeper.iota(node, {2, 3})
    assert node(t.data.ref) == node
    assert Nx.to_flat_list(t) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert inspect(t) =~ "[0.0, 1.0, 2.0]"
    assert Nx.add(t, 1) |> Nx.sum() |> Nx.to_number() == 21.0

    here = Nx.backend_copy(t, ExBurn.Backend)
    assert node(here.data.ref) == node()

    assert Nx.backend_copy(t, Nx.BinaryBackend) ==
             Nx.iota({2, 3}, type: :f32, backend: Nx.BinaryBackend)

    double = Nx.Defn.jit(&Nx.multiply(&1, 2), compiler: ExBurn.Defn.Compiler)
    assert double.(t) |> Nx.to_flat_list() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]

    assert Nx.backend_deallocate(t) == :ok
    assert Nx.backend_deallocate(t) == :already_deallocated
    assert_raise Error, "to_binary: the tensor has been deallocated", fn -> Nx.to_binary(t) end
    assert Nx.to_flat_list(here) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
  end

  test "a transfer moves a tensor here", %{node: node} do
    t = Keeper.iota(node, {4})
    here = Nx.backend_transfer(t, ExBurn.Backend)
    assert Nx.to_flat_list(here) == [0.0, 1.0, 2.0, 3.0]
    assert Nx.backend_deallocate(t) == :already_deallocated
  end

  test "large tensors are not sent along with what refers to them", %{node: node} do
    t = Keeper.iota(node, {1_000_000})
    assert t |> :erlang.term_to_binary() |> byte_size() < 1000
    assert Nx.to_number(t[999_999]) == 999_999.0
  end

  test "pointers stay on their node", %{node: node} do
    t = Keeper.iota(node, {4})
    assert_raise Error, ~r/^to_pointer: the tensor is on #{node}/, fn -> Nx.to_pointer(t) end
  end

  test "a tensor that nobody on its node holds any more is said to be gone", %{node: node} do
    # The process that makes it there ends with the call.
    t = :erpc.call(node, Nx, :iota, [{2}, [backend: ExBurn.Backend]])
    message = ~r/^to_binary: the tensor was on #{node}, where no process holds it any more/
    assert_raise Error, message, fn -> Nx.to_binary(t) end
  end

  test "a node that is gone is named" do
    {peer, node} = peer()
    Process.flag(:trap_exit, true)
    t = Keeper.iota(node, {4})
    :peer.stop(peer)

    assert_raise Error, ~r/^to_binary: the tensor is on #{node}, which does not answer/, fn ->
      Nx.to_binary(t)
    end

    assert inspect(t) =~ "does not answer"
  end
end
