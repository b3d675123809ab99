defmodule ExBurn.ProgramPropertyTest do
  @moduledoc """
  Random programs of many steps, compiled, against `Nx.BinaryBackend`. `test/soak/programs.exs` runs more of them.
  """

  use ExUnit.Case, async: true
  use ExUnitProperties

  alias ExBurn.Fuzz.{Code, Compare, Generator, Interpreter, Report}

  property "a compiled program answers what its steps do, with all passes and without one of them" do
    check all genes <- Generator.genes(),
              seed <- integer(0..1000),
              max_runs: 200,
              max_shrinking_steps: 0 do
      report = Report.of(genes, Report.variants(seed, :all))
      unless report == nil, do: flunk(report)
    end
  end

  # As a pass might go wrong: the bounds must be too narrow for it.
  @slips %{
    add: :subtract,
    subtract: :add,
    max: :min,
    sum: :mean,
    exp: :expm1,
    reduce_max: :reduce_min,
    less: :greater,
    argmax: :argmin,
    sqrt: :cbrt,
    cos: :sin
  }

  test "a wrong step is noticed" do
    noticed = for seed <- 1..250, slip = slipped(seed), do: slip
    assert length(noticed) > 60
    # The others change nothing, as folds of one element.
    assert Enum.count(noticed, &(&1 == :noticed)) > 0.65 * length(noticed)
  end

  # One step of a program is changed that makes one of its outputs.
  defp slipped(seed) do
    {program, rights} = Generator.program(Generator.genes(seed))

    case Enum.find(program.steps, fn {outs, op, _} ->
           @slips[op] && hd(outs) in program.outputs
         end) do
      nil ->
        nil

      {outs, op, args} = step ->
        steps = Enum.map(program.steps, &if(&1 == step, do: {outs, @slips[op], args}, else: &1))
        if differs?(%{program | steps: steps}, rights), do: :noticed, else: :missed
    end
  end

  defp differs?(program, rights) do
    got = program |> Interpreter.compiled() |> Tuple.to_list()
    got = Enum.map(got, &Nx.backend_copy(&1, Nx.BinaryBackend))
    Enum.any?(Enum.zip_with(got, rights, &Compare.difference(&1, hd(&2), &2)))
  end

  test "the sign of a zero is noticed where all lanes agree about it" do
    [plus, minus] =
      for zero <- [0.0, -0.0], do: Nx.tensor([zero, 1.0], backend: Nx.BinaryBackend)

    assert Compare.difference(minus, plus, [plus, plus]) =~ "want: 0.0"
    assert Compare.difference(minus, plus, [plus, minus]) == nil
    assert Compare.difference(plus, plus, [plus, plus]) == nil
  end

  test "the code of a program means the same as its steps" do
    for seed <- 1..30 do
      {program, _} = Generator.program(Generator.genes(seed))
      name = "ExBurn.ProgramPropertyTest.Program#{seed}"
      compile = fn -> Elixir.Code.compile_string(Code.module(program, name)) end
      {[{module, _}], _unused_variables} = Elixir.Code.with_diagnostics(compile)

      run =
        Function.capture(module, :run, length(for {_, _, :parameter} <- program.inputs, do: 1))

      args =
        for {_, operand, :parameter} <- program.inputs, do: ExBurn.Fuzz.Oracle.operand(operand)

      answers = fn -> Nx.Defn.jit_apply(run, args, compiler: Nx.Defn.Evaluator) end

      assert {seed, bits(answers)} == {seed, bits(fn -> Interpreter.evaluated(program) end)}
    end
  end

  # The BEAM has no infinities, so Nx.BinaryBackend may raise.
  defp bits(fun) do
    for t <- Tuple.to_list(fun.()), t = Nx.devectorize(t), do: {t.type, t.shape, Nx.to_binary(t)}
  rescue
    error in [ArithmeticError, ArgumentError] -> error.__struct__
  end
end
