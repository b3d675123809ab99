defmodule Bench.Compiled.Transformer do
  @moduledoc false

  import Nx.Defn
  import Bench.Compiled.{Layers, Operands}

  @size 256
  @cache {1, 12, 256, 64}

  def rows do
    %{
      "encoder_fwd_8x128x256" => fn ->
        %{function: &encoder/2, operands: [normal({8, 128, @size}), layer(0)]}
      end,
      "gpt2_block_decode" => &decode/0
    }
  end

  # The weights of encoder layer `number`: of queries, keys, values and the output, and of the two dense layers.
  def layer(number) do
    square = {@size, @size}
    shapes = [square, square, square, square, {@size, 4 * @size}, {4 * @size, @size}]
    shapes |> weights(6 * number) |> List.to_tuple()
  end

  defn encoder(x, {q, k, v, o, up, down}) do
    x = layer_norm(x + Nx.dot(attention(x, q, k, v), o))
    layer_norm(x + Nx.dot(gelu(Nx.dot(x, up)), down))
  end

  defnp attention(x, q, k, v) do
    q = split_heads(Nx.dot(x, q), heads: 4)
    k = split_heads(Nx.dot(x, k), heads: 4)
    v = split_heads(Nx.dot(x, v), heads: 4)
    merge_heads(weigh(softmax(scores(q, k)), v))
  end

  # The caches of one call are those of the next.
  defp decode do
    caches = {weight(@cache, 20), weight(@cache, 21)}

    %{
      function: &block/4,
      operands: [normal({1, 1, 768}), caches, Nx.tensor(255), block_weights()],
      next: fn {y, caches}, [x, _, position, weights] ->
        {[x, ExBurn.donate(caches), position, weights], [y]}
      end
    }
  end

  defp block_weights do
    [qkv, qkv_bias, o, o_bias, up, up_bias, down, down_bias, bias1, bias2] =
      weights([
        {768, 2304},
        {2304},
        {768, 768},
        {768},
        {768, 3072},
        {3072},
        {3072, 768},
        {768},
        {768},
        {768}
      ])

    %{
      norm1: {positive({768}), bias1},
      qkv: {qkv, qkv_bias},
      out: {o, o_bias},
      norm2: {positive({768}), bias2},
      up: {up, up_bias},
      down: {down, down_bias}
    }
  end

  # One token through a block of GPT-2, small: its keys and values are put at `position` of the caches.
  defn block(x, {keys, values}, position, weights) do
    qkv = x |> norm(weights.norm1) |> dense(weights.qkv)
    q = split_heads(qkv[[.., .., 0..767]], heads: 12)
    k = split_heads(qkv[[.., .., 768..1535]], heads: 12)
    v = split_heads(qkv[[.., .., 1536..2303]], heads: 12)
    keys = Nx.put_slice(keys, [0, 0, position, 0], k)
    values = Nx.put_slice(values, [0, 0, position, 0], v)
    scores = scores(q, keys)
    seen = Nx.iota(Nx.shape(scores), axis: 3) <= position
    attention = softmax(Nx.select(seen, scores, -1.0e9))
    x = x + (attention |> weigh(values) |> merge_heads() |> dense(weights.out))
    hidden = x |> norm(weights.norm2) |> dense(weights.up) |> gelu_by_tanh()
    {x + dense(hidden, weights.down), {keys, values}}
  end

  defnp norm(x, {gain, bias}), do: layer_norm(x) * gain + bias

  defnp dense(x, {kernel, bias}), do: Nx.dot(x, kernel) + bias
end
