defmodule ExBurn.Defn.LoweringTest do
  use ExUnit.Case, async: true

  import Nx.Defn

  alias ExBurn.Defn.{Compiler, Lowering}
  alias ExBurn.{Error, NIF, Type}

  # The text form of the program of `fun` over arguments like `args`, before the passes.
  defp program(fun, args, opts \\ []) do
    expr = Nx.Defn.jit_apply(fun, args, compiler: Nx.Defn.Debug)

    lowered =
      Lowering.lower(Nx.Defn.Composite.flatten_list([expr]), Enum.map(args, &Type.of/1), opts)

    Map.put(
      lowered,
      :text,
      lowered |> Compiler.native(NIF.program_passes()) |> NIF.program_text() |> Error.unwrap!()
    )
  end

  test "a node used twice is emitted once" do
    %{text: text} =
      program(
        fn x -> Nx.add(Nx.exp(x), Nx.exp(x) |> Nx.negate()) |> then(&Nx.multiply(&1, &1)) end,
        [
          Nx.template({2}, :f32)
        ]
      )

    assert length(String.split(text, "= add(")) == 2
  end

  test "unused parameters are no inputs" do
    lowered = program(fn _x, y -> Nx.exp(y) end, [Nx.template({2}, :f32), Nx.template({3}, :f32)])
    assert lowered.used == [1]

    assert lowered.text == """
           program(%0: f32[3])
             %1: f32[3] = exp(%0)
             return %1
           """
  end

  test "captured tensors are trailing inputs, each once" do
    table = Nx.tensor([1, 2, 3], backend: Nx.BinaryBackend)
    lowered = program(fn x -> Nx.add(Nx.add(x, table), table) end, [Nx.template({3}, :s32)])
    assert lowered.captures == [table]
    assert lowered.text =~ "program(%0: s32[3], %1: s32[3])"
  end

  defn choose(x, y) do
    shared = Nx.exp(x)

    cond do
      y > 2 -> shared + 1
      y > 1 -> Nx.sin(shared)
      true -> Nx.cos(x)
    end
  end

  test "a branch captures what the outside computes and holds what only it needs" do
    %{text: text} = program(&choose/2, [Nx.template({2}, :f32), Nx.template({}, :s32)])

    assert text == """
           program(%0: f32[2], %1: s32[])
             %2: s32[] = constant() {2}
             %3: u8[] = greater(%1, %2)
             %4: f32[2] = cond(%3, %1, %0)
               program(%0: u8[], %1: s32[], %2: f32[2])
                 return %0
               program(%0: u8[], %1: s32[], %2: f32[2])
                 %3: s32[] = constant() {1}
                 %4: u8[] = greater(%1, %3)
                 return %4
               program(%0: u8[], %1: s32[], %2: f32[2])
                 %3: s32[] = constant() {1}
                 %4: f32[2] = exp(%2)
                 %5: f32[2] = add(%3, %4)
                 return %5
               program(%0: u8[], %1: s32[], %2: f32[2])
                 %3: f32[2] = exp(%2)
                 %4: f32[2] = sin(%3)
                 return %4
               program(%0: u8[], %1: s32[], %2: f32[2])
                 %3: f32[2] = cos(%2)
                 return %3
             return %4
           """
  end

  defn count(x) do
    {_i, x} =
      while {i = 0, x}, i < 3 do
        {i + 1, x * Nx.tensor([2.0, 3.0])}
      end

    x
  end

  test "a loop takes its state and the tensors inside as operands" do
    %{text: text} = program(&count/1, [Nx.template({2}, :f32)])
    assert text =~ "%4: s32[], %5: f32[2] = while(" or text =~ "%3: s32[], %4: f32[2] = while("
    assert text =~ "program(%0: s32[], %1: f32[2], %2: f32[2])"
  end

  defn straight_through(x) do
    custom_grad(Nx.round(x), [x], fn g -> [g * 3] end)
  end

  test "gradient annotations appear only when asked for" do
    args = [Nx.template({2}, :f32)]
    refute program(&straight_through/1, args).text =~ "custom_grad"

    assert program(&straight_through/1, args, autodiff: true).text =~
             "custom_grad(%1, %0) {inputs: 1}"

    assert program(&Nx.Defn.Kernel.stop_grad(&1), args, autodiff: true).text =~ "stop_grad(%0)"
    refute program(&Nx.Defn.Kernel.stop_grad(&1), args).text =~ "stop_grad"
  end

  defn scaled_gradient(_unused, scale, x) do
    custom_grad(Nx.sin(x), [x], fn g -> [g * scale] end)
  end

  test "parameters that functions of gradients alone read are inputs where gradients are computed" do
    args = List.duplicate(Nx.template({2}, :f32), 3)
    assert program(&scaled_gradient/3, args).used == [2]
    lowered = program(&scaled_gradient/3, args, autodiff: true)
    assert lowered.used == [1, 2]
    assert lowered.text =~ "program(%0: f32[2], %1: f32[2])\n"
    assert lowered.text =~ "custom_grad(%2, %1, %0) {inputs: 1}"
  end

  # The gradient comes first, and a branch in it reads the loop.
  defn shared_with_gradient(x) do
    twice = count_up(x)
    custom_grad(Nx.sin(x), [x], &[if(Nx.sum(x) > 0, do: &1 * twice, else: &1)]) + twice
  end

  defnp count_up(x) do
    {_, x} = while({i = 0, x}, i < 2, do: {i + 1, x + 1})
    x
  end

  test "what a function of a gradient reads and the rest computes is computed once" do
    %{text: text} =
      program(&shared_with_gradient/1, [Nx.template({2}, :f32)], autodiff: true)

    assert length(String.split(text, "= while(")) == 2
  end

  test "calls into Elixir are refused by name where nobody can answer them" do
    assert_raise Error, "hook: a program that runs without Elixir can't call a function", fn ->
      program(&Nx.Defn.Kernel.hook(&1, fn _ -> :ok end), [Nx.template({2}, :f32)])
    end
  end

  test "calls into Elixir are numbers in the program and functions beside it" do
    fun = &Nx.Defn.Kernel.hook(&1, :seen)

    assert %{text: text, calls: [{:hook, {:named, :seen, nil}, %{shape: {2}}}]} =
             program(fun, [Nx.template({2}, :f32)], calls: true, hooks: %{seen: & &1})

    assert text == """
           program(%0: f32[2])
             hook(%0) {id: 0}
             return %0
           """

    assert %{calls: []} = program(fun, [Nx.template({2}, :f32)], calls: true)
  end
end
