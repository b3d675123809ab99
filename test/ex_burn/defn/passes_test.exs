defmodule ExBurn.Defn.PassesTest do
  use ExUnit.Case, async: false

  alias ExBurn.Defn.{Compiler, Passes}
  alias ExBurn.NIF

  doctest Passes

  test "what the configuration leaves out, an option brings back" do
    Application.put_env(:ex_burn, :passes, cse: false, fusion: false)
    on_exit(fn -> Application.delete_env(:ex_burn, :passes) end)
    assert Passes.disabled([]) == ["cse", "fusion"]
    assert Passes.disabled(passes: [cse: true]) == ["fusion"]
    assert Passes.disabled(fusion: true, passes: [hoisting: false]) == ["cse", "hoisting"]
  end

  test "a value that is no boolean, and a list that is none" do
    assert_raise ArgumentError, "pass :cse is :no, expected true or false", fn ->
      Passes.disabled(passes: [cse: :no])
    end

    assert_raise ArgumentError, ~r/^passes: is \[:cse\], expected a keyword list/, fn ->
      Passes.disabled(passes: [:cse])
    end
  end

  test "the names are those of the engine" do
    assert Enum.sort(Passes.names()) ==
             NIF.program_passes() |> Enum.map(&String.to_atom/1) |> Enum.sort()
  end

  test "functions without each of the passes answer the same" do
    fun = fn x -> Nx.add(Nx.exp(Nx.negate(x)), Nx.exp(Nx.negate(x))) |> Nx.sum() end
    [x] = [Nx.tensor([0.0, 1.0])]
    all = Nx.Defn.jit_apply(fun, [x], compiler: Compiler) |> Nx.to_number()
    assert_in_delta all, 2 * (1 + :math.exp(-1)), 1.0e-6

    for name <- Passes.names() do
      opts = [compiler: Compiler, passes: [{name, false}]]
      assert_in_delta Nx.Defn.jit_apply(fun, [x], opts) |> Nx.to_number(), all, 1.0e-6
    end
  end

  test "the compiler and explain refuse unknown passes" do
    for opts <- [[passes: [magic: false]], [fusion: 3]] do
      assert_raise ArgumentError, ~r/pass :(magic|fusion)/, fn ->
        Nx.Defn.jit_apply(&Nx.exp/1, [Nx.tensor(1.0)], [compiler: Compiler] ++ opts)
      end

      assert_raise ArgumentError, ~r/pass :(magic|fusion)/, fn ->
        ExBurn.explain(&Nx.exp/1, [Nx.template({}, :f32)], opts)
      end
    end

    assert ExBurn.explain(&Nx.exp/1, [Nx.template({}, :f32)], fusion: false) =~ "exp("
  end
end
