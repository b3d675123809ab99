defmodule Bench.Training.Tasks do
  @moduledoc false

  # What is trained: the same data and parameters as those of `tasks.py` on the other sides.

  alias Bench.Measure
  alias Bench.Training.Models

  @mlp [{784, 256}, {256}, {256, 128}, {128}, {128, 10}, {10}]
  @cnn [{32, 1, 3, 3}, {32}, {64, 32, 3, 3}, {64}, {1600, 128}, {128}, {128, 10}, {10}]
  @dense [{256, 256}, {256}]
  @encoder @dense ++
             [{256, 256}] ++
             @dense ++ @dense ++ [{256, 1024}, {1024}, {1024, 256}] ++ List.duplicate({256}, 5)
  @lstm [{128, 512}, {128, 512}, {512}, {128, 10}, {10}]

  # Shapes of the parameters, rows of a batch, shape of a row, batches.
  @tasks %{
    "mlp_step_b32" => {@mlp, 32, [784], 128},
    "mlp_step_b128" => {@mlp, 128, [784], 32},
    "cnn_step_b32" => {@cnn, 32, [1, 28, 28], 16},
    "encoder_step_8x128x256" => {@encoder, 8, [128, 256], 8},
    "lstm_step" => {@lstm, 32, [64, 128], 8},
    "mlp_epoch_60000" => {@mlp, 32, [784], 1875}
  }

  # The model with its parameters, the data, and how it is cut.
  def fetch!(name) do
    {shapes, rows, shape, batches} = @tasks[name] || raise "there is no row #{name}"
    x = inputs(rows * batches, shape)

    %{
      model: name |> kind() |> Models.build(weights(shapes), [rows | shape]),
      leaves: &(name |> kind() |> Models.leaves(&1)),
      x: x,
      y: targets(kind(name), x),
      batch_size: rows,
      batches: batches
    }
  end

  defp kind(name), do: name |> String.split("_") |> hd()

  defp targets("encoder", x), do: read("b", {:f, 32}, Nx.shape(x), 0)

  defp targets(_kind, x),
    do: Nx.remainder(read("places", {:s, 64}, {Nx.axis_size(x, 0)}, 0), 10)

  # Normal numbers; where the file has not so many, its first 5000 rows over and over.
  defp inputs(rows, shape) do
    there = min(rows, 5000)
    x = read("a", {:f, 32}, List.to_tuple([there | shape]), 0)

    if there == rows,
      do: x,
      else: Nx.concatenate(List.duplicate(x, div(rows, there)))
  end

  defp weights(shapes) do
    for {shape, number} <- Enum.with_index(shapes),
        do: Nx.multiply(read("b", {:f, 32}, shape, 1000 * number), 0.05)
  end

  defp read(name, type, shape, start) do
    :ex_burn
    |> Application.fetch_env!(:bench_folder)
    |> Measure.operand(name, type, shape, start)
  end
end
