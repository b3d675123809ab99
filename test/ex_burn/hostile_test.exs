defmodule ExBurn.HostileTest do
  # Random calls at the boundary: each answers or raises ArgumentError, and the VM lives on.
  use ExUnit.Case, async: true

  alias ExBurn.{Instruction, NIF}

  @calls 20_000
  @numbers [0, 1, 2, 3, -1, 7, 100, 2 ** 31, 2 ** 62]

  test "random instructions on random tensors" do
    :rand.seed(:exsss, {1, 2, 3})

    tensors =
      for list <- [[1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]], [1, 2, 3], [5], [[[1.0]]]],
          do: tensor(list)

    outcomes = Enum.frequencies_by(1..@calls, fn _ -> outcome(tensors) end)

    # Calls that succeed and calls that are refused, or the test looks at one side only.
    assert outcomes[:ok] > 100
    assert outcomes[:error] > 100
    assert outcomes[:ok] + outcomes[:error] + Map.get(outcomes, :bad_argument, 0) == @calls
  end

  defp tensor(list), do: ExBurn.Backend.ref(Nx.tensor(list, backend: Nx.BinaryBackend))

  defp outcome(tensors) do
    inputs = Enum.take_random(tensors, Enum.random(0..3))

    outputs =
      for _ <- 1..Enum.random([0, 1, 1, 1, 2])//1,
          do: {Enum.random(~w(f32 f64 s32 u8 u64 bf16 c64 u4)a), small()}

    case NIF.instruction_run(operation(), inputs, outputs) do
      {:ok, results} when is_list(results) -> :ok
      {:error, {kind, %{message: _}}} when is_atom(kind) -> :error
    end
  rescue
    ArgumentError -> :bad_argument
  end

  defp operation do
    Enum.random([
      {:unary, Enum.random(Instruction.unary())},
      {:binary, Enum.random(Instruction.binary())},
      Enum.random([
        :cast,
        :bitcast,
        :select,
        :clip,
        :reshape,
        :put_slice,
        :eye,
        :nonsense,
        17,
        "text"
      ]),
      {Enum.random([:broadcast, :transpose, :reverse, :gather, :indexed_add, :indexed_put]),
       %{axes: small()}},
      {Enum.random([:concatenate, :stack, :take, :take_along_axis, :iota]), %{axis: number()}},
      {:pad, %{config: [{number(), number(), number()}]}},
      {:slice, %{starts: small(), lengths: small(), strides: small()}},
      {:dynamic_slice, %{lengths: small(), strides: small()}},
      {:dot,
       %{lhs_contract: small(), lhs_batch: small(), rhs_contract: small(), rhs_batch: small()}},
      {:conv, convolution()},
      {:reduce,
       %{
         fold: Enum.random([:sum, :max, :all]),
         axes: Enum.random([nil, small()]),
         keep_axes: true
       }},
      {:arg_reduce,
       %{extremum: :max, axis: Enum.random([nil, 0, 5]), keep_axis: true, tie_break: :low}},
      {:cumulative, %{fold: :sum, axis: number(), reverse: true}},
      {Enum.random([:sort, :argsort]), %{axis: number(), direction: :asc}},
      {:top_k, %{k: number()}},
      {:window_reduce, %{fold: :max, windows: windows()}},
      {:window_scatter, %{extremum: :max, windows: windows()}},
      {:custom_reduce, %{axes: Enum.random([nil, small()]), keep_axes: true, body: body()}},
      {:custom_window_reduce, %{windows: windows(), body: body()}},
      {:all_close, %{equal_nan: true, rtol: 0.1, atol: 1.0e300}},
      {:cond, %{predicates: [body()], branches: [body(), body()]}},
      {:constant, %{bytes: [0, 0, 0, 0]}}
    ])
  end

  defp body do
    scalar = %{dtype: Enum.random([:f32, :s32]), shape: Enum.random([[], [], [2]])}

    instruction = %{
      op: {:binary, Enum.random(Instruction.binary())},
      inputs: [Enum.random(0..2), Enum.random(0..1)],
      outputs: [scalar]
    }

    %{inputs: [scalar, scalar], instructions: [instruction], outputs: [Enum.random(0..3)]}
  end

  defp convolution do
    %{
      strides: small(),
      padding: [{number(), number()}],
      input_dilation: small(),
      kernel_dilation: small(),
      feature_group_size: Enum.random(0..2),
      batch_group_size: Enum.random(0..2),
      input_permutation: small(),
      kernel_permutation: small(),
      output_permutation: small()
    }
  end

  defp windows,
    do: %{
      dimensions: small(),
      padding: [{number(), number()}],
      strides: small(),
      dilations: small()
    }

  defp number, do: Enum.random(@numbers)
  defp small, do: for(_ <- 1..Enum.random(1..3), do: Enum.random(0..3))
end
