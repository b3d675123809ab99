defmodule ExBurn.Error do
  @moduledoc """
  The one exception of ExBurn.

  Fields:

    * `:op` - (atom) the operation or function that failed, as Nx or this library names it
    * `:reason` - (atom or string) what went wrong. Atoms come from the engine: `:unsupported` (the device lacks
      the operation for this type), `:invalid`, `:mismatch`, `:out_of_bounds`, `:deallocated`, `:file`,
      `:non_finite`, `:panic`. Strings are meant for people
    * `:details` - (map) the values involved, such as shapes and types

  ## Examples

      iex> Exception.message(ExBurn.Error.exception(op: :matmul, reason: "shape mismatch", details: %{lhs: [3, 4], rhs: [5, 6]}))
      "matmul: shape mismatch (lhs: [3, 4], rhs: [5, 6])"

  """

  @type t :: %__MODULE__{op: atom(), reason: atom() | String.t(), details: map()}

  defexception [:op, :reason, details: %{}]

  @native_ops ~w(constant iota eye abs acos acosh add all all_close any argmax argmin argsort as_type asin asinh atan
                 atan2 atanh bitcast bitwise_and bitwise_not bitwise_or bitwise_xor broadcast cbrt ceil cholesky clip
                 concatenate cond conjugate conv cos cosh count_leading_zeros cumulative_max cumulative_min
                 cumulative_product cumulative_sum custom_grad determinant divide dot dynamic_slice eigh equal erf
                 erf_inv erfc exp expm1 fft fft2 file fit floor from_binary gather greater greater_equal hook ifft ifft2
                 imag indexed_add indexed_put irfft is_infinity is_nan left_shift less less_equal log log1p logical_and
                 logical_not logical_or logical_xor lu max min multiply negate not_equal pad panic_with phase
                 population_count pow product program put_slice qr quotient real reduce reduce_max reduce_min remainder
                 reshape reverse rfft right_shift round rsqrt runtime_call select sigmoid sign sin sinh slice solve sort
                 sqrt stack stop_grad subtract sum svd take take_along_axis tan tanh tensor_type to_binary to_number
                 top_k transpose triangular_solve while window_max window_min window_product window_reduce
                 window_scatter_max window_scatter_min window_sum)a
             |> Map.new(&{Atom.to_string(&1), &1})

  @impl true
  def message(%__MODULE__{op: op, reason: reason, details: details}) do
    {text, details} = Map.pop(details, :message)
    "#{op}: #{text(text, op) || reason}#{details_text(details, text)}"
  end

  # The engine's sentences start with the operation's name already.
  defp text(nil, _op), do: nil
  defp text(text, op), do: text |> String.replace_prefix("#{op}: ", "") |> String.replace_prefix("#{op} ", "")

  defp details_text(_details, text) when is_binary(text), do: ""
  defp details_text(details, _text) when details == %{}, do: ""

  defp details_text(details, _text) do
    " (" <> Enum.map_join(details, ", ", fn {key, value} -> "#{key}: #{inspect(value)}" end) <> ")"
  end

  @doc """
  The exception for an error that the engine answered: `{kind, %{op: name, message: text, …}}`.
  """
  @spec from_native({atom(), map()}) :: t()
  def from_native({kind, %{op: op} = details}) do
    %__MODULE__{op: Map.get(@native_ops, op, :native), reason: kind, details: Map.delete(details, :op)}
  end

  @doc """
  The result of a native call, raising its error.

  ## Examples

      iex> ExBurn.Error.unwrap!({:ok, 1})
      1

  """
  @spec unwrap!({:ok, result} | {:error, {atom(), map()}}) :: result when result: term()
  def unwrap!({:ok, result}), do: result
  def unwrap!({:error, error}), do: raise(from_native(error))
end
