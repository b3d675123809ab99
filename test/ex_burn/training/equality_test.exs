defmodule ExBurn.Training.EqualityTest do
  # The same training by other hands: Axon's loop, with everything on Nx.BinaryBackend.
  use ExUnit.Case, async: true

  import ExBurn.Oracle

  alias ExBurn.{GradientCases, Model, Training}

  @steps 50

  defp cases do
    [
      mlp: {
        "x" |> Axon.input(shape: {nil, 4}) |> Axon.dense(6, activation: :relu) |> Axon.dense(3),
        GradientCases.random({8, 4}, 1),
        {:cross_entropy, Nx.tensor([0, 1, 2, 1, 0, 2, 2, 1]),
         &Axon.Losses.categorical_cross_entropy(&1, &2,
           from_logits: true,
           sparse: true,
           reduction: :mean
         )}
      },
      cnn: {
        "x"
        |> Axon.input(shape: {nil, 5, 5, 1})
        |> Axon.conv(2, kernel_size: 3, activation: :tanh)
        |> Axon.max_pool(kernel_size: 2)
        |> Axon.flatten()
        |> Axon.dense(1),
        GradientCases.random({4, 5, 5, 1}, 2),
        {:mse, GradientCases.random({4, 1}, 3),
         &Axon.Losses.mean_squared_error(&1, &2, reduction: :mean)}
      },
      norms: {
        "x"
        |> Axon.input(shape: {nil, 3})
        |> Axon.dense(4)
        |> Axon.layer_norm()
        |> Axon.dense(4, activation: :gelu)
        |> Axon.batch_norm()
        |> Axon.dense(1, activation: :sigmoid),
        GradientCases.random({6, 3}, 4),
        {:binary_cross_entropy, Nx.tensor([[0], [1], [1], [0], [1], [0]]),
         &Axon.Losses.binary_cross_entropy(&1, &2, reduction: :mean)}
      },
      lstm: {
        "x"
        |> Axon.input(shape: {nil, 3, 2})
        |> Axon.lstm(3, unroll: :static)
        |> elem(0)
        |> Axon.flatten()
        |> Axon.dense(1),
        GradientCases.random({4, 3, 2}, 5),
        {:huber, GradientCases.random({4, 1}, 6), &Axon.Losses.huber(&1, &2, reduction: :mean)}
      },
      attention: {
        "x" |> Axon.input(shape: {nil, 4, 3}) |> attention() |> Axon.flatten() |> Axon.dense(1),
        GradientCases.random({4, 4, 3}, 7),
        {:huber, GradientCases.random({4, 1}, 8), &Axon.Losses.huber(&1, &2, reduction: :mean)}
      }
    ]
  end

  defp attention(x) do
    # A bias of the keys would have a gradient of nothing but rounding, of which Adam makes steps.
    [q, k, v] =
      for name <- ~w(query key value), do: Axon.dense(x, 3, name: name, use_bias: name != "key")

    scores = Axon.layer(fn q, k, _ -> Nx.dot(q, [2], [0], k, [2], [0]) end, [q, k])
    weights = Axon.softmax(scores)
    mixed = Axon.layer(fn w, v, _ -> Nx.dot(w, [2], [0], v, [1], [0]) end, [weights, v])
    Axon.add(x, mixed)
  end

  defp by_axon(model, {x, y}, loss, optimizer) do
    Nx.with_default_backend(Nx.BinaryBackend, fn ->
      state = ExBurn.Model.State.to_axon(on_binary(model.parameters), on_binary(model.states))

      model.axon
      |> Axon.Loop.trainer(loss, optimizer, log: 0)
      |> Axon.Loop.run(Stream.repeatedly(fn -> {x, y} end), state,
        epochs: 1,
        iterations: @steps,
        compiler: Nx.Defn.Evaluator
      )
      |> Map.fetch!(:data)
    end)
  end

  defp on_binary(leaves),
    do: for({path, t} <- leaves, do: {path, Nx.backend_copy(t, Nx.BinaryBackend)})

  for name <- [:mlp, :cnn, :norms, :lstm, :attention],
      {optimizer, rate} <- [adam: 0.02, sgd: 0.05] do
    test "#{name} with #{optimizer} is trained alike by both kinds of gradients and by Axon.Loop" do
      {axon, x, {loss, y, reference}} = cases()[unquote(name)]
      optimizer = unquote(optimizer)

      model =
        Model.compile(axon,
          loss: loss,
          optimizer: optimizer,
          learning_rate: unquote(rate),
          seed: 7
        )

      polaris = apply(Polaris.Optimizers, optimizer, [[learning_rate: unquote(rate)]])
      want = by_axon(model, {x, y}, reference, polaris)

      for gradients <- [:autodiff, :symbolic] do
        opts = [
          epochs: @steps,
          batch_size: 8,
          shuffle: false,
          verbose: false,
          gradients: gradients
        ]

        got = model |> Training.fit({x, y}, opts) |> parameters()

        for {layer, tensors} <- got,
            do:
              assert_relative(tensors, Map.take(want[layer], Map.keys(tensors)), 1.0e-4, [layer])
      end
    end
  end
end
