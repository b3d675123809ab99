defmodule ExBurn.Error do
  @moduledoc """
  The one exception of ExBurn.

  Fields:

    * `:op` - (atom) the operation or function that failed, as Nx or this library names it
    * `:reason` - (atom or string) what went wrong. Atoms come from the engine: `:unsupported` (the device lacks
      the operation for this type), `:invalid`, `:argument` and `:arithmetic` (elements without an answer),
      `:mismatch`, `:deallocated`, `:file`, `:non_finite`, `:panic`. Strings are meant for people
    * `:details` - (map) the values involved, such as shapes and types

  ## Examples

      iex> Exception.message(ExBurn.Error.exception(op: :matmul, reason: "shape mismatch", details: %{lhs: [3, 4], rhs: [5, 6]}))
      "matmul: shape mismatch (lhs: [3, 4], rhs: [5, 6])"

  """

  @type t :: %__MODULE__{op: atom(), reason: atom() | String.t(), details: map()}

  defexception [:op, :reason, details: %{}]

  @impl true
  def message(%__MODULE__{op: op, details: %{message: text}}) do
    # The engine's sentences start with the operation's name already.
    if String.starts_with?(text, Atom.to_string(op)), do: text, else: "#{op}: #{text}"
  end

  def message(%__MODULE__{op: op, reason: reason, details: details}) when details == %{},
    do: "#{op}: #{reason}"

  # A map has no order of its own that a message could rely on.
  def message(%__MODULE__{op: op, reason: reason, details: details}) do
    fields =
      details
      |> Enum.sort()
      |> Enum.map_join(", ", fn {key, value} -> "#{key}: #{inspect(value)}" end)

    "#{op}: #{reason} (#{fields})"
  end

  @doc """
  The exception for an error that the engine answered: `{kind, %{op: name, message: text, …}}`.

  Operation names come from the engine's own instruction set, never from a file, so their atoms are few.
  """
  @spec from_native({atom(), map()}) :: t()
  def from_native({kind, %{op: op} = details}) do
    %__MODULE__{op: String.to_atom(op), reason: kind, details: Map.delete(details, :op)}
  end

  @doc """
  The result of a native call, raising its error.

  What `Nx.BinaryBackend` raises for the elements of tensors is raised here too, with Nx's own sentence: an `ArgumentError`
  for an index outside of its axis or a shift by a negative number, an `ArithmeticError` for a divisor of 0.

  ## Examples

      iex> ExBurn.Error.unwrap!({:ok, 1})
      1

  """
  @spec unwrap!({:ok, result} | {:error, {atom(), map()}}) :: result when result: term()
  def unwrap!({:ok, result}), do: result

  def unwrap!({:error, {:out_of_bounds, %{index: index, axis: axis, shape: shape}}}) do
    shape = shape |> List.to_tuple() |> inspect()
    raise ArgumentError, "index #{index} is out of bounds for axis #{axis} in shape #{shape}"
  end

  def unwrap!({:error, {:argument, %{reason: reason}}}), do: raise(ArgumentError, reason)
  def unwrap!({:error, {:arithmetic, %{reason: reason}}}), do: raise(ArithmeticError, reason)
  def unwrap!({:error, error}), do: raise(from_native(error))

  @doc """
  As `unwrap!/1`, for a program that the caller of `op` knows nothing of: elements without an answer raise an
  `ExBurn.Error` of `op` too.

  ## Examples

      iex> bounds = %{op: "take", message: "take: index 7 is out of bounds", index: "7", axis: 0, shape: [3]}
      iex> ExBurn.Error.unwrap!({:error, {:out_of_bounds, bounds}}, :predict)
      ** (ExBurn.Error) predict: take: index 7 is out of bounds

  """
  @spec unwrap!({:ok, result} | {:error, {atom(), map()}}, atom()) :: result when result: term()
  def unwrap!({:ok, result}, _op), do: result

  def unwrap!({:error, {kind, %{message: message}}}, op)
      when kind in [:out_of_bounds, :argument, :arithmetic],
      do: raise(__MODULE__, op: op, reason: message)

  def unwrap!({:error, error}, _op), do: raise(from_native(error))
end
