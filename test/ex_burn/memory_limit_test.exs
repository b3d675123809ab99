defmodule ExBurn.MemoryLimitTest do
  # Tensors that would not fit in memory: a right answer or an error, and the VM lives on.
  use ExBurn.Case, async: true

  setup do
    Nx.default_backend(ExBurn.Backend)
    {text, 0} = System.cmd("sh", ["-c", "grep MemTotal /proc/meminfo || true"])

    case Regex.run(~r/(\d+) kB/, text) do
      [_, kilobytes] -> {:ok, bytes: 1024 * String.to_integer(kilobytes)}
      nil -> {:ok, bytes: nil}
    end
  end

  test "tensors larger than the machine are refused" do
    for fun <- [
          &Nx.as_type(&1, :f64),
          &Nx.sum/1,
          &Nx.add(&1, 1),
          &Nx.slice(&1, [0, 0], [2, 2])
        ] do
      assert_raise Error, ~r/larger than memory/, fn ->
        fun.(Nx.broadcast(1, {2 ** 20, 2 ** 20}))
      end
    end
  end

  test "repeated elements take no memory", %{bytes: bytes} do
    if bytes do
      t = Nx.broadcast(Nx.u8(3), {div(bytes, 10) * 9})
      assert t |> Nx.slice([7], [2]) |> Nx.to_flat_list() == [3, 3]
      assert t |> Nx.as_type(:s8) |> Nx.slice([7], [2]) |> Nx.to_flat_list() == [3, 3]
    end
  end

  test "windows over more padding than memory holds are refused" do
    t = Nx.tensor([1, 2, 3])
    opts = [padding: [{2 ** 40, 0}]]
    assert_raise Error, ~r/memory/, fn -> Nx.window_reduce(t, 0, {2 ** 40}, opts, &Nx.add/2) end

    assert_raise Error, ~r/memory/, fn ->
      Nx.window_scatter_max(t, Nx.tensor([1, 2, 3, 4]), 0, {2 ** 40}, opts)
    end
  end

  test "what would copy them is refused when there is no room", %{bytes: bytes} do
    if bytes do
      t = Nx.broadcast(Nx.u8(3), {div(bytes, 100) * 99})

      for fun <- [
            &Nx.add(&1, Nx.u8(1)),
            &Nx.negate/1,
            &Nx.reshape(&1, {1, :auto}),
            &Nx.sort/1,
            &Nx.concatenate([&1, Nx.u8([1])]),
            &Nx.cumulative_sum/1,
            &Nx.select(Nx.broadcast(Nx.u8(1), &1), &1, Nx.u8(2)),
            &Nx.take(Nx.u8([1, 2]), &1)
          ] do
        assert_raise Error, ~r/memory/, fn -> fun.(t) end
      end
    end
  end
end
