defmodule Bench.Training.Models do
  @moduledoc false

  # Axon models whose parameters are given, as a list in the order of `tasks.py`.

  @adam [optimizer: :adam, learning_rate: 1.0e-3]
  @dense ["kernel", "bias"]
  @norm ["gamma", "beta"]
  @gates ["i", "f", "g", "o"]

  def build(kind, weights, shape) do
    input = Axon.input("x", shape: shape |> put_first(nil) |> List.to_tuple())
    loss = if kind == "encoder", do: :mse, else: :cross_entropy

    kind
    |> model(input)
    |> ExBurn.compile([loss: loss] ++ @adam)
    |> ExBurn.update_params(parameters(kind, weights))
  end

  defp put_first([_rows | shape], rows), do: [rows | shape]

  defp model("mlp", x) do
    x
    |> Axon.dense(256, activation: :relu, name: "d1")
    |> Axon.dense(128, activation: :relu, name: "d2")
    |> Axon.dense(10, name: "d3")
  end

  defp model("cnn", x) do
    x
    |> convolution(32, "c1")
    |> convolution(64, "c2")
    |> Axon.flatten()
    |> Axon.dense(128, activation: :relu, name: "d1")
    |> Axon.dense(10, name: "d2")
  end

  defp model("encoder", x) do
    [q, k, v] =
      for name <- ["q", "k", "v"], do: Axon.dense(x, 256, name: name, use_bias: name != "k")

    attention = Axon.layer(&attention/4, [q, k, v])
    x = x |> Axon.add(Axon.dense(attention, 256, name: "o")) |> norm("n1")
    hidden = Axon.dense(x, 1024, activation: :gelu, name: "up")
    x |> Axon.add(Axon.dense(hidden, 256, name: "down")) |> norm("n2")
  end

  # The steps one by one, as autodiff needs it. Nx derives another gradient from the loop of `unroll: :dynamic`, on
  # `Nx.BinaryBackend` too, which that of the single steps and PyTorch's contradict.
  defp model("lstm", x) do
    zeros = for name <- ["c", "h"], do: x |> Axon.nx(&start/1) |> named(name)
    {steps, _state} = Axon.lstm(x, List.to_tuple(zeros), 128, unroll: :static, name: "lstm")
    steps |> Axon.nx(& &1[[.., -1]]) |> Axon.dense(10, name: "d")
  end

  defp named(layer, name), do: Axon.nx(layer, & &1, name: name)
  defp start(x), do: Nx.broadcast(0.0, {Nx.axis_size(x, 0), 128})

  defp convolution(x, channels, name) do
    x
    |> Axon.conv(channels, kernel_size: 3, channels: :first, activation: :relu, name: name)
    |> Axon.max_pool(kernel_size: 2, channels: :first)
  end

  defp norm(x, name), do: Axon.layer_norm(x, epsilon: 1.0e-5, name: name)

  defp attention(q, k, v, _opts) do
    [q, k, v] = Enum.map([q, k, v], &heads/1)
    scores = q |> Nx.dot([3], [0, 1], k, [3], [0, 1]) |> Nx.divide(8.0)
    attention = scores |> Axon.Activations.softmax() |> Nx.dot([3], [0, 1], v, [2], [0, 1])
    attention |> Nx.transpose(axes: [0, 2, 1, 3]) |> merge()
  end

  defp heads(x) do
    {batch, steps, size} = Nx.shape(x)
    x |> Nx.reshape({batch, steps, 4, div(size, 4)}) |> Nx.transpose(axes: [0, 2, 1, 3])
  end

  defp merge(x) do
    {batch, steps, heads, size} = Nx.shape(x)
    Nx.reshape(x, {batch, steps, heads * size})
  end

  defp parameters("lstm", [input, hidden, bias, kernel, last]) do
    %{
      "lstm" => %{
        "input_kernel" => cut(input, "wi"),
        "hidden_kernel" => cut(hidden, "wh"),
        "bias" => cut(bias, "b")
      },
      "d" => %{"kernel" => kernel, "bias" => last}
    }
  end

  defp parameters(kind, weights) do
    kind
    |> paths()
    |> Enum.zip(weights)
    |> Enum.group_by(fn {{layer, _name}, _} -> layer end, fn {{_, name}, w} -> {name, w} end)
    |> Map.new(fn {layer, parameters} -> {layer, Map.new(parameters)} end)
  end

  # The gates lie side by side on the other sides.
  defp cut(tensor, prefix) do
    axis = Nx.rank(tensor) - 1

    for {gate, at} <- Enum.with_index(@gates), into: %{} do
      {prefix <> gate, Nx.slice_along_axis(tensor, 128 * at, 128, axis: axis)}
    end
  end

  # Parameters, or gradients of them, as a list in that order.
  def leaves("lstm", %{"lstm" => lstm, "d" => d}) do
    join = fn gates, prefix ->
      parts = for gate <- @gates, do: Map.fetch!(gates, prefix <> gate)
      Nx.concatenate(parts, axis: -1)
    end

    [
      join.(lstm["input_kernel"], "wi"),
      join.(lstm["hidden_kernel"], "wh"),
      join.(lstm["bias"], "b"),
      d["kernel"],
      d["bias"]
    ]
  end

  def leaves(kind, nested), do: for({layer, name} <- paths(kind), do: nested[layer][name])

  defp paths("mlp"), do: all(["d1", "d2", "d3"], @dense)
  defp paths("cnn"), do: all(["c1", "c2", "d1", "d2"], @dense)

  defp paths("encoder"),
    do:
      (all(["q", "k", "v", "o", "up", "down"], @dense) -- [{"k", "bias"}]) ++
        all(["n1", "n2"], @norm)

  defp all(layers, names), do: for(layer <- layers, name <- names, do: {layer, name})
end
