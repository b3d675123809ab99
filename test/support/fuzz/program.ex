defmodule ExBurn.Fuzz.Program do
  @moduledoc """
  A numerical function as data.

  Values have numbers. `inputs` are `{number, operand, :parameter | :captured}`, steps are `{numbers, op, args}`: the
  values that a step makes, what makes them, and its arguments, among which `{:ref, number}` stands for a value.
  `ExBurn.Fuzz.Interpreter` says what each `op` means; most are functions of Nx.

  `ExBurn.Fuzz.Fun` is a function among the arguments of a step, as of a loop.
  """

  alias ExBurn.Fuzz.Fun

  defstruct inputs: [], steps: [], outputs: []

  @type step :: {[pos_integer()], atom(), [term()]}
  @type t :: %__MODULE__{
          inputs: [{pos_integer(), ExBurn.Property.Operand.t(), :parameter | :captured}],
          steps: [step()],
          outputs: [pos_integer()]
        }

  @doc """
  The arguments with each reference replaced by what `fun` answers for its number.
  """
  def map_refs({:ref, number}, fun), do: fun.(number)
  def map_refs(list, fun) when is_list(list), do: Enum.map(list, &map_refs(&1, fun))
  def map_refs(other, _fun), do: other

  @doc """
  The numbers of the values that arguments refer to, in functions too.
  """
  def refs({:ref, number}), do: [number]
  def refs(list) when is_list(list), do: Enum.flat_map(list, &refs/1)

  def refs(%Fun{} = fun) do
    inside = Enum.flat_map(fun.steps, fn {_, _, args} -> refs(args) end) ++ fun.results
    made = fun.params ++ Enum.flat_map(fun.steps, &elem(&1, 0))
    inside -- Enum.filter(inside, &(&1 in made))
  end

  def refs(_other), do: []

  @doc """
  The program without the steps and inputs that no output needs.
  """
  def prune(%__MODULE__{} = program) do
    {steps, needed} =
      Enum.reduce(Enum.reverse(program.steps), {[], MapSet.new(program.outputs)}, &keep/2)

    inputs = Enum.filter(program.inputs, fn {number, _, _} -> number in needed end)
    %{program | steps: steps, inputs: inputs}
  end

  defp keep({outs, _op, args} = step, {steps, needed}) do
    if Enum.any?(outs, &(&1 in needed)),
      do: {[step | steps], args |> refs() |> MapSet.new() |> MapSet.union(needed)},
      else: {steps, needed}
  end

  @doc """
  How many steps there are, in functions too.
  """
  def size(%{steps: steps}) do
    Enum.sum_by(steps, fn {_, _, args} ->
      1 + (args |> List.flatten() |> Enum.filter(&is_struct(&1, Fun)) |> Enum.sum_by(&size/1))
    end)
  end
end
