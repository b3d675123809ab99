defmodule ExBurn.Defn.Recording do
  @moduledoc """
  From an Elixir function of two scalars to a program, by calling it.

  The function is called with tensors of `ExBurn.Backend` that stand for values still unknown. The backend hands each
  operation on such a tensor to `emit/3`, which adds it to the program instead of running it. Other tensors that the
  operation reads become captures, so a function may use any tensors around it.

  A function that asks whether a comparison holds, as a branch that `Nx.Defn.Evaluator` runs, is called once more for each
  answer, and told what it was told before up to there. What it does from there on becomes a branch of a `cond`.

  A function that asks for another value of such a tensor, as `Nx.to_number/1` does, can't be recorded; nor can one that
  asks without end, as a loop whose end depends on its values, one that raises, throws or exits for an answer, nor one that
  does something else when it is called again.
  """

  alias ExBurn.{Backend, Error, Instruction, Program, Type}
  alias Nx.Tensor, as: T

  # A function of `n` branches is called `2 * n - 1` times.
  @calls 200

  # Operations that answer 0 or 1, and others that do when their operands do.
  @truths [:all, :any, :is_infinity, :is_nan, :logical_not] ++
            ~w(equal greater greater_equal less less_equal not_equal logical_and logical_or logical_xor)a
  @passing [:bitcast, :broadcast, :cast, :reshape, :transpose]

  # What is recorded now: the program so far, what the function is to be `told` again and what it `heard`, last first; and
  # what has `ended` it, `{:asked, value}` or `:unknown`, even if the function has `caught?` the exception.
  @enforce_keys [:root, :id, :program, :told, :calls]
  defstruct @enforce_keys ++ [:ended, heard: [], caught?: false]

  @typedoc "What a stand-in is known by: its recording, its reference there, and whether it is 0 or 1."
  @type value :: {reference(), Program.ref(), boolean()}

  @doc """
  The program of `fun` over an element and an accumulator of `type`, answering the same type, with the tensors it
  captures; `:unknown` when `fun` can't be recorded; `:untraceable` when it caught the exception which told so, as it would
  that of a `defn`.

  ## Examples

      iex> {:ok, program, []} = ExBurn.Defn.Recording.body(&Nx.add/2, {:s, 32})
      iex> [%{op: op, inputs: inputs}] = program.instructions
      iex> {op, inputs}
      {{:binary, :add}, [0, 1]}

      iex> largest = fn x, acc -> if Nx.to_number(Nx.greater(x, acc)) == 1, do: x, else: acc end
      iex> {:ok, program, []} = ExBurn.Defn.Recording.body(largest, {:s, 32})
      iex> for %{op: {name, _}} <- program.instructions, do: name
      [:binary, :cond]

      iex> ExBurn.Defn.Recording.body(fn x, acc -> Nx.to_number(x) + Nx.to_number(acc) end, {:s, 32})
      :unknown

  """
  @spec body((Nx.Tensor.t(), Nx.Tensor.t() -> Nx.Tensor.t()), Nx.Type.t()) ::
          {:ok, Program.finished(), [Nx.Tensor.t()]} | :unknown | :untraceable
  def body(fun, type) do
    root = make_ref()
    scalar = {Type.name(type), []}
    [x, acc] = for i <- 0..1, do: stand_in(scalar, {root, {:input, i}, false})
    program = Program.new([scalar, scalar])
    first = %__MODULE__{root: root, id: root, program: program, told: [], calls: @calls}
    outer = Process.get(__MODULE__)

    try do
      {program, ref} = record(first, fn -> fun.(x, acc) |> result(scalar) end)
      {:ok, Program.finish(program, [ref]), Program.capture_keys(program)}
    rescue
      error in Error ->
        case error.details do
          %{recording: ^root, caught?: true} -> :untraceable
          %{recording: ^root} -> :unknown
          _ -> reraise(error, __STACKTRACE__)
        end
    after
      if outer, do: Process.put(__MODULE__, outer), else: Process.delete(__MODULE__)
    end
  end

  defp stand_in({name, []}, value),
    do: %T{
      type: Type.from_name(name),
      shape: {},
      names: [],
      data: %Backend{ref: {:recorded, value}}
    }

  # The program with the reference of its result.
  defp record(%__MODULE__{} = recording, call) do
    Process.put(__MODULE__, recording)

    outcome =
      try do
        {:ok, call.()}
      catch
        kind, reason -> {kind, reason, __STACKTRACE__}
      end

    case {current(), outcome} do
      {%{ended: nil, program: program}, {:ok, ref}} ->
        {program, ref}

      {%{ended: nil}, {kind, reason, stack}} ->
        :erlang.raise(kind, reason, stack)

      {recording, _outcome} ->
        go_on(%{recording | caught?: recording.caught? or not ended?(outcome)}, call)
    end
  end

  defp ended?({:throw, __MODULE__, _stack}), do: true
  defp ended?({:error, %Error{details: %{recording: _root}}, _stack}), do: true
  defp ended?(_outcome), do: false

  defp go_on(%{ended: {:asked, value}} = recording, call), do: branch(recording, value, call)
  defp go_on(%{ended: :unknown} = recording, _call), do: give_up(recording)

  # The rest of the function for each answer to what it asked.
  defp branch(recording, asked, call) do
    {branches, calls} =
      Enum.map_reduce([1, 0], recording.calls, fn answer, calls ->
        if calls == 0, do: unknown!()
        told = Enum.reverse(recording.heard, [{:answer, asked, answer}])
        rest = %{recording | id: make_ref(), program: Program.new([]), told: told, heard: []}
        {program, ref} = record(%{rest | calls: calls - 1, ended: nil}, call)
        {{program, [ref]}, current().calls}
      end)

    predicate = stand_in({:u8, []}, asked)
    {ref, program} = Program.capture(Program.new([]), predicate, {:u8, []})
    {programs, captures} = Program.finish_together([{program, [ref]} | branches])
    op = {:cond, %{predicates: [hd(programs)], branches: tl(programs)}}
    {program, [ref]} = hd(branches)

    Process.put(__MODULE__, %{recording | calls: calls, ended: nil})
    {refs, outer} = Enum.map_reduce(captures, recording.program, &operand/2)
    {[ref], outer} = Program.emit(outer, op, refs, [Program.type(program, ref)])
    {outer, ref}
  catch
    # What the function raises for one answer it may never come to.
    _kind, _reason -> give_up(current())
  end

  # The reference of what the function answered.
  defp result(answer, scalar) do
    t = Nx.to_tensor(answer)

    if {t.shape, t.vectorized_axes} != {{}, []},
      do: raise("reduce function must return a scalar tensor, got: #{shape(t)}")

    recording = current()
    if recording.told != [], do: unknown!()
    {ref, program} = operand(t, recording.program)

    {ref, program} =
      if Type.of(t) == scalar do
        {ref, program}
      else
        {[ref], program} = Program.emit(program, :cast, [ref], [scalar])
        {ref, program}
      end

    Process.put(__MODULE__, %{recording | program: program})
    ref
  end

  defp shape(%T{shape: shape, vectorized_axes: []}), do: inspect(shape)
  defp shape(t), do: "#{inspect(t.shape)} vectorized by #{inspect(t.vectorized_axes)}"

  defp current, do: Process.get(__MODULE__)

  @doc """
  Whether a tensor stands for a value still unknown.
  """
  @spec recorded?(Nx.Tensor.t() | integer()) :: boolean()
  def recorded?(%T{data: %Backend{ref: {:recorded, _}}}), do: true
  def recorded?(_operand), do: false

  @doc """
  Whether a function is being recorded and one of the arguments, which are functions that answer tensors, stands for a value.
  """
  @spec any?([(-> Nx.Tensor.t())]) :: boolean()
  def any?(args), do: current() != nil and Enum.any?(args, &recorded?(&1.()))

  @doc """
  Records an operation and answers what its results go by in `ExBurn.Backend`.
  """
  @spec emit(Instruction.op(), [Instruction.operand()], [Program.tensor_type()]) ::
          [{:recorded, value()}]
  def emit(op, operands, types) do
    did = {op, types, Enum.map(operands, &known/1)}

    case current() do
      %{ended: nil, told: [{:results, ^did, results} | told]} = recording ->
        hear(%{recording | told: told}, {:results, did, results})
        results

      %{ended: nil, told: []} = recording ->
        {refs, program} = Enum.map_reduce(operands, recording.program, &operand/2)
        {refs, program} = Program.emit(program, op, refs, types)
        truth? = types == [{:u8, []}] and truth?(op, operands)
        results = Enum.map(refs, &{:recorded, {recording.id, &1, truth?}})
        hear(%{recording | program: program}, {:results, did, results})
        results

      # None, one that has ended, or one whose function does something else than it did before.
      _other ->
        unknown!()
    end
  end

  # What an operand is known by when the function is called again: what it captures it may have made again.
  defp known(%T{data: %Backend{ref: {:recorded, value}}}), do: value
  defp known(%T{} = t), do: Type.of(t)
  defp known(integer), do: integer

  defp hear(recording, event),
    do: Process.put(__MODULE__, %{recording | heard: [event | recording.heard]})

  defp truth?({_kind, %{fold: fold}}, _operands), do: fold in @truths
  defp truth?({_kind, name}, _operands) when name in @truths, do: true
  defp truth?({name, _attributes}, operands) when name in @passing, do: truths?(operands)
  defp truth?(name, operands) when name in @passing, do: truths?(operands)
  defp truth?(_op, _operands), do: false

  defp truths?(operands),
    do: Enum.all?(operands, &match?(%T{data: %Backend{ref: {:recorded, {_, _, true}}}}, &1))

  defp operand(integer, program) when is_integer(integer) do
    {op, []} = Instruction.build(:constant, %T{type: {:s, 64}, shape: {}, names: []}, [integer])
    {[ref], program} = Program.emit(program, op, [], [{:s64, []}])
    {ref, program}
  end

  defp operand(%T{data: %Backend{ref: {:recorded, {id, ref, _truth?}}}} = t, program) do
    if current().id == id,
      do: {ref, program},
      # Of a recording around this one.
      else: Program.capture(program, t, Type.of(t))
  end

  defp operand(%T{} = t, program),
    do:
      Program.capture(program, %{t | names: List.duplicate(nil, tuple_size(t.shape))}, Type.of(t))

  @doc """
  Whether what a stand-in says holds: 0 or 1. The function that asks is called again for each.
  """
  @spec ask(value()) :: 0 | 1
  def ask({_id, _ref, truth?} = value) do
    case current() do
      %{ended: nil, told: [{:answer, ^value, answer} | told]} = recording ->
        hear(%{recording | told: told}, {:answer, value, answer})
        answer

      %{ended: nil, told: []} = recording when truth? ->
        Process.put(__MODULE__, %{recording | ended: {:asked, value}})
        throw(__MODULE__)

      _other ->
        unknown!()
    end
  end

  @doc """
  Refuses to tell the value of a tensor that stands for one still unknown.
  """
  @spec unknown!() :: no_return()
  def unknown! do
    case current() do
      nil ->
        raise Error,
          op: :reduce,
          reason:
            "a tensor that stood for a value in the function of a reduction has none outside of the function and its process"

      # The function goes on after an exception.
      %{ended: ended} = recording when ended != nil ->
        give_up(%{recording | caught?: true})

      recording ->
        give_up(recording)
    end
  end

  defp give_up(recording) do
    Process.put(__MODULE__, %{recording | ended: recording.ended || :unknown})

    raise Error,
      op: :reduce,
      reason: "the values of a function's arguments are not known while it is recorded",
      details: %{recording: recording.root, caught?: recording.caught?}
  end
end
