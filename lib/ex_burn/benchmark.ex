defmodule ExBurn.Benchmark do
  @moduledoc false

  alias ExBurn.{Device, Options, Tensor}

  @doc """
  See `ExBurn.benchmark/1`.
  """
  @spec run(keyword()) :: %{time_ms: float(), gflops: float(), device: Device.t()}
  def run(opts) do
    opts = Options.validate!(:benchmark, opts, size: 512, runs: 5)

    for name <- [:size, :runs] do
      valid? = is_integer(opts[name]) and opts[name] > 0
      Options.check!(valid?, :benchmark, name, opts[name], "a positive integer")
    end

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
