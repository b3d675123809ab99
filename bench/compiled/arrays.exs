defmodule Bench.Compiled.Arrays do
  @moduledoc false

  import Nx.Defn
  import Bench.Compiled.Operands
  alias Bench.Compiled.Layers

  def rows do
    %{
      "matmul_512" => fn -> matmul(512) end,
      "matmul_1024" => fn -> matmul(1024) end,
      "matmul_2048" => fn -> matmul(2048) end,
      "chain_4M" => fn -> two(&chain/2, 4_000_000) end,
      "gelu_4M" => fn -> %{function: &Layers.gelu/1, operands: [normal({4_000_000})]} end,
      "chain12_1M" => fn -> two(&chain12/2, 1_000_000) end,
      "softmax_1024" => fn -> square(&Layers.softmax/1) end,
      "layernorm_1024" => fn -> square(&Layers.layer_norm/1) end,
      "sum_4M" => fn -> %{function: &Nx.sum/1, operands: [normal({4_000_000})]} end,
      "conv3x3_64_56_b8" => fn ->
        operands = [normal({8, 64, 56, 56}), normal({64, 64, 3, 3}, "b")]
        %{function: &conv/2, operands: operands}
      end,
      "call_overhead_1" => fn -> two(&Nx.add/2, 4) end,
      "call_overhead_8" => fn -> two(&chain/2, 4) end
    }
  end

  defp matmul(n) do
    %{function: &Nx.dot/2, operands: [normal({n, n}), normal({n, n}, "b")]}
  end

  defp two(function, count) do
    %{function: function, operands: [normal({count}), normal({count}, "b")]}
  end

  defp square(function), do: %{function: function, operands: [normal({1024, 1024})]}

  defn chain(x, y), do: Nx.tanh(x * y + 1.0) * 0.5 + Nx.exp(-x * x)

  defn chain12(x, y) do
    t = Nx.tanh(x * y + 1.0)
    u = Nx.exp(-x * x)
    v = Nx.sqrt(u + t * t)
    Nx.max(v - y, t) * 0.5
  end

  defn conv(images, kernel), do: Nx.conv(images, kernel, padding: :same)
end
