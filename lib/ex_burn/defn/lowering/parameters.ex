defmodule ExBurn.Defn.Lowering.Parameters do
  @moduledoc """
  The parameters of a scope, by their positions.

  Those of a loop or function have its context, so that one of the function around is not taken for one of them. `Nx` looks
  after that for what a loop computes, but not for what functions of gradients in it read. Elsewhere a context says nothing:
  blocks have that of their operands, and where `Nx.Defn.Graph` cuts behind a constant, there is none.
  """

  alias ExBurn.{Error, Program}
  alias Nx.Defn.Expr
  alias Nx.Tensor, as: T

  @enforce_keys [:refs, :context]
  defstruct [:refs, :context]

  @type t :: %__MODULE__{refs: %{non_neg_integer() => [Program.ref()]}, context: term()}

  @doc """
  No parameters.
  """
  @spec none() :: t()
  def none, do: new([], nil)

  @doc """
  Parameters that are the inputs of `program`.
  """
  @spec inputs(Program.t(), term()) :: t()
  def inputs(%Program{inputs: inputs}, context),
    do: inputs |> Enum.with_index(fn _type, i -> {:input, i} end) |> new(context)

  @doc """
  Parameters that are known by `refs`, in order. Any context fits `nil`.
  """
  @spec new([Program.ref()], term()) :: t()
  def new(refs, context) do
    refs = refs |> Enum.with_index() |> Map.new(fn {ref, i} -> {i, [ref]} end)
    %__MODULE__{refs: refs, context: context}
  end

  @doc """
  The references of a parameter, which must be one of the scope's own.
  """
  @spec fetch!(t(), Nx.Tensor.t()) :: [Program.ref()]
  def fetch!(parameters, %T{data: %Expr{args: [position], context: context}}) do
    own? = context == nil or parameters.context in [nil, context]

    case parameters.refs do
      %{^position => refs} when own? -> refs
      %{} -> outside!(op(parameters.context))
    end
  end

  defp op({op, _ref}), do: op
  defp op(_context), do: :block

  @doc """
  Raises that what is inside of `op` reads a value around it.
  """
  @spec outside!(atom()) :: no_return()
  def outside!(:while) do
    raise Error,
      op: :while,
      reason:
        "the loop, or the function of a custom_grad in it, reads a value of the function around the loop, which it does " <>
          "not see: make that value a part of the loop's state"
  end

  def outside!(:block) do
    raise Error,
      op: :block,
      reason:
        "the block's function reads a value of the function around it, which it does not see: " <>
          "give that value as an argument of the block"
  end

  def outside!(op) do
    raise Error,
      op: op,
      reason:
        "the function reads a value of the function around it, which it does not see: " <>
          "it can use its arguments, numbers and tensors that are no arguments of a defn"
  end
end
