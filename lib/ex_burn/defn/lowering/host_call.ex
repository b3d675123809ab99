defmodule ExBurn.Defn.Lowering.HostCall do
  @moduledoc """
  Nodes that call Elixir functions: hooks and `Nx.runtime_call/4`.

  The program knows a function by its number only, so it does not depend on what the functions capture. A hook has no
  results: its node is its operand. It runs where the node is computed, before anything that reads it.
  """

  alias ExBurn.{Backend, Type}
  alias ExBurn.Defn.Lowering
  alias ExBurn.Defn.Lowering.Scope
  alias Nx.Defn.Composite
  alias Nx.Tensor, as: T

  @typedoc """
  A function by number: the function of a hook, as `Nx.Defn.Expr` describes it, or the one of a runtime call with its
  options; the container of its arguments and, of a runtime call, of its results.
  """
  @type t ::
          {:hook, {:fn, function()} | {:named, atom(), function() | nil}, Nx.Container.t()}
          | {:runtime_call, function(), term(), Nx.Container.t(), Nx.Container.t()}

  @doc """
  A hook: `expr`, after whose computation a function is called.
  """
  def hook([expr, {:token_hook, hooked, spec}, _template, _ref], scope) do
    {refs, scope} = Lowering.all_refs(expr, scope)
    {_refs, scope} = hook([hooked, spec, nil, nil], scope)
    {refs, scope}
  end

  def hook([expr, spec, _template, _ref], scope) do
    {refs, scope} = Lowering.all_refs(expr, scope)
    if called?(spec, scope), do: emit_hook(expr, spec, refs, scope), else: {refs, scope}
  end

  # A named hook without a function does nothing unless the caller hangs one on it.
  defp called?(spec, scope) do
    case spec do
      {:named, name, nil} -> Scope.hook?(scope, name) and not Scope.without_hooks?(scope)
      _ -> not Scope.without_hooks?(scope)
    end
  end

  defp emit_hook(expr, spec, refs, scope) do
    {number, scope} = Scope.add_call(scope, :hook, {:hook, spec, template(expr)})
    {[], scope} = Scope.emit(scope, {:hook, %{id: number}}, refs, [])
    {refs, scope}
  end

  @doc """
  A runtime call: the results of a function.
  """
  def runtime_call([expr, fun, output, opts], scope) do
    {refs, scope} = Lowering.all_refs(expr, scope)
    call = {:runtime_call, fun, opts, template(expr), output}
    {number, scope} = Scope.add_call(scope, :runtime_call, call)
    types = [output] |> Composite.flatten_list() |> Enum.map(&Type.of(Nx.devectorize(&1)))
    Scope.emit(scope, {:runtime_call, %{id: number}}, refs, types)
  end

  defp template(container), do: Composite.traverse(container, &Nx.to_template/1)

  @doc """
  Calls a function with the native references of its arguments and answers those of its results.
  """
  @spec apply(t(), [reference()], %{atom() => function()}) :: [reference()]
  def apply({:hook, spec, template}, arguments, hooks) do
    if fun = function(spec, hooks), do: fun.(fill(template, arguments))
    []
  end

  def apply({:runtime_call, fun, opts, template, output}, arguments, _hooks) do
    result = fun.(fill(template, arguments), opts)

    # The sentence of Nx.Defn.Evaluator.
    unless Nx.compatible?(output, result),
      do: raise("expected the runtime_call function to match the given output template")

    # Numbers are results as well, where they are like the template.
    [result] |> Composite.flatten_list() |> Enum.map(&Backend.ref(Nx.to_tensor(&1)))
  end

  defp function({:fn, fun}, _hooks), do: fun
  defp function({:named, name, default}, hooks), do: hooks[name] || default

  @doc """
  A container like `template` of tensors with these native references.
  """
  @spec fill(Nx.Container.t(), [reference()], ExBurn.Device.t()) :: Nx.Container.t()
  def fill(template, refs, device \\ :cpu)
  def fill(%T{} = template, [ref], device), do: Backend.put(template, ref, device)

  def fill(template, refs, device) do
    {container, []} =
      Composite.traverse(template, refs, fn %T{} = t, [ref | refs] ->
        {Backend.put(t, ref, device), refs}
      end)

    container
  end
end
