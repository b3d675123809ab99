defmodule ExBurn.Device.SmokeTest do
  @moduledoc """
  A small computation whose answer is known.
  """

  alias ExBurn.{Device, Error, NIF}

  @doc """
  Multiplies two matrices on the device, sums the product and compares both with the known answer.

  ## Examples

      iex> ExBurn.Device.SmokeTest.run(:cpu)
      :ok

  """
  @spec run(Device.t()) :: :ok | {:error, Error.t()}
  def run(device) do
    {kind, index} = Device.parts(device)
    f32 = fn numbers -> for n <- numbers, into: <<>>, do: <<n::float-32-native>> end
    # [[1, 2], [3, 4]] times itself is [[7, 10], [15, 22]].
    square = {:f32, [2, 2]}

    dot = {:dot, %{lhs_contract: [1], lhs_batch: [], rhs_contract: [0], rhs_batch: []}}
    sum = {:reduce, %{fold: :sum, axes: nil, keep_axes: false}}

    with {:ok, matrix} <- NIF.tensor_from_binary(square, f32.([1, 2, 3, 4])),
         {:ok, matrix} <- NIF.tensor_to_device(matrix, kind, index),
         {:ok, [product]} <- NIF.instruction_run_on(dot, [matrix, matrix], [square], kind, index),
         {:ok, [total]} <- NIF.instruction_run_on(sum, [product], [{:f32, []}], kind, index),
         {:ok, product} <- NIF.tensor_to_binary_dirty(product, 4),
         {:ok, total} <- NIF.tensor_to_binary_dirty(total, 1) do
      if product == f32.([7, 10, 15, 22]) and total == f32.([54]),
        do: :ok,
        else: {:error, %Error{op: :smoke_test, reason: "the device computes wrong results"}}
    else
      {:error, error} -> {:error, Error.from_native(error)}
    end
  end
end
