defmodule ExBurn.Property.Call do
  @moduledoc """
  A call of a function with operands as data: run on a backend, run compiled, or printed as code.

  The function is `{module, name}`, or `{code, function}` for functions that tests put together. Operands may stand in
  lists among the arguments.
  """

  alias ExBurn.Property.Operand

  @type fun :: {module(), atom()} | {String.t(), function()}
  @type t :: {fun(), [term()]}

  @doc """
  The result of the call with its operands on `backend`.
  """
  def eager({fun, args}, backend) do
    Nx.with_default_backend(backend, fn -> invoke(fun, map(args, &Operand.build/1)) end)
  end

  @doc """
  The result of the call compiled by `ExBurn.Defn.Compiler`.
  """
  def compiled({fun, args}) do
    Nx.with_default_backend(ExBurn.Backend, fn ->
      tensors = args |> operands() |> Enum.map(&Operand.build/1)
      traced = fn tensors -> invoke(fun, fill(args, Tuple.to_list(tensors))) end

      Nx.Defn.jit_apply(traced, [List.to_tuple(tensors)],
        compiler: ExBurn.Defn.Compiler,
        cache: false
      )
    end)
  end

  @doc """
  The expression of the call: its type, shape and names without its values.
  """
  def traced({fun, args}) do
    Nx.with_default_backend(Nx.BinaryBackend, fn ->
      tensors = args |> operands() |> Enum.map(&Operand.build/1)

      Nx.Defn.debug_expr_apply(
        fn tensors -> invoke(fun, fill(args, Tuple.to_list(tensors))) end,
        [List.to_tuple(tensors)]
      )
    end)
  end

  defp invoke({module, name}, args) when is_atom(module), do: apply(module, name, args)
  defp invoke({code, fun}, args) when is_binary(code), do: apply(fun, args)

  @doc """
  All operands among the arguments, in order.
  """
  def operands(args) do
    {_args, operands} = walk(args, [], fn operand, found -> {operand, [operand | found]} end)
    Enum.reverse(operands)
  end

  @doc """
  The arguments with each operand replaced by what `fun` answers.
  """
  def map(args, fun),
    do: args |> walk(nil, fn operand, nil -> {fun.(operand), nil} end) |> elem(0)

  @doc """
  The arguments with their operands replaced by the given values, in order.
  """
  def fill(args, values),
    do: args |> walk(values, fn _operand, [value | rest] -> {value, rest} end) |> elem(0)

  defp walk(%Operand{} = operand, acc, fun), do: fun.(operand, acc)

  defp walk({code, function}, acc, _) when is_binary(code) and is_function(function),
    do: {function, acc}

  defp walk(list, acc, fun) when is_list(list), do: Enum.map_reduce(list, acc, &walk(&1, &2, fun))
  defp walk(other, acc, _fun), do: {other, acc}

  @doc """
  The arguments with the first operand on the backend under test: the first one decides where some functions run.
  """
  def at_home(args) do
    {args, _} =
      walk(args, true, fn operand, first? ->
        {%{operand | elsewhere?: operand.elsewhere? and not first?}, false}
      end)

    args
  end

  @doc """
  The call as one line of code.
  """
  def code({fun, args}), do: "#{name(fun)}(#{Enum.map_join(args, ", ", &Operand.literal/1)})"

  defp name({module, name}) when is_atom(module), do: "#{inspect(module)}.#{name}"
  defp name({code, _fun}), do: "(#{code})."
end
