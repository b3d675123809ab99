defmodule ExBurn.Defn.Lowering.Scope do
  @moduledoc """
  Where a node of an expression is computed.

  A scope is a stack of frames, one for each program under construction, innermost first. Three kinds of frame nest in
  another one:

    * `:closed` - the condition or body of a loop, or a function: sees its own parameters only
    * `:branch` - a branch of `cond`: nodes that belong to an enclosing scope are computed there and captured
    * `:backward` - the gradient of `custom_grad`: the same

  Tensors captured by the `defn` travel from the root down, whatever the frames between.
  """

  alias ExBurn.Defn.Lowering.{HostCall, Insides, Owners, Parameters}
  alias ExBurn.{Error, Program, Type}
  alias Nx.Defn.Expr
  alias Nx.Tensor, as: T

  @enforce_keys [:kind, :program, :ids, :insides]
  defstruct [
    :kind,
    :program,
    :ids,
    :insides,
    parameters: Parameters.none(),
    known: %{},
    inline: false,
    calls: [],
    opts: []
  ]

  @type frame :: %__MODULE__{
          kind: :root | :closed | :branch | :backward,
          program: Program.t(),
          parameters: Parameters.t(),
          ids: Owners.ids(),
          insides: Insides.t(),
          known: %{term() => [Program.ref()]},
          inline: boolean(),
          calls: [{non_neg_integer(), HostCall.t()}],
          opts: keyword()
        }

  @type t :: [frame(), ...]

  @doc """
  The scope of a whole `defn` with these outputs.
  """
  def root(program, outputs, opts) do
    {ids, insides} = Owners.of(outputs)
    frame = frame(:root, program, ids, insides)
    [%{frame | parameters: Parameters.inputs(program, nil), opts: opts}]
  end

  @doc """
  The program under construction.
  """
  def program([frame | _]), do: frame.program

  @doc """
  Whether gradient annotations are kept.
  """
  def autodiff?(scope), do: List.last(scope).opts[:autodiff] || false

  @doc """
  Whether the caller hangs a function on the hook `name`.
  """
  def hook?(scope, name), do: is_map_key(List.last(scope).opts[:hooks] || %{}, name)

  @doc """
  Adds a function that the program calls for the node `op` and answers its number.
  """
  def add_call(scope, op, call) do
    root = List.last(scope)
    number = number!(root, op)
    {number, List.replace_at(scope, -1, %{root | calls: [{number, call} | root.calls]})}
  end

  defp number!(%{opts: opts, calls: calls}, op) do
    case opts[:calls] do
      true ->
        next(calls)

      :unique ->
        System.unique_integer([:positive])

      _ ->
        raise Error, op: op, reason: "a program that runs without Elixir can't call a function"
    end
  end

  defp next([]), do: 0
  defp next([{number, _call} | _]), do: number + 1

  @doc """
  Whether hooks are passed over.
  """
  def without_hooks?(scope), do: List.last(scope).opts[:calls] == :without_hooks

  @doc """
  The functions that the program calls, in pairs with their numbers where these are no other program's, else by them.
  """
  def calls(scope) do
    %{calls: calls, opts: opts} = List.last(scope)
    calls = Enum.reverse(calls)
    if opts[:calls] == :unique, do: calls, else: Enum.map(calls, &elem(&1, 1))
  end

  @doc """
  The references of a parameter.
  """
  def parameter!([frame | _], parameter), do: Parameters.fetch!(frame.parameters, parameter)

  @doc """
  Emits an instruction in the innermost program.
  """
  def emit([frame | outer], op, refs, types) do
    {refs, program} = Program.emit(frame.program, op, refs, types)
    {refs, [%{frame | program: program} | outer]}
  end

  @doc """
  What `fun` answers for `key`, which it is asked once a frame.
  """
  def cached([frame | _] = scope, key, fun) do
    case frame.known do
      %{^key => refs} ->
        {refs, scope}

      %{} ->
        {refs, scope} = fun.(scope)
        {refs, remember(scope, key, refs)}
    end
  end

  defp remember([frame | outer], key, refs),
    do: [%{frame | known: Map.put(frame.known, key, refs)} | outer]

  @doc """
  The references of the node `id`: known already, captured from an enclosing scope, or made by `lower`.
  """
  def resolve(scope, t, id, lower) do
    cached(scope, id, fn scope ->
      if outer?(scope, t, id), do: capture(scope, t, id, lower), else: lower.(t, scope)
    end)
  end

  # Parameters seen while a block is lowered inline are the block's; a branch has none of its own, and the one of a gradient
  # is known from the start.
  defp outer?([%{kind: kind, inline: true} | _], %T{data: %Expr{op: :parameter}}, _id)
       when kind != :root,
       do: false

  defp outer?([%{kind: kind} | _], %T{data: %Expr{op: :parameter}}, _id)
       when kind in [:branch, :backward],
       do: true

  defp outer?([%{kind: kind} | outer], _t, id) when kind in [:branch, :backward],
    do: owns?(outer, id)

  defp outer?(_scope, _t, _id), do: false

  @doc """
  Whether the node `id` belongs to a scope, or to one around it that its branches and gradients see.
  """
  def owns?([%{kind: kind} = frame | outer], id) when kind in [:branch, :backward],
    do: is_map_key(frame.ids, id) or is_map_key(frame.known, id) or owns?(outer, id)

  def owns?([frame | _], id), do: is_map_key(frame.ids, id) or is_map_key(frame.known, id)

  defp capture([frame | outer], t, id, lower) do
    {refs, outer} = resolve(outer, t, id, lower)

    {own, frame} =
      Enum.map_reduce(refs, frame, fn ref, frame ->
        {own, program} = Program.capture(frame.program, ref, Program.type(program(outer), ref))
        {own, %{frame | program: program}}
      end)

    {own, [frame | outer]}
  end

  @doc """
  The references of a tensor that the `defn` captured.
  """
  def capture_tensor([%{kind: :root} = frame], tensor) do
    {ref, program} = Program.capture(frame.program, tensor, Type.of(tensor))
    {[ref], [%{frame | program: program}]}
  end

  def capture_tensor([frame | outer], tensor) do
    {[outer_ref], outer} = capture_tensor(outer, tensor)
    {ref, program} = Program.capture(frame.program, outer_ref, Type.of(tensor))
    {[ref], [%{frame | program: program} | outer]}
  end

  @doc """
  Lowers `fun` in a new innermost frame for the condition or body of a loop, or a function, that takes `parameters` and
  answers `body`.

  Answers the frame's program, not yet finished, with the references of its results and of what it captured from the
  enclosing frame.
  """
  def nest_closed(scope, [%T{data: %Expr{context: context}} | _] = parameters, body, fun) do
    {ids, insides} = Owners.of(body)
    program = Program.new(Enum.map(parameters, &Type.of/1))
    frame = frame(:closed, program, ids, insides)
    lower_nested(scope, %{frame | parameters: Parameters.inputs(program, context)}, fun)
  end

  @doc """
  Lowers `fun` in a new innermost frame for a part of a `cond` to which the nodes `ids` belong.
  """
  def nest_branch(scope, ids, fun),
    do: lower_nested(scope, frame(:branch, Program.new([]), ids, insides(scope)), fun)

  @doc """
  Lowers `fun` in a new innermost frame for the gradient of `custom_grad`, which takes the `upstream` gradient and answers
  `gradients`.
  """
  def nest_gradient(scope, %T{data: %Expr{id: id}} = upstream, gradients, fun) do
    {ids, insides} = Owners.of(gradients, &owns?(scope, &1))
    frame = frame(:backward, Program.new([Type.of(upstream)]), ids, insides)
    lower_nested(scope, %{frame | known: %{id => [{:input, 0}]}}, fun)
  end

  defp frame(kind, program, ids, insides),
    do: %__MODULE__{kind: kind, program: program, ids: ids, insides: insides}

  defp lower_nested(scope, frame, fun) do
    {results, [frame | outer]} = fun.([frame | scope])
    {{frame.program, results}, outer}
  end

  @doc """
  The insides of `cond`s that the innermost frame knows.
  """
  def insides([frame | _]), do: frame.insides

  @doc """
  Makes the nodes `ids` belong to the innermost frame.
  """
  def own([frame | outer], ids), do: [%{frame | ids: Map.merge(frame.ids, ids)} | outer]

  @doc """
  Makes the nodes of `body` that no scope owns yet belong to the innermost frame.
  """
  def enter([frame | outer] = scope, body) do
    {ids, insides} = Owners.of(body, &owns?(scope, &1))

    [
      %{frame | ids: Map.merge(frame.ids, ids), insides: Map.merge(frame.insides, insides)}
      | outer
    ]
  end

  @doc """
  Lowers `fun` in the same frame with `refs` as parameters: the body of a block.
  """
  def inline([frame | outer], refs, body, fun) do
    parameters = Parameters.new(refs, nil)
    {ids, insides} = Owners.of(body)
    ids = Map.merge(frame.ids, ids)
    inner = %{frame | inline: true, parameters: parameters, ids: ids, insides: insides}
    {results, [inner | outer]} = fun.([inner | outer])
    {results, [Map.merge(inner, Map.take(frame, [:inline, :parameters, :insides])) | outer]}
  end
end
