defmodule ExBurn.Training.Checkpoint.Checksum do
  @moduledoc """
  SHA-256 of what a file of tensors holds: by it a byte that has changed since is noticed.
  """

  alias ExBurn.{Error, NIF}

  @doc """
  The checksum of tensors by name, whatever their order, and of the texts beside them, in hexadecimal digits.

  ## Examples

      iex> ref = ExBurn.Backend.ref(Nx.tensor([1.0, 2.0], backend: ExBurn.Backend))
      iex> sum = ExBurn.Training.Checkpoint.Checksum.of([{"a", ref}], %{"format" => "1"})
      iex> String.length(sum)
      64
      iex> sum == ExBurn.Training.Checkpoint.Checksum.of([{"b", ref}], %{"format" => "1"})
      false

  """
  @spec of([{String.t(), reference()}], %{String.t() => String.t()}) :: String.t()
  def of(tensors, texts) do
    texts
    |> Enum.sort()
    |> Enum.reduce(:crypto.hash_init(:sha256), fn {name, text}, sum -> add(sum, [name, text]) end)
    |> then(&Enum.reduce(Enum.sort(tensors), &1, fn tensor, sum -> add_tensor(sum, tensor) end))
    |> :crypto.hash_final()
    |> Base.encode16(case: :lower)
  end

  # One tensor's bytes at a time are copied out of native memory.
  defp add_tensor(sum, {name, ref}) do
    {type, shape} = Error.unwrap!(NIF.tensor_type(ref))
    bytes = Error.unwrap!(NIF.tensor_to_binary_dirty(ref, Enum.product(shape)))
    add(sum, [name, "#{type}", inspect(shape, limit: :infinity), bytes])
  end

  # With its length in front, so that no part can pass into the next.
  defp add(sum, parts) do
    Enum.reduce(parts, sum, fn part, sum ->
      sum |> :crypto.hash_update(<<byte_size(part)::64>>) |> :crypto.hash_update(part)
    end)
  end
end
