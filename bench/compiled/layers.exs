defmodule Bench.Compiled.Layers do
  @moduledoc false

  import Nx.Defn

  defn softmax(x) do
    exp = Nx.exp(x - Nx.reduce_max(x, axes: [-1], keep_axes: true))
    exp / Nx.sum(exp, axes: [-1], keep_axes: true)
  end

  defn log_softmax(x) do
    shifted = x - stop_grad(Nx.reduce_max(x, axes: [-1], keep_axes: true))
    shifted - Nx.log(Nx.sum(Nx.exp(shifted), axes: [-1], keep_axes: true))
  end

  defn layer_norm(x) do
    mean = Nx.mean(x, axes: [-1], keep_axes: true)
    variance = Nx.variance(x, axes: [-1], keep_axes: true)
    (x - mean) / Nx.sqrt(variance + 1.0e-5)
  end

  defn gelu(x), do: 0.5 * x * (1 + Nx.erf(x / Nx.sqrt(2.0)))

  defn gelu_by_tanh(x) do
    0.5 * x * (1 + Nx.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
  end

  # {batch, steps, size} as {batch, heads, steps, size / heads}.
  defn split_heads(x, opts \\ []) do
    {batch, steps, size} = Nx.shape(x)
    heads = opts[:heads]

    x
    |> Nx.reshape({batch, steps, heads, div(size, heads)})
    |> Nx.transpose(axes: [0, 2, 1, 3])
  end

  defn merge_heads(x) do
    {batch, heads, steps, size} = Nx.shape(x)
    x |> Nx.transpose(axes: [0, 2, 1, 3]) |> Nx.reshape({batch, steps, heads * size})
  end

  defn scores(q, k), do: Nx.dot(q, [3], [0, 1], k, [3], [0, 1]) / 8.0

  defn weigh(weights, v), do: Nx.dot(weights, [3], [0, 1], v, [2], [0, 1])
end
