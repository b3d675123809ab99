defmodule Bench.Compiled.Training do
  @moduledoc false

  import Nx.Defn
  import Bench.Compiled.{Layers, Operands}

  @dense [{784, 256}, {256}, {256, 128}, {128}, {128, 10}, {10}]
  @convolutional [
    {32, 1, 3, 3},
    {32},
    {64, 32, 3, 3},
    {64},
    {1600, 128},
    {128},
    {128, 10},
    {10}
  ]

  def rows do
    %{
      "mlp_infer_b1" => fn -> infer(1) end,
      "mlp_infer_b128" => fn -> infer(128) end,
      "mlp_defn_step_b32" => fn -> step(&mlp_step/3, @dense, {32, 784}) end,
      "cnn_defn_step_b32" => fn -> step(&cnn_step/3, @convolutional, {32, 1, 28, 28}) end
    }
  end

  defp infer(batch) do
    %{function: &mlp/2, operands: [parameters(@dense), normal({batch, 784})]}
  end

  # A state is the parameters, Adam's two moments of each, and the number of the step. The state that a step answers is
  # where the next begins, and its memory is the next's.
  defp step(function, shapes, input) do
    first = shapes |> weights(0, "a", 0.001) |> List.to_tuple()
    second = shapes |> weights(0, "positive", 1.0e-8) |> List.to_tuple()
    state = {parameters(shapes), first, second, Nx.tensor(10.0)}

    %{
      function: function,
      operands: [state, normal(input), labels(32)],
      next: fn {loss, state}, [_, x, y] -> {[ExBurn.donate(state), x, y], [loss]} end
    }
  end

  defp parameters(shapes), do: shapes |> weights() |> List.to_tuple()

  defn mlp({w1, b1, w2, b2, w3, b3}, x) do
    x |> relu_dense(w1, b1) |> relu_dense(w2, b2) |> Nx.dot(w3) |> Nx.add(b3)
  end

  defn cnn({c1, d1, c2, d2, w1, b1, w2, b2}, x) do
    x = x |> conv(c1, d1) |> conv(c2, d2)
    x |> Nx.reshape({Nx.axis_size(x, 0), 1600}) |> relu_dense(w1, b1) |> Nx.dot(w2) |> Nx.add(b2)
  end

  defnp relu_dense(x, kernel, bias), do: Nx.max(Nx.dot(x, kernel) + bias, 0.0)

  defnp conv(x, kernel, bias) do
    relu = Nx.max(Nx.conv(x, kernel) + Nx.reshape(bias, {1, :auto, 1, 1}), 0.0)
    Nx.window_max(relu, {1, 1, 2, 2}, strides: [1, 1, 2, 2])
  end

  defn mlp_step({parameters, first, second, t}, x, y) do
    {loss, gradient} = value_and_grad(parameters, &loss(mlp(&1, x), y))
    {loss, adam(parameters, gradient, first, second, t)}
  end

  defn cnn_step({parameters, first, second, t}, x, y) do
    {loss, gradient} = value_and_grad(parameters, &loss(cnn(&1, x), y))
    {loss, adam(parameters, gradient, first, second, t)}
  end

  defnp loss(logits, labels) do
    picked = Nx.take_along_axis(log_softmax(logits), Nx.new_axis(labels, 1), axis: 1)
    -Nx.mean(picked)
  end

  deftransformp adam(parameters, gradient, first, second, t) do
    [parameters, gradient, first, second] =
      for tuple <- [parameters, gradient, first, second], do: Tuple.to_list(tuple)

    updated = Enum.zip_with([parameters, gradient, first, second], &update(&1, t))
    [parameters, first, second] = for at <- 0..2, do: take(updated, at)
    {parameters, first, second, Nx.add(t, 1)}
  end

  defp update([parameter, gradient, first, second], t),
    do: adam_update(parameter, gradient, first, second, t)

  defp take(updated, at), do: List.to_tuple(Enum.map(updated, &elem(&1, at)))

  defnp adam_update(parameter, gradient, first, second, t) do
    first = 0.9 * first + 0.1 * gradient
    second = 0.999 * second + 0.001 * gradient * gradient
    unbiased_first = first / (1 - Nx.pow(0.9, t))
    unbiased_second = second / (1 - Nx.pow(0.999, t))
    {parameter - 1.0e-3 * unbiased_first / (Nx.sqrt(unbiased_second) + 1.0e-8), first, second}
  end
end
