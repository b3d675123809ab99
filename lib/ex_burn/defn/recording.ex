defmodule ExBurn.Defn.Recording do
  @moduledoc """
  From an Elixir function of two scalars to a program, by calling it once.

  The function is called with tensors of `ExBurn.Backend` that stand for values still unknown. The backend hands each
  operation on such a tensor to `emit/3`, which adds it to the program instead of running it. Other tensors that the
  operation reads become captures, so a function may use any tensors around it.

  A function that asks for the value of such a tensor, as `Nx.to_number/1` does, can't be recorded.
  """

  alias ExBurn.{Backend, Error, Instruction, Program, Type}
  alias Nx.Tensor, as: T

  @doc """
  The program of `fun` over an element and an accumulator of `type`, answering the same type, with the tensors it
  captures; `:unknown` when `fun` asks for a value.

  ## Examples

      iex> {:ok, program, []} = ExBurn.Defn.Recording.body(&Nx.add/2, {:s, 32})
      iex> [%{op: op, inputs: inputs}] = program.instructions
      iex> {op, inputs}
      {{:binary, :add}, [0, 1]}

      iex> ExBurn.Defn.Recording.body(fn x, acc -> Nx.to_number(x) + Nx.to_number(acc) end, {:s, 32})
      :unknown

  """
  @spec body((Nx.Tensor.t(), Nx.Tensor.t() -> Nx.Tensor.t()), Nx.Type.t()) ::
          {:ok, Program.finished(), [Nx.Tensor.t()]} | :unknown
  def body(fun, type) do
    id = make_ref()
    scalar = {Type.name(type), []}
    outer = Process.put(__MODULE__, {id, Program.new([scalar, scalar])})

    try do
      [x, acc] =
        for i <- 0..1, do: stand_in(%T{type: type, shape: {}, names: []}, {id, {:input, i}})

      finish(fun.(x, acc), scalar)
    rescue
      error in Error ->
        if error.details[:recording] == id, do: :unknown, else: reraise(error, __STACKTRACE__)
    after
      if outer, do: Process.put(__MODULE__, outer), else: Process.delete(__MODULE__)
    end
  end

  defp stand_in(template, recorded), do: %{template | data: %Backend{ref: {:recorded, recorded}}}

  defp finish(result, scalar) do
    result = Nx.to_tensor(result)

    if result.shape != {},
      do: raise("reduce function must return a scalar tensor, got: #{inspect(result.shape)}")

    {ref, program} = operand(result, current())

    {ref, program} =
      if Type.of(result) == scalar do
        {ref, program}
      else
        {[ref], program} = Program.emit(program, :cast, [ref], [scalar])
        {ref, program}
      end

    {:ok, Program.finish(program, [ref]), Program.capture_keys(program)}
  end

  defp current do
    {_id, program} = Process.get(__MODULE__)
    program
  end

  @doc """
  Whether a tensor stands for a value still unknown.
  """
  @spec recorded?(Nx.Tensor.t() | integer()) :: boolean()
  def recorded?(%T{data: %Backend{ref: {:recorded, _}}}), do: true
  def recorded?(_operand), do: false

  @doc """
  Records an operation and answers what its results go by in `ExBurn.Backend`.
  """
  @spec emit(Instruction.op(), [Instruction.operand()], [Program.tensor_type()]) :: [tuple()]
  def emit(op, operands, types) do
    {id, program} = Process.get(__MODULE__) || unknown!({nil, nil})
    {refs, program} = Enum.map_reduce(operands, program, &operand/2)
    {results, program} = Program.emit(program, op, refs, types)
    Process.put(__MODULE__, {id, program})
    Enum.map(results, &{:recorded, {id, &1}})
  end

  defp operand(integer, program) when is_integer(integer) do
    {op, []} = Instruction.build(:constant, %T{type: {:s, 64}, shape: {}, names: []}, [integer])
    {[ref], program} = Program.emit(program, op, [], [{:s64, []}])
    {ref, program}
  end

  defp operand(%T{data: %Backend{ref: {:recorded, {id, ref}}}} = t, program) do
    case Process.get(__MODULE__) do
      {^id, _program} -> {ref, program}
      # Of a recording around this one.
      _other -> Program.capture(program, t, Type.of(t))
    end
  end

  defp operand(%T{} = t, program),
    do:
      Program.capture(program, %{t | names: List.duplicate(nil, tuple_size(t.shape))}, Type.of(t))

  @doc """
  Refuses to tell the value of a tensor that stands for one still unknown.
  """
  @spec unknown!({reference() | nil, term()}) :: no_return()
  def unknown!({id, _ref}) do
    raise Error,
      op: :reduce,
      reason: "the values of a function's arguments are not known while it is recorded",
      details: %{recording: id}
  end
end
