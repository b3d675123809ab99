defmodule Bench.Compiled.Operands do
  @moduledoc false

  alias Bench.Measure

  # The same elements as those of `measure.py` on the other sides.

  def normal(shape, name \\ "a"), do: read(name, {:f, 32}, shape, 0)

  def positive(shape), do: read("positive", {:f, 32}, shape, 0)

  # Where the tensor is one of several, its number says where in the file it starts, so that no two are equal.
  def weight(shape, number, name \\ "b", scale \\ 0.05) do
    Nx.multiply(read(name, {:f, 32}, shape, 1000 * number), scale)
  end

  def weights(shapes, first \\ 0, name \\ "b", scale \\ 0.05) do
    for {shape, number} <- Enum.with_index(shapes, first), do: weight(shape, number, name, scale)
  end

  def labels(count), do: Nx.remainder(read("places", {:s, 64}, {count}, 0), 10)

  defp read(name, type, shape, start) do
    :ex_burn
    |> Application.fetch_env!(:bench_folder)
    |> Measure.operand(name, type, shape, start)
  end
end
