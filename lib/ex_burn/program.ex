defmodule ExBurn.Program do
  @moduledoc """
  A program as data, while it is being built.

  A program is a list of instructions in single assignment form. While it grows, its values are named by references:
  `{:input, i}` for its inputs, `{:capture, i}` for tensors and outer values that it reads, `{:value, i}` for results of
  its instructions. `finish/2` numbers them as the engine does: inputs, captures, results.
  """

  alias ExBurn.{Cost, Instruction}

  @enforce_keys [:inputs]
  defstruct [
    :inputs,
    captures: [],
    captured: {0, %{}},
    instructions: [],
    values: 0,
    cost: 0,
    loops: {0, 0},
    types: %{}
  ]

  @typedoc "Element type and shape, e.g. `{:f32, [2, 3]}`."
  @type tensor_type :: {atom(), [non_neg_integer()]}

  @type ref :: {:input | :capture | :value, non_neg_integer()}

  @type t :: %__MODULE__{
          inputs: [tensor_type()],
          captures: [{key :: term(), tensor_type()}],
          captured: {non_neg_integer(), %{term() => [{key :: term(), ref()}]}},
          instructions: [map()],
          values: non_neg_integer(),
          cost: number() | :infinity,
          loops: {number(), number()},
          types: %{ref() => tensor_type()}
        }

  @typedoc "A finished program, in the form the engine reads."
  @type finished :: %{inputs: [map()], instructions: [map()], outputs: [non_neg_integer()]}

  @doc """
  An empty program that takes `inputs`.
  """
  @spec new([tensor_type()]) :: t()
  def new(inputs) do
    types = for {type, i} <- Enum.with_index(inputs), into: %{}, do: {{:input, i}, type}
    %__MODULE__{inputs: inputs, types: types}
  end

  @doc """
  Adds an instruction and answers the references of its results.
  """
  @spec emit(t(), Instruction.op(), [ref()], [tensor_type()]) :: {[ref()], t()}
  def emit(%__MODULE__{} = program, op, operands, outputs) do
    refs = Enum.with_index(outputs, fn _, i -> {:value, program.values + i} end)
    instruction = %{op: op, inputs: operands, outputs: outputs}
    types = Enum.map(operands, &Map.fetch!(program.types, &1))

    program = %{
      program
      | instructions: [instruction | program.instructions],
        values: program.values + length(outputs),
        types: refs |> Enum.zip(outputs) |> Enum.into(program.types)
    }

    {refs, count(program, Cost.of(op, types, outputs), Cost.fuses?(op, types, outputs))}
  end

  @doc """
  Nanoseconds that a run takes: an estimate from above. With `fusion?`, loops are fused.

  ## Examples

      iex> type = {:f32, [1000]}
      iex> {[x], program} = ExBurn.Program.emit(ExBurn.Program.new([type]), {:unary, :exp}, [{:input, 0}], [type])
      iex> {_, program} = ExBurn.Program.emit(program, {:unary, :exp}, [x], [type])
      iex> ExBurn.Program.cost(program, true) < ExBurn.Program.cost(program, false)
      true

  """
  @spec cost(t(), boolean()) :: number() | :infinity
  def cost(%__MODULE__{cost: :infinity}, _fusion?), do: :infinity
  def cost(%__MODULE__{cost: cost, loops: {sum, _}}, false), do: cost + sum
  def cost(%__MODULE__{cost: cost, loops: {sum, most}}, true), do: cost + Cost.fused(sum, most)

  # Nanoseconds that every instruction costs, whatever its size.
  @instruction 1_000

  # Costs of loops that may be fused are kept apart: their sum and the largest.
  defp count(%{cost: :infinity} = program, _cost, _fuses?), do: program
  defp count(program, :infinity, _fuses?), do: %{program | cost: :infinity}

  defp count(%{loops: {sum, most}} = program, cost, true),
    do: %{program | cost: program.cost + @instruction, loops: {sum + cost, max(most, cost)}}

  defp count(program, cost, false), do: %{program | cost: program.cost + cost + @instruction}

  @doc """
  The reference of the captured value named `key`, which is captured now if it was not before.
  """
  @spec capture(t(), term(), tensor_type()) :: {ref(), t()}
  def capture(%__MODULE__{captured: {count, captured}} = program, key, type) do
    brief = brief(key)
    alike = Map.get(captured, brief, [])

    case List.keyfind(alike, key, 0) do
      {_key, ref} ->
        {ref, program}

      nil ->
        ref = {:capture, count}

        {ref,
         %{
           program
           | captures: [{key, type} | program.captures],
             captured: {count + 1, Map.put(captured, brief, [{key, ref} | alike])},
             types: Map.put(program.types, ref, type)
         }}
    end
  end

  # What tells most keys apart: a map would look at all of a tensor's bytes.
  @looked_at 64

  defp brief(%Nx.Tensor{
         type: type,
         shape: shape,
         data: %{state: <<start::binary-size(@looked_at), _::bits>>}
       }),
       do: {type, shape, start}

  defp brief(key), do: key

  @doc """
  The type of a value.
  """
  @spec type(t(), ref()) :: tensor_type()
  def type(%__MODULE__{types: types}, ref), do: Map.fetch!(types, ref)

  @doc """
  Keys of the captured values, in the order of the inputs they become.
  """
  @spec capture_keys(t()) :: [term()]
  def capture_keys(%__MODULE__{captures: captures}),
    do: captures |> Enum.reverse() |> Enum.map(&elem(&1, 0))

  @doc """
  The positions, in order, of the inputs that the program reads or answers.

  ## Examples

      iex> type = {:f32, [2]}
      iex> {[exp], program} = ExBurn.Program.emit(ExBurn.Program.new([type, type]), {:unary, :exp}, [{:input, 1}], [type])
      iex> ExBurn.Program.used_inputs(program, [exp])
      [1]

  """
  @spec used_inputs(t(), [ref()]) :: [non_neg_integer()]
  def used_inputs(%__MODULE__{instructions: instructions}, outputs) do
    read = Enum.map(instructions, & &1.inputs)
    Enum.sort(for refs <- [outputs | read], {:input, i} <- refs, uniq: true, do: i)
  end

  @doc """
  The program with `outputs` as its results, in the form the engine reads.

  ## Examples

      iex> program = ExBurn.Program.new([{:f32, [2]}])
      iex> {[exp], program} = ExBurn.Program.emit(program, {:unary, :exp}, [{:input, 0}], [{:f32, [2]}])
      iex> ExBurn.Program.finish(program, [exp])
      %{
        inputs: [%{dtype: :f32, shape: [2]}],
        instructions: [%{op: {:unary, :exp}, inputs: [0], outputs: [%{dtype: :f32, shape: [2]}]}],
        outputs: [1]
      }

  """
  @spec finish(t(), [ref()]) :: finished()
  def finish(%__MODULE__{inputs: inputs} = program, outputs),
    do: finish(program, outputs, Enum.to_list(0..(length(inputs) - 1)//1))

  @doc """
  The program without its inputs at other positions than `used`, which is in order.

  ## Examples

      iex> program = ExBurn.Program.new([{:f32, [2]}, {:s32, []}])
      iex> ExBurn.Program.finish(program, [{:input, 1}], [1])
      %{inputs: [%{dtype: :s32, shape: []}], instructions: [], outputs: [0]}

  """
  @spec finish(t(), [ref()], [non_neg_integer()]) :: finished()
  def finish(%__MODULE__{} = program, outputs, used) do
    types = List.to_tuple(program.inputs)
    position = used |> Enum.with_index() |> Map.new()
    inputs = length(used)
    first_value = inputs + length(program.captures)

    id = fn
      {:input, i} -> Map.fetch!(position, i)
      {:capture, i} -> inputs + i
      {:value, i} -> first_value + i
    end

    captured = program.captures |> Enum.reverse() |> Enum.map(&elem(&1, 1))

    instructions =
      for instruction <- Enum.reverse(program.instructions) do
        %{
          op: instruction.op,
          inputs: Enum.map(instruction.inputs, id),
          outputs: Enum.map(instruction.outputs, &type_map/1)
        }
      end

    %{
      inputs: Enum.map(Enum.map(used, &elem(types, &1)) ++ captured, &type_map/1),
      instructions: instructions,
      outputs: Enum.map(outputs, id)
    }
  end

  @doc """
  Finishes programs of one instruction, given with their results: all of them take the captures of each as trailing inputs.
  Answers the finished programs and the keys of the captures.

  ## Examples

      iex> {x, reading} = ExBurn.Program.capture(ExBurn.Program.new([]), :x, {:f32, []})
      iex> {y, other} = ExBurn.Program.capture(ExBurn.Program.new([]), :y, {:f32, []})
      iex> {[first, second], keys} = ExBurn.Program.finish_together([{reading, [x]}, {other, [y]}])
      iex> {first.outputs, second.outputs, keys}
      {[0], [1], [:x, :y]}

  """
  @spec finish_together([{t(), [ref()]}]) :: {[finished()], [term()]}
  def finish_together(programs) do
    keys = programs |> Enum.flat_map(fn {program, _} -> capture_keys(program) end) |> Enum.uniq()

    types =
      for {program, _} <- programs, {key, type} <- program.captures, into: %{}, do: {key, type}

    position = keys |> Enum.with_index() |> Map.new()
    captures = keys |> Enum.map(&{&1, Map.fetch!(types, &1)}) |> Enum.reverse()
    {Enum.map(programs, &finish_with(&1, position, captures)), keys}
  end

  defp finish_with({program, results}, position, captures) do
    moved =
      program |> capture_keys() |> Enum.map(&Map.fetch!(position, &1)) |> List.to_tuple()

    move = fn
      {:capture, i} -> {:capture, elem(moved, i)}
      ref -> ref
    end

    instructions =
      Enum.map(program.instructions, fn i -> %{i | inputs: Enum.map(i.inputs, move)} end)

    finish(%{program | instructions: instructions, captures: captures}, Enum.map(results, move))
  end

  defp type_map({dtype, shape}), do: %{dtype: dtype, shape: shape}
end
