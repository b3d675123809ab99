defmodule ExBurn.Fuzz.Shrink do
  @moduledoc """
  A small program that still goes wrong, from a large one.

  One output is kept; each step is replaced by an input with the right values, as long as something still differs; bodies
  of functions lose steps whose result another value can stand for.
  """

  alias ExBurn.Fuzz.{Check, Fun, Oracle, Program}

  @doc """
  The smallest program found that goes wrong as `program` does, whose fault is of the given kind.
  """
  def smallest(program, kind, opts) do
    wrong? = &match?({^kind, _}, Check.fault(&1, opts))

    program
    |> one_output(wrong?)
    |> fewer_steps(wrong?)
    |> smaller_bodies(wrong?)
    |> fewer_steps(wrong?)
    |> plain_inputs(wrong?)
  end

  defp first_wrong(program, candidates, wrong?), do: Enum.find(candidates, program, wrong?)

  defp one_output(program, wrong?) do
    first_wrong(
      program,
      Enum.map(program.outputs, &Program.prune(%{program | outputs: [&1]})),
      wrong?
    )
  end

  # From the last step to the first: the earlier ones are gone when a late one is replaced.
  defp fewer_steps(program, wrong?) do
    right = program.steps |> Enum.reduce(Oracle.lanes(program.inputs, 1), &Oracle.step/2) |> hd()

    program.steps
    |> Enum.reverse()
    |> Enum.reduce(program, fn step, program ->
      first_wrong(program, without(program, step, right), wrong?)
    end)
  end

  defp without(program, {outs, _, _} = step, right) do
    if step in program.steps do
      inputs = for out <- outs, do: {out, Oracle.as_operand(Map.fetch!(right, out)), :parameter}

      [
        Program.prune(%{
          program
          | steps: program.steps -- [step],
            inputs: program.inputs ++ inputs
        })
      ]
    else
      []
    end
  end

  defp smaller_bodies(program, wrong?) do
    case Enum.find(candidates(program), wrong?) do
      nil -> program
      smaller -> smaller_bodies(smaller, wrong?)
    end
  end

  # All programs with one step less in one function.
  defp candidates(program) do
    outside = Enum.map(program.inputs, &elem(&1, 0))

    for {outs, op, args} = step <- program.steps, smaller <- shorter(args, outside) do
      steps = Enum.map(program.steps, &if(&1 == step, do: {outs, op, smaller}, else: &1))
      Program.prune(%{program | steps: steps})
    end
  end

  defp shorter(list, outside) when is_list(list) do
    for {arg, i} <- Enum.with_index(list),
        smaller <- shorter(arg, outside),
        do: List.replace_at(list, i, smaller)
  end

  defp shorter(%Fun{} = fun, outside), do: dropped(fun, outside) ++ inner(fun, outside)
  defp shorter(_other, _outside), do: []

  defp dropped(fun, outside) do
    for {{[out], _, _} = step, i} <- Enum.with_index(fun.steps),
        other <- earlier(fun, i) ++ fun.params ++ outside do
      replace(%{fun | steps: fun.steps -- [step]}, out, other)
    end
  end

  defp earlier(fun, count),
    do: fun.steps |> Enum.take(count) |> Enum.flat_map(&elem(&1, 0)) |> Enum.reverse()

  defp inner(fun, outside) do
    for {{outs, op, args}, i} <- Enum.with_index(fun.steps),
        smaller <- shorter(args, fun.params ++ outside) do
      %{fun | steps: List.replace_at(fun.steps, i, {outs, op, smaller})}
    end
  end

  defp replace(%Fun{} = fun, from, to) do
    steps = Enum.map(fun.steps, fn {outs, op, args} -> {outs, op, replace(args, from, to)} end)
    %{fun | steps: steps, results: Enum.map(fun.results, &if(&1 == from, do: to, else: &1))}
  end

  defp replace({:ref, from}, from, to), do: {:ref, to}
  defp replace(list, from, to) when is_list(list), do: Enum.map(list, &replace(&1, from, to))
  defp replace(other, _from, _to), do: other

  # Inputs whose memory is in order, as parameters.
  defp plain_inputs(program, wrong?) do
    Enum.reduce(program.inputs, program, fn {number, operand, _} = input, program ->
      plain = {number, operand |> Oracle.operand() |> Oracle.as_operand(), :parameter}
      inputs = Enum.map(program.inputs, &if(&1 == input, do: plain, else: &1))
      first_wrong(program, [%{program | inputs: inputs}], wrong?)
    end)
  end
end
