defmodule ExBurn.Fuzz.Code do
  @moduledoc """
  A program as Elixir code: a module with a `defn`, and a call of it on `Nx.BinaryBackend` and on ours.
  """

  alias ExBurn.Fuzz.{Fun, Interpreter, Program}
  alias ExBurn.Property.Operand

  @doc """
  Code that prints what the program answers here and there.
  """
  def script(%Program{} = program, opts \\ []) do
    """
    #{module(program)}
    run = fn backend, compiler ->
      Nx.with_default_backend(backend, fn ->
        Nx.Defn.jit_apply(&Program.run/#{length(operands(program, :parameter))}, [#{arguments(program)}], #{options(opts)})
      end)
    end

    IO.inspect(run.(Nx.BinaryBackend, Nx.Defn.Evaluator), label: "want")
    IO.inspect(run.(ExBurn.Backend, ExBurn.Defn.Compiler), label: "got")
    """
  end

  @doc """
  The module of a program.
  """
  def module(program, name \\ "Program") do
    parameters = program |> operands(:parameter) |> Enum.map_join(", ", &variable(elem(&1, 0)))

    """
    defmodule #{name} do
      import Nx.Defn

      # Some functions of Nx don't take a tensor together with an expression.
      deftransformp captured(tensor), do: Nx.Defn.Expr.tensor(tensor)

      deftransformp runtime_call(t, name),
        do: Nx.runtime_call(Nx.to_template(t), t, [], fn t, _opts -> apply(Nx, name, [t]) end)

    #{program |> operands(:captured) |> Enum.map_join(&attribute/1) |> indented()}
      defn run(#{parameters}) do
    #{program |> body() |> indented() |> indented()}
      end
    end
    """
  end

  defp operands(program, kind), do: for({_, _, ^kind} = input <- program.inputs, do: input)

  defp arguments(program),
    do: program |> operands(:parameter) |> Enum.map_join(", ", &Operand.code(elem(&1, 1)))

  defp options(opts),
    do:
      inspect(opts)
      |> String.replace_prefix("[", "[compiler: compiler, ")
      |> String.replace(", ]", "]")

  defp attribute({number, operand, _}),
    do: "@#{variable(number)} #{Operand.code(%{operand | elsewhere?: true})}\n"

  defp body(program) do
    captured =
      Enum.map(operands(program, :captured), fn {n, _, _} ->
        "#{variable(n)} = captured(@#{variable(n)})"
      end)

    Enum.join(captured ++ steps(program.steps) ++ ["{#{variables(program.outputs)}}"], "\n")
  end

  defp steps(steps),
    do: Enum.map(steps, fn {outs, op, args} -> "#{pattern(outs, op)} = #{call(op, args)}" end)

  defp pattern([out], op) when op not in [:while, :grad], do: variable(out)
  defp pattern(outs, _op), do: "{#{variables(outs)}}"

  defp call(:cond, [clauses, last]) do
    clauses =
      Enum.map_join(clauses, fn [predicate, fun] ->
        "  (#{inside(predicate)}) ->\n#{block(fun)}\n"
      end)

    "cond do\n#{clauses}  true ->\n#{block(last)}\nend"
  end

  defp call(:while, [initial, condition, body]) do
    states = Enum.zip_with(condition.params, initial, &"#{variable(&1)} = #{literal(&2)}")
    names = Enum.map(condition.params, &variable/1)

    "while {#{Enum.join(states, ", ")}}, (#{inside(condition)}) do\n#{while_body(body, names)}\nend"
  end

  defp call(:grad, [tensors, fun]) do
    "grad({#{Enum.map_join(tensors, ", ", &literal/1)}}, fn {#{variables(fun.params)}} ->\n#{block(fun)}\nend)"
  end

  defp call(op, args) when op in [:stop_grad, :hook, :runtime_call],
    do: "#{op}(#{Enum.map_join(args, ", ", &literal/1)})"

  defp call(:custom_grad, [t, inputs, fun]) do
    "custom_grad(#{literal(t)}, #{literal(inputs)}, fn #{variables(fun.params)} ->\n#{block(fun, "[", "]")}\nend)"
  end

  defp call(op, args),
    do: "#{inspect(Interpreter.module(op))}.#{op}(#{Enum.map_join(args, ", ", &literal/1)})"

  # The body's parameters by the names that the condition gives the states.
  defp while_body(body, names) do
    renamed = Enum.zip_with(body.params, names, &"#{variable(&1)} = #{&2}")
    results = "{#{variables(body.results)}}"
    (renamed ++ steps(body.steps) ++ [results]) |> Enum.join("\n") |> indented()
  end

  defp block(fun, left \\ "", right \\ ""),
    do: fun |> inside(left, right) |> indented() |> indented()

  defp inside(%Fun{} = fun, left \\ "", right \\ "") do
    result =
      if match?([_], fun.results),
        do: left <> variables(fun.results) <> right,
        else: "{#{variables(fun.results)}}"

    Enum.join(steps(fun.steps) ++ [result], "\n")
  end

  defp literal({:ref, number}), do: variable(number)
  defp literal(%Fun{} = fun), do: "fn #{variables(fun.params)} ->\n#{block(fun)}\nend"

  defp literal(list) when is_list(list) do
    if Keyword.keyword?(list) and list != [] and not Keyword.has_key?(list, :ref),
      do: Operand.literal(list),
      else: "[#{Enum.map_join(list, ", ", &literal/1)}]"
  end

  defp literal(other), do: Operand.literal(other)

  defp variables(numbers), do: Enum.map_join(numbers, ", ", &variable/1)
  defp variable(number), do: "v#{number}"

  defp indented(text),
    do: text |> String.split("\n") |> Enum.map_join("\n", &if(&1 == "", do: "", else: "  " <> &1))
end
