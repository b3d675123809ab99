defmodule ExBurn.ProgramPropertyTest do
  @moduledoc """
  Random programs of many steps, compiled, against `Nx.BinaryBackend`. `test/soak/programs.exs` runs more of them.
  """

  use ExUnit.Case, async: true
  use ExUnitProperties

  alias ExBurn.Fuzz.{Code, Generator, Interpreter, Report}

  property "a compiled program answers what its steps do, with all passes and without one of them" do
    check all genes <- Generator.genes(),
              seed <- integer(0..1000),
              max_runs: 200,
              max_shrinking_steps: 0 do
      report = Report.of(genes, Report.variants(seed, :all))
      unless report == nil, do: flunk(report)
    end
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
    error in ArithmeticError -> error
  end
end
