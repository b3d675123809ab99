defmodule ExBurn.Defn.ArtifactTest do
  use ExBurn.Case, async: false

  import ExUnit.CaptureLog
  import Nx.Defn

  alias ExBurn.Defn.{Cache, Compiler, Key}

  doctest Key

  @moduletag :tmp_dir

  setup %{tmp_dir: folder} do
    %{path: Path.join(folder, "deep/program")}
  end

  # As another VM would: nothing is known. Answers whether the function was traced.
  defp run(path, fun, args, opts \\ []) do
    Cache.clear()
    test = self()

    traced = fn x ->
      send(test, :traced)
      fun.(x)
    end

    result = Nx.Defn.jit_apply(traced, args, [compiler: Compiler, cache: path] ++ opts)
    {received?(), result}
  end

  defp received? do
    receive do
      :traced -> true
    after
      0 -> false
    end
  end

  defp several(x) do
    table = Nx.tensor([[1.5], [2.5]], backend: Nx.BinaryBackend)
    %{sum: Nx.add(x, table), parts: {Nx.sum(x), Nx.as_type(x, :bf16)}}
  end

  test "a program is read instead of traced", %{path: path} do
    x = Nx.tensor([[1.0, 2.0]], names: [nil, :b])
    assert {true, first} = run(path, &several/1, [x])
    assert {false, second} = run(path, &several/1, [x])
    assert %{sum: %{names: [nil, :b]}, parts: {_, %{type: {:bf, 16}}}} = second
    assert_close(second, first, 0)
    assert_close(second, several(x))
  end

  defp looping(x) do
    x |> Nx.reduce(0.0, [axes: [1]], fn a, b -> Nx.add(Nx.sin(a), b) end) |> loop()
  end

  defn loop(y) do
    {_, y} =
      while {i = 0, y}, i < 3 do
        {i + 1, if(Nx.sum(y) > 1, do: y / 2, else: y * 3)}
      end

    y
  end

  test "loops and branches, whose time nobody knows, are read too", %{path: path} do
    x = Nx.tensor([[1.0, 2.0], [0.5, 0.25]])
    assert {true, first} = run(path, &looping/1, [x])
    assert {false, second} = run(path, &looping/1, [x])
    assert_close(second, first, 0)
    assert_close(second, looping(x))
  end

  test "tensors around a function may end within a byte", %{path: path} do
    few = Nx.tensor([1, 2, 3], type: :u2, backend: Nx.BinaryBackend)
    fun = &Nx.add(&1, few)
    x = Nx.tensor([1, 1, 0], type: :u2)
    assert {true, first} = run(path, fun, [x])
    assert {false, second} = run(path, fun, [x])
    assert Nx.to_flat_list(first) == [2, 3, 3]
    assert Nx.to_flat_list(second) == [2, 3, 3]
  end

  test "another VM reads it", %{path: path} do
    # The function, which has to be the same code, is in a file of its own.
    code = Path.join(Path.dirname(Path.dirname(path)), "shared.exs")

    File.write!(code, """
    defmodule ExBurn.ArtifactTest.Shared do
      def fun(n), do: fn x -> IO.puts("traced"); Nx.multiply(x, n) end
    end
    opts = [compiler: ExBurn.Defn.Compiler, cache: #{inspect(path)}]
    n = String.to_integer(hd(System.argv()))
    tensor = Nx.tensor([n, n], backend: Nx.BinaryBackend)
    fun = ExBurn.ArtifactTest.Shared.fun(tensor)
    IO.inspect Nx.to_flat_list(Nx.Defn.jit_apply(fun, [Nx.tensor([1, 2])], opts))
    """)

    assert vm(code, "3") == "traced\n[3, 6]\n"
    assert vm(code, "3") == "[3, 6]\n"
    assert vm(code, "4") == "traced\n[4, 8]\n"
    assert vm(code, "4") == "[4, 8]\n"
  end

  defp vm(code, argument) do
    paths = Enum.flat_map(:code.get_path(), &["-pa", List.to_string(&1)])
    # Its log would come between what it prints.
    start =
      ~s|Logger.configure(level: :error); {:ok, _} = Application.ensure_all_started(:ex_burn)|

    {out, 0} = System.cmd("elixir", paths ++ ["-e", start, "-r", code, "--", argument])
    out
  end

  test "a file of another function, types, or options is replaced", %{path: path} do
    run(path, &several/1, [Nx.tensor([[1.0]])])

    log =
      capture_log(fn -> assert {true, _} = run(path, &several/1, [Nx.tensor([[1.0, 2.0]])]) end)

    assert log =~ "it was made for other arguments"
    assert {false, _} = run(path, &several/1, [Nx.tensor([[1.0, 2.0]])])

    log =
      capture_log(fn ->
        assert {true, result} = run(path, &Nx.exp/1, [Nx.tensor([[0.0, 0.0]])])
        assert Nx.to_flat_list(result) == [1.0, 1.0]
      end)

    assert log =~ "it was made for other function"

    log = capture_log(fn -> run(path, &Nx.exp/1, [Nx.tensor([[0.0, 0.0]])], fusion: false) end)
    assert log =~ "it was made for other passes"
  end

  test "a damaged file is replaced", %{path: path} do
    x = Nx.tensor([[1.0]])
    run(path, &several/1, [x])
    good = File.read!(path)
    size = byte_size(good)

    flipped =
      for at <- [0, 17, 40, 60, div(size, 2), size - 1] do
        <<before::binary-size(at), byte, rest::binary>> = good
        <<before::binary, Bitwise.bxor(byte, 1), rest::binary>>
      end

    for bytes <- ["", "ExBurn", binary_part(good, 0, size - 1), good <> "x"] ++ flipped do
      File.write!(path, bytes)

      log =
        capture_log(fn ->
          assert {true, result} = run(path, &several/1, [x])
          assert_close(result, several(x))
        end)

      assert log =~ "cannot be used: it is "
      assert File.read!(path) == good
    end
  end

  test "a file with a right digest and other things in it is not trusted", %{path: path} do
    x = Nx.tensor([[1.0]])
    run(path, &several/1, [x])
    <<magic::binary-size(17), _digest::binary-size(32), body::binary>> = File.read!(path)
    {facts, lowered} = :erlang.binary_to_term(body)
    never = fn -> flunk("code of a file was run") end

    terms = [
      never,
      {facts, Map.put(lowered, :extra, never)},
      {facts, %{lowered | program: %{lowered.program | outputs: [99]}}},
      {facts, %{lowered | program: :none}},
      {facts, %{lowered | output: Nx.template({1}, :f32)}},
      {facts, %{lowered | used: [7]}},
      {facts, %{lowered | captures: [{{:f, 32}, {5}, <<1>>}]}},
      {facts, Map.delete(lowered, :captures)},
      {facts, %{lowered | used: [-1]}},
      {facts, %{lowered | calls: [1]}},
      {facts, Map.delete(lowered, :calls)},
      {facts, Map.delete(lowered, :fused_cost)}
    ]

    bodies = [<<131, 119, 9, "not_known">> | Enum.map(terms, &:erlang.term_to_binary/1)]

    for body <- bodies do
      File.write!(path, [magic, :crypto.hash(:sha256, body), body])

      log =
        capture_log(fn ->
          assert {true, result} = run(path, &several/1, [x])
          assert_close(result, several(x))
        end)

      assert log =~ "cannot be used: "
    end
  end

  test "a path that cannot be written is a warning", %{tmp_dir: folder} do
    log = capture_log(fn -> assert {true, _} = run(folder, &several/1, [Nx.tensor([[1.0]])]) end)
    assert log =~ "cannot write #{folder}: "
    beside = folder |> Path.dirname() |> File.ls!()
    assert Enum.filter(beside, &String.starts_with?(&1, Path.basename(folder) <> ".")) == []
  end
end
