defmodule ExBurn.Benchmark do
  @moduledoc """
  A matrix multiplication, to see what a device does.
  """

  alias ExBurn.{Device, Options, Tensor}

  @doc """
  Times a matrix multiplication: milliseconds of the best run and billions of operations a second.

  ## Options

    * `:size` - length of the sides of the square `f32` matrices. Defaults to 512
    * `:runs` - how often to multiply. Defaults to 5

  ## Examples

      iex> result = ExBurn.benchmark(size: 64)
      iex> {result.device, result.time_ms > 0, result.gflops > 0}
      {:cpu, true, true}

  """
  @spec run(keyword()) :: %{time_ms: float(), gflops: float(), device: Device.t()}
  def run(opts) do
    opts = Options.validate!(:benchmark, opts, size: 512, runs: 5)

    for name <- [:size, :runs], do: Options.positive!(:benchmark, name, opts[name])

    size = opts[:size]
    {:ok, matrix} = {size, size} |> Tensor.rand(:f32) |> Tensor.to_nx()
    times = for _run <- 1..opts[:runs], do: elem(:timer.tc(fn -> Nx.dot(matrix, matrix) end), 0)
    microseconds = max(Enum.min(times), 1)

    %{
      time_ms: microseconds / 1000,
      gflops: 2 * size ** 3 / (microseconds * 1000),
      device: Device.default()
    }
  end
end
