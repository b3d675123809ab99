defmodule ExBurn.Defn.Lowering do
  @moduledoc """
  From a traced `defn` to a program.

  `lower/3` walks the expression from its outputs and emits each node once. Most nodes are translated by
  `ExBurn.Instruction`; this module knows the ones that only exist in expressions: parameters, constants, tuples,
  metadata, blocks. `ExBurn.Defn.Lowering.Scope` nests programs for `ExBurn.Defn.Lowering.ControlFlow`.

  With `autodiff: true` the annotations `stop_grad` and `custom_grad` become instructions, for a program whose
  gradient Burn computes; without it they are left out.
  """

  alias ExBurn.Defn.Lowering.{ControlFlow, HostCall, Scope}
  alias ExBurn.{Instruction, Program, Type}
  alias Nx.Defn.{Composite, Expr}
  alias Nx.Tensor, as: T

  @type lowered :: %{
          program: Program.finished(),
          captures: [Nx.Tensor.t()],
          used: [non_neg_integer()],
          calls: [HostCall.t()] | [{non_neg_integer(), HostCall.t()}],
          cost: number() | :infinity,
          fused_cost: number() | :infinity
        }

  @doc """
  The program of `outputs`, a list of expressions over parameters of `inputs`' types.

  Answers the finished program, the tensors captured as its trailing inputs, the positions of the parameters that are
  used (the others are no inputs of the program), the functions that it calls by their numbers and its estimated cost,
  without fusion and with it.

  ## Options

    * `:calls` - whether the program may call functions while it runs. Defaults to `false`: a node that does raises. With
      `:without_hooks` only hooks are passed over; with `:unique` numbers are those of no other program, and `:calls` has
      pairs of them and functions
    * `:hooks` - a map whose keys are the names of the hooks that have a function
    * `:autodiff` - see above
    * `:keep_unused` - keeps parameters that are not used as inputs
  """
  @spec lower([Nx.Tensor.t()], [Program.tensor_type()], keyword()) :: lowered()
  def lower(outputs, inputs, opts \\ []) do
    outputs = Enum.map(outputs, &Nx.devectorize/1)
    scope = Scope.root(Program.new(inputs), List.to_tuple(outputs), opts)
    {refs, scope} = many(outputs, scope)
    program = Scope.program(scope)

    # Which parameters functions of gradients read is known once these have been called.
    used =
      if opts[:keep_unused],
        do: Enum.to_list(0..(length(inputs) - 1)//1),
        else: Program.used_inputs(program, refs)

    %{
      program: Program.finish(program, refs, used),
      captures: Program.capture_keys(program),
      used: used,
      calls: Scope.calls(scope),
      cost: Program.cost(program, false),
      fused_cost: Program.cost(program, true)
    }
  end

  @doc """
  References of several expressions of one value each.
  """
  def many(tensors, scope), do: Enum.map_reduce(tensors, scope, &one/2)

  @doc """
  The reference of an expression of one value.
  """
  def one(tensor, scope) do
    {[ref], scope} = refs(tensor, scope)
    {ref, scope}
  end

  @doc """
  References of all values of an expression, of which a tuple has several.
  """
  def refs(%T{data: %Expr{op: :constant, args: [number]}} = t, scope) do
    Scope.cached(scope, {:constant, number, t.type, t.shape}, fn scope ->
      emit(scope, Instruction.build(:constant, t, [number]), [Type.of(t)])
    end)
  end

  def refs(%T{data: %Expr{op: :elem, args: [tuple, index]}}, scope) do
    {refs, scope} = refs(tuple, scope)
    {[Enum.at(refs, index)], scope}
  end

  def refs(%T{data: %Expr{id: id}} = t, scope) do
    t = Nx.devectorize(t)
    Scope.resolve(scope, t, id, &node/2)
  end

  defp node(%T{data: %Expr{op: op, args: args}} = t, scope), do: node(op, args, t, scope)

  defp node(:parameter, _args, t, scope), do: {Scope.parameter!(scope, t), scope}
  defp node(:tensor, [tensor], _t, scope), do: tensor(Nx.devectorize(tensor), scope)
  defp node(:metadata, [expr, metadata], _t, scope), do: metadata(expr, metadata, scope)
  defp node(:cond, [clauses, last], t, scope), do: ControlFlow.branch(clauses, last, t, scope)
  defp node(:while, args, t, scope), do: ControlFlow.loop(args, t, scope)

  defp node(:block, args, t, scope), do: block(args, t, scope)

  defp node(:hook, args, _t, scope), do: HostCall.hook(args, scope)
  defp node(:io_call, args, _t, scope), do: HostCall.hook(args, scope)
  defp node(:runtime_call, args, _t, scope), do: HostCall.runtime_call(args, scope)

  defp node(:reduce, [t, acc, opts, fun], out, scope),
    do: ControlFlow.fold(t, acc, opts, fun, out, scope)

  defp node(:window_reduce, [t, acc, dimensions, opts, fun], out, scope),
    do: ControlFlow.window_fold(t, acc, dimensions, opts, fun, out, scope)

  defp node(op, args, t, scope), do: emit(scope, Instruction.build(op, t, args), [Type.of(t)])

  # Filled with one number, as Nx.broadcast(0, shape) makes outside of defn, it is a constant and no memory.
  defp tensor(%T{data: %Nx.BinaryBackend{state: bytes}, type: {_, bits}} = t, scope)
       when is_binary(bytes) and bits >= 8 do
    size = div(bits, 8)
    element = binary_part(bytes, 0, size)

    if :binary.copy(element, div(byte_size(bytes), size)) == bytes,
      do: emit(scope, {{:constant, %{bytes: :binary.bin_to_list(element)}}, []}, [Type.of(t)]),
      else: Scope.capture_tensor(scope, t)
  end

  defp tensor(t, scope), do: Scope.capture_tensor(scope, t)

  @doc """
  Emits an instruction whose operands are expressions or integers.
  """
  def emit(scope, {op, operands}, types) do
    {refs, scope} = Enum.map_reduce(operands, scope, &operand/2)
    Scope.emit(scope, op, refs, types)
  end

  defp operand(integer, scope) when is_integer(integer) do
    {op, []} = Instruction.build(:constant, %T{type: {:s, 64}, shape: {}, names: []}, [integer])
    {[ref], scope} = Scope.emit(scope, op, [], [{:s64, []}])
    {ref, scope}
  end

  defp operand(tensor, scope), do: one(tensor, scope)

  defp metadata(expr, %{custom_grad: {inputs, fun}}, scope) do
    if Scope.autodiff?(scope),
      do: ControlFlow.custom_grad(expr, inputs, fun, scope),
      else: all_refs(expr, scope)
  end

  defp metadata(expr, %{stop_grad: true}, scope) do
    {refs, scope} = all_refs(expr, scope)

    if Scope.autodiff?(scope) do
      Enum.flat_map_reduce(refs, scope, fn ref, scope ->
        Scope.emit(scope, :stop_grad, [ref], [Program.type(Scope.program(scope), ref)])
      end)
    else
      {refs, scope}
    end
  end

  defp metadata(expr, _metadata, scope), do: all_refs(expr, scope)

  @doc """
  References of all values in a container of expressions.
  """
  def all_refs(container, scope) do
    [container] |> Composite.flatten_list() |> Enum.flat_map_reduce(scope, &refs/2)
  end

  defp block([struct, args, default, fun], t, scope) do
    operands = Enum.take_while(args, &(not is_list(&1)))

    case Instruction.block(struct, operands) do
      :default ->
        if Scope.autodiff?(scope),
          do: called(fn -> apply(fun, [struct | args]) end, scope),
          else: inlined(operands, default, scope)

      instruction ->
        types = [if(match?(%T{type: {:tuple, _}}, t), do: default, else: t)]
        emit(scope, instruction, types |> Composite.flatten_list() |> Enum.map(&Type.of/1))
    end
  end

  defp inlined(operands, default, scope) do
    {refs, scope} = many(operands, scope)
    Scope.inline(scope, refs, default, &all_refs(default, &1))
  end

  # Nx differentiates a block by calling its function with the operands themselves. So do we: functions of gradients in there
  # may read what is around the block, and parameters of the block could not be told from those around.
  defp called(fun, scope) do
    body = ControlFlow.traced(fun)
    all_refs(body, Scope.enter(scope, body))
  end
end
