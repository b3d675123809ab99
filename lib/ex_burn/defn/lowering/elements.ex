defmodule ExBurn.Defn.Lowering.Elements do
  @moduledoc """
  Folds by functions that call Elixir: a loop over the elements, in which a program can stop for a call.

  What is folded into one result is a row. The state of the loop is the number of the element, the results so far and the
  elements.
  """

  alias ExBurn.Defn.Lowering
  alias ExBurn.Defn.Lowering.{ControlFlow, Scope}
  alias ExBurn.{Instruction, Type}
  alias Nx.Defn.Expr

  @doc """
  The rows that `Nx.reduce/4` folds, one after the other.
  """
  @spec rows(Nx.Tensor.t(), keyword()) :: Nx.Tensor.t()
  def rows(t, opts) do
    all = Enum.to_list(0..(tuple_size(t.shape) - 1)//1)
    folded = Enum.sort(opts[:axes] || all)
    t |> Nx.transpose(axes: (all -- folded) ++ folded) |> Nx.flatten()
  end

  @doc """
  The windows that `Nx.window_reduce/5` folds, one after the other. The padding is the first accumulator.
  """
  @spec windows(Nx.Tensor.t(), Nx.Tensor.t(), tuple(), keyword(), Nx.Tensor.t()) :: Nx.Tensor.t()
  def windows(t, acc, dimensions, opts, out) do
    windows = Instruction.windows(dimensions, opts)
    padding = Enum.map(windows.padding, fn {low, high} -> {low, high, 0} end)
    [t, acc] = Enum.map([t, acc], &Nx.as_type(&1, out.type))
    padded = Nx.pad(t, acc, padding)
    starts = places(Tuple.to_list(out.shape), windows.strides, padded.shape)
    inside = places(windows.dimensions, windows.dilations, padded.shape)
    places = for start <- starts, place <- inside, do: start + place
    places = Nx.tensor(places, type: :s64, backend: Nx.BinaryBackend)
    Nx.take(Nx.flatten(padded), Expr.tensor(places))
  end

  # Where the elements of a grid with these distances lie in a tensor whose axes have been flattened.
  defp places(sizes, distances, shape) do
    [sizes, distances, Tuple.to_list(shape)]
    |> Enum.zip()
    |> Enum.reduce([0], fn {size, distance, axis}, places ->
      for place <- places, i <- 0..(size - 1)//1, do: place * axis + i * distance
    end)
  end

  @doc """
  The fold of `rows` by the function of element and accumulator whose expression is `body`, from `acc` on. Expressions are
  the default backend.
  """
  @spec fold(Nx.Tensor.t(), Nx.Tensor.t(), Nx.Tensor.t(), Nx.Tensor.t(), Scope.t()) ::
          {[ExBurn.Program.ref()], Scope.t()}
  def fold(rows, acc, body, out, scope) do
    rows = Nx.as_type(rows, out.type)
    results = acc |> Nx.as_type(out.type) |> Nx.broadcast({Nx.size(out)})
    start = [Nx.tensor(0, type: :s64), results, rows]
    {[_number, folded, _rows], scope} = loop(start, body, scope)
    Scope.emit(scope, :reshape, [folded], [Type.of(out)])
  end

  defp loop(start, body, scope) do
    {refs, scope} = Lowering.many(start, scope)
    [number, _results, rows] = state = parameters(start)
    more? = Nx.less(number, Nx.size(rows))
    condition = {more?, &Lowering.all_refs(more?, &1)}
    ControlFlow.loop(refs, state, condition, {body, &step(state, body, &1)}, scope)
  end

  defp parameters(tensors) do
    context = make_ref()

    for {t, i} <- Enum.with_index(tensors),
        do: Expr.parameter(Nx.to_template(t), context, i)
  end

  # The function is lowered as if element and accumulator were its parameters, and what comes after it as a function of the
  # state and its result.
  defp step([number, results, rows] = state, body, scope) do
    row = row(number, rows, results)
    {refs, scope} = Lowering.many(state, scope)
    {operands, scope} = Lowering.many([Nx.reshape(rows[number], {}), results[row]], scope)
    {result, scope} = Scope.inline(scope, operands, body, &Lowering.all_refs(body, &1))
    next = next(parameters(state ++ [body]))
    Scope.inline(scope, refs ++ result, next, &Lowering.all_refs(next, &1))
  end

  defp row(number, rows, results), do: Nx.quotient(number, div(Nx.size(rows), Nx.size(results)))

  defp next([number, results, rows, result]) do
    result = result |> Nx.as_type(results.type) |> Nx.reshape({1})
    {Nx.add(number, 1), Nx.put_slice(results, [row(number, rows, results)], result), rows}
  end
end
