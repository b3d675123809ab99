defmodule ExBurn.Fuzz.Interpreter do
  @moduledoc """
  Runs programs by calling Nx: on tensors, or on expressions while a `defn` is traced.

  `mode.traced?` tells which; loops and branches of tensors are run in Elixir. Each step goes through
  `mode.around.(op, args, call)`, so that others can look at its operands and change its results.
  """

  import Nx.Defn.Kernel, only: [stop_grad: 1, custom_grad: 3, hook: 2]

  alias ExBurn.Fuzz.{Fun, Program, Watched}
  alias ExBurn.Property.Operand

  @most_turns 100

  defstruct traced?: false, around: nil

  @doc """
  The results of the program as a tuple; `values` holds the inputs by number.
  """
  def run(%Program{} = program, values, mode) do
    values = steps(program.steps, values, mode)
    program.outputs |> Enum.map(&Map.fetch!(values, &1)) |> List.to_tuple()
  end

  @doc """
  The program compiled by `ExBurn.Defn.Compiler` and run.
  """
  def compiled(%Program{} = program, opts \\ []) do
    Nx.with_default_backend(ExBurn.Backend, fn ->
      {fun, args} = as_function(program)
      Nx.Defn.jit_apply(fun, args, [compiler: ExBurn.Defn.Compiler, cache: false] ++ opts)
    end)
  end

  @doc """
  The program traced as for a compiler, and evaluated by `Nx.Defn.Evaluator` on `Nx.BinaryBackend`, with `around` in place
  of each of its operations.
  """
  def evaluated(%Program{} = program, around \\ fn _op, args, call -> call.(args) end) do
    place = fn -> as_function(program, &Watched.expr/1) end
    {fun, [tensors]} = Nx.with_default_backend(Nx.BinaryBackend, place)
    watched(around, fun, Tuple.to_list(tensors))
  end

  defp watched(around, fun, tensors) do
    args = [tensors |> Enum.map(&Watched.wrap/1) |> List.to_tuple()]

    Watched.run(around, fn ->
      fun |> Nx.Defn.jit_apply(args, compiler: Nx.Defn.Evaluator) |> unwrapped()
    end)
  end

  defp unwrapped(results),
    do: results |> Tuple.to_list() |> Watched.unwrap() |> List.to_tuple()

  # A function of one tuple, and the tuple.
  defp as_function(program, expr \\ &Nx.Defn.Expr.tensor/1) do
    {parameters, captured} = Enum.split_with(program.inputs, &(elem(&1, 2) == :parameter))
    captured = Map.new(captured, &captured(&1, expr))
    numbers = Enum.map(parameters, &elem(&1, 0))
    tensors = Enum.map(parameters, &elem(build(&1), 1))

    {&traced(program, Enum.into(Enum.zip(numbers, Tuple.to_list(&1)), captured)),
     [List.to_tuple(tensors)]}
  end

  @doc """
  The program run step by step on a backend.
  """
  def eager(%Program{} = program, backend) do
    Nx.with_default_backend(backend, fn ->
      run(program, Map.new(program.inputs, &build/1), %__MODULE__{})
    end)
  end

  defp traced(program, values), do: run(program, values, %__MODULE__{traced?: true})

  # An expression at once, since some functions of Nx don't take a tensor together with an expression.
  defp captured({number, operand, _kind}, expr),
    do: {number, expr.(Operand.build(%{operand | elsewhere?: true}))}

  defp build({number, operand, _kind}), do: {number, Operand.build(operand)}

  @doc """
  The values with those that the steps make.
  """
  def steps(steps, values, mode), do: Enum.reduce(steps, values, &step(&1, &2, mode))

  @doc """
  The values with those that one step makes.
  """
  def step({outs, op, args}, values, mode) do
    args = Program.map_refs(args, &Map.fetch!(values, &1))
    call = &perform(op, &1, values, mode)
    results = if mode.around, do: mode.around.(op, args, call), else: call.(args)
    outs |> Enum.zip(list(results)) |> Enum.into(values)
  end

  @doc """
  The results of a step as a list.
  """
  def list(results) when is_tuple(results), do: Tuple.to_list(results)
  def list(results), do: List.wrap(results)

  defp perform(:stop_grad, [t], _values, mode), do: if(mode.traced?, do: stop_grad(t), else: t)
  # A hook of a name alone does nothing, and a gradient of one's own nothing to the value.
  defp perform(:hook, [t, name], _values, mode), do: if(mode.traced?, do: hook(t, name), else: t)

  defp perform(:runtime_call, [t, name], _values, mode),
    do: if(mode.traced?, do: call_back(t, name), else: answer(t, function: name))

  defp perform(:custom_grad, [t, inputs, fun], values, mode) do
    if mode.traced?,
      do: custom_grad(t, inputs, &[call(fun, [&1], values, mode)]),
      else: t
  end

  defp perform(:cond, [clauses, last], values, mode), do: branch(clauses, last, values, mode)

  defp perform(:while, [initial, condition, body], values, mode),
    do: loop(List.to_tuple(initial), condition, body, values, mode)

  defp perform(:reduce, [t, acc, opts, fun], values, mode),
    do: Nx.reduce(t, acc, opts, &call(fun, [&1, &2], values, mode))

  defp perform(:window_reduce, [t, acc, window, opts, fun], values, mode),
    do: Nx.window_reduce(t, acc, window, opts, &call(fun, [&1, &2], values, mode))

  # What is around steps of tensors is around the operations of their gradient.
  defp perform(:grad, [tensors, fun], values, %{traced?: false, around: around})
       when around != nil do
    values = Map.new(values, fn {number, t} -> {number, Watched.expr(t)} end)
    gradient = &perform(:grad, [Tuple.to_list(&1), fun], values, %__MODULE__{traced?: true})
    watched(around, gradient, tensors)
  end

  defp perform(:grad, [tensors, fun], values, mode) do
    objective = &call(fun, Tuple.to_list(&1), values, %{mode | traced?: true})
    Nx.Defn.grad(List.to_tuple(tensors), objective)
  end

  defp perform(op, args, _values, _mode), do: apply(module(op), op, args)

  @doc """
  An expression for what the function of Nx with this name answers, called while the program runs.
  """
  def call_back(t, name),
    do: Nx.runtime_call(Nx.to_template(t), t, [function: name], &answer/2)

  defp answer(t, opts), do: apply(Nx, opts[:function], [t])

  @doc """
  The module whose function a step calls.
  """
  def module(op) when op in [:determinant, :cholesky, :solve, :norm], do: Nx.LinAlg
  def module(op) when op in [:uniform, :randint], do: Nx.Random
  def module(_op), do: Nx

  @doc """
  What a function answers: a tensor, or a tuple of several.
  """
  def call(%Fun{} = fun, args, values, mode) do
    values = fun.params |> Enum.zip(args) |> Enum.into(values)
    values = steps(fun.steps, values, mode)

    case Enum.map(fun.results, &Map.fetch!(values, &1)) do
      [result] -> result
      results -> List.to_tuple(results)
    end
  end

  defp branch(clauses, last, values, %{traced?: true} = mode) do
    clauses =
      for [predicate, body] <- clauses,
          do:
            {[line: 1],
             {call(predicate, [], values, mode), fn -> call(body, [], values, mode) end}}

    last = {[line: 1], {true, fn -> call(last, [], values, mode) end}}
    Nx.Defn.Expr.defn_cond("program", clauses ++ [last])
  end

  # All of them, to see that their results are of the same kinds, as defn would.
  defp branch(clauses, last, values, mode) do
    {taken, results} =
      Enum.map_reduce(clauses, [], fn [predicate, body], results ->
        {true?(call(predicate, [], values, mode)), [call(body, [], values, mode) | results]}
      end)

    results = Enum.reverse([call(last, [], values, mode) | results])
    if results |> Enum.uniq_by(&kinds/1) |> length() > 1, do: raise("branches of different kinds")
    Enum.at(results, Enum.find_index(taken, & &1) || -1)
  end

  defp kinds(results), do: for(t <- list(results), do: {t.type, t.shape, t.vectorized_axes})

  defp loop(initial, condition, body, values, %{traced?: true} = mode) do
    Nx.Defn.Expr.defn_while(
      "program",
      1,
      initial,
      :none,
      &part(&1, &2, condition, body, values, mode),
      []
    )
  end

  defp loop(initial, condition, body, values, mode) do
    initial
    |> Stream.iterate(&(body |> call(Tuple.to_list(&1), values, mode) |> tuple()))
    |> Stream.take(@most_turns)
    |> Enum.find(&(not true?(call(condition, Tuple.to_list(&1), values, mode)))) ||
      raise "a loop without end"
  end

  defp part(:condition, state, condition, _body, values, mode),
    do: call(condition, Tuple.to_list(state), values, mode)

  defp part(:body, state, _condition, body, values, mode),
    do: body |> call(Tuple.to_list(state), values, mode) |> tuple()

  defp tuple(results) when is_tuple(results), do: results
  defp tuple(result), do: {result}

  defp true?(predicate), do: Nx.to_number(predicate) != 0
end
