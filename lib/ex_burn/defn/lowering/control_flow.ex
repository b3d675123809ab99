defmodule ExBurn.Defn.Lowering.ControlFlow do
  @moduledoc """
  Nodes with programs inside: `cond`, `while`, `reduce` with a function, `custom_grad`.

  A nested program takes what it captures as trailing inputs, so the instruction reads them as trailing operands.
  Programs of one instruction share one list of captures.
  """

  alias ExBurn.Defn.Lowering
  alias ExBurn.Defn.Lowering.{Elements, Owners, Parameters, Place, Scope, Shared}
  alias ExBurn.{Instruction, Program, Type}
  alias Nx.Defn.{Composite, Expr}
  alias Nx.Tensor, as: T

  @doc """
  `cond`: a program for each predicate and each branch.

  What the outside of the `cond` computes, as the first predicate, is captured; so is what runs whichever branch is taken.
  """
  def branch(clauses, last, t, scope) do
    outside? = &Scope.owns?(scope, &1)
    types = output_types(t, last)

    case Shared.split(clauses, last, Scope.insides(scope), outside?) do
      nil ->
        branch(clauses, last, types, outside?, scope)

      at ->
        branch(
          Enum.take(clauses, at),
          rest(t, Enum.drop(clauses, at), last),
          types,
          outside?,
          scope
        )
    end
  end

  defp rest(%T{data: expr} = t, clauses, last),
    do: %{t | data: %{expr | id: make_ref(), args: [clauses, last]}}

  defp branch(clauses, last, types, outside?, scope) do
    {predicates, bodies} = Enum.unzip(clauses)
    insides = Scope.insides(scope)
    ids = &Owners.ids([{&1, Place.outermost()}], insides, outside?)
    parts = Enum.map(predicates ++ bodies ++ [last], &{&1, ids.(&1)})
    scope = Scope.own(scope, Shared.ids(parts, length(predicates), insides, outside?))

    {nested, scope} =
      Enum.map_reduce(parts, scope, fn {part, ids}, scope ->
        Scope.nest_branch(scope, ids, &Lowering.all_refs(part, &1))
      end)

    {nested, captures} = Program.finish_together(nested)
    {predicates, branches} = Enum.split(nested, length(predicates))
    op = {:cond, %{predicates: predicates, branches: branches}}
    Scope.emit(scope, op, captures, types)
  end

  @doc """
  `while`.
  """
  def loop([initial, argument, condition, body], _t, scope) do
    {state, scope} = Lowering.all_refs(initial, scope)
    parameters = [argument] |> Composite.flatten_list() |> Enum.map(&Nx.devectorize/1)
    types = Enum.map(parameters, &Type.of/1)

    condition = {condition, &Lowering.all_refs(condition, &1)}
    loop(state, parameters, condition, {body, &iteration(body, types, &1)}, scope)
  end

  @doc """
  A loop over `state`, whose condition and body are given as an expression of `parameters`, whose nodes belong to the program,
  and a function that lowers it.
  """
  def loop(state, parameters, condition, body, scope) do
    {nested, scope} =
      Enum.map_reduce([condition, body], scope, fn {expr, lower}, scope ->
        Scope.nest_closed(scope, parameters, expr, lower)
      end)

    types = Enum.map(parameters, &Type.of/1)
    {[condition, body], captures} = Program.finish_together(nested)
    Scope.emit(scope, {:while, %{condition: condition, body: body}}, state ++ captures, types)
  end

  # The loop of a gradient may answer another type than its state has: the gradient of an integer begins as f32 and
  # becomes f64 where the integer meets f64 numbers.
  defp iteration(body, types, scope) do
    {refs, scope} = Lowering.all_refs(body, scope)

    refs
    |> Enum.zip(types)
    |> Enum.flat_map_reduce(scope, fn {ref, type}, scope -> cast(scope, ref, type) end)
  end

  @doc """
  `reduce` with a function of element and accumulator.
  """
  def fold(t, acc, opts, fun, out, scope) do
    attrs = fn body ->
      {:custom_reduce, %{axes: opts[:axes], keep_axes: opts[:keep_axes] || false, body: body}}
    end

    fold_by(attrs, t, acc, fun, out, scope, fn -> Elements.rows(t, opts) end)
  end

  @doc """
  `window_reduce` with a function of element and accumulator.
  """
  def window_fold(t, acc, dimensions, opts, fun, out, scope) do
    windows = Instruction.windows(dimensions, opts)
    attrs = &{:custom_window_reduce, %{windows: windows, body: &1}}
    rows = fn -> Elements.windows(t, acc, dimensions, opts, out) end
    fold_by(attrs, t, acc, fun, out, scope, rows)
  end

  # What is folded by a function that calls Elixir are `rows`, element by element.
  defp fold_by(op, t, acc, fun, out, before, rows) do
    %T{data: %Expr{op: :fun, args: [params, body, _mfa]}} = fun
    inside!(body, hd(params).data.context)
    {operands, scope} = Lowering.many([t, acc], before)
    scalar = {Type.name(out.type), []}

    {nested, scope} =
      Scope.nest_closed(scope, params, body, fn scope ->
        {ref, scope} = Lowering.one(body, scope)
        cast(scope, ref, scalar)
      end)

    if Scope.calls(scope) == Scope.calls(before) do
      {[body], captures} = Program.finish_together([nested])
      Scope.emit(scope, op.(body), operands ++ captures, [Type.of(out)])
    else
      Nx.with_default_backend(Expr, fn -> Elements.fold(rows.(), acc, body, out, before) end)
    end
  end

  # Nx raises where values of the enclosing function meet those of this one, but not where there are no others.
  defp inside!(%T{data: %Expr{context: context}}, {op, _ref} = own)
       when context not in [nil, own],
       do: Parameters.outside!(op)

  defp inside!(_body, _own), do: :ok

  # The function may answer another type than the one that is folded.
  defp cast(scope, ref, type) do
    if Program.type(Scope.program(scope), ref) == type,
      do: {[ref], scope},
      else: Scope.emit(scope, :cast, [ref], [type])
  end

  @doc """
  `custom_grad`: the value, with the gradient of `inputs` given by `fun` of the upstream gradient.
  """
  def custom_grad(%T{} = expr, inputs, fun, scope) do
    {refs, scope} = Lowering.many([expr | inputs], scope)
    # Axes of gradients have no names in Nx: what they meet in `fun` may have others.
    upstream = Expr.parameter(Nx.template(expr.shape, expr.type), expr.data.context, 0)

    gradients = traced(fn -> upstream |> fun.() |> List.to_tuple() end)
    type = Type.of(expr)

    {backward, scope} =
      Scope.nest_gradient(scope, upstream, gradients, &Lowering.all_refs(gradients, &1))

    {[backward], captures} = Program.finish_together([backward])
    op = {:custom_grad, %{inputs: length(inputs), backward: backward}}
    Scope.emit(scope, op, refs ++ captures, [type])
  end

  def custom_grad(_tuple, _inputs, _fun, _scope) do
    raise ExBurn.Error,
      op: :custom_grad,
      reason:
        "a custom gradient of several values at once is not implemented; give each value its own"
  end

  @doc """
  What `fun` answers, as an expression: what it calls, such as functions of `Nx.LinAlg`, must know that it is traced.
  """
  def traced(fun), do: Nx.Defn.debug_expr_apply(fun, [])

  defp output_types(%T{type: {:tuple, _}}, last),
    do: [last] |> Composite.flatten_list() |> Enum.map(&Type.of(Nx.devectorize(&1)))

  defp output_types(t, _last), do: [Type.of(t)]
end
