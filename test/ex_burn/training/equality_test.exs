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
      },
      both_ways: {
        "x"
        |> Axon.input(shape: {nil, 3, 2})
        |> Axon.bidirectional(
          &Axon.gru(&1, 3, unroll: :static),
          &Nx.concatenate([&1, &2], axis: -1)
        )
        |> Axon.nx(&elem(&1, 0))
        |> Axon.flatten()
        |> Axon.dense(1),
        GradientCases.random({4, 3, 2}, 9),
        squares(GradientCases.random({4, 1}, 10))
      },
      images_in_time: {
        "x"
        |> Axon.input(shape: {nil, 2, 1, 4, 4})
        |> Axon.conv_lstm(2, kernel_size: 3, padding: :same, unroll: :static)
        |> elem(0)
        |> Axon.flatten()
        |> Axon.dense(1),
        GradientCases.random({2, 2, 1, 4, 4}, 11),
        squares(GradientCases.random({2, 1}, 12))
      },
      separable: {
        "x"
        |> Axon.input(shape: {nil, 5, 5, 2})
        |> Axon.separable_conv2d(2, kernel_size: 3, padding: :same)
        |> Axon.tanh()
        |> Axon.conv_transpose(2, kernel_size: 2, strides: 2)
        |> Axon.avg_pool(kernel_size: 2)
        |> Axon.flatten()
        |> Axon.dense(1),
        GradientCases.random({3, 5, 5, 2}, 13),
        squares(GradientCases.random({3, 1}, 14))
      },
      words: {
        "x"
        |> Axon.input(shape: {nil, 4})
        |> Axon.embedding(6, 3)
        |> Axon.layer_norm()
        |> Axon.global_avg_pool()
        |> Axon.dense(2),
        Nx.remainder(Nx.iota({5, 4}), 6),
        squares(GradientCases.random({5, 2}, 15))
      },
      shared: {
        shared(),
        %{"a" => GradientCases.random({6, 3}, 16), "b" => GradientCases.random({6, 3}, 17)},
        both(%{one: GradientCases.random({6, 2}, 18), other: GradientCases.random({6, 1}, 19)})
      }
    ]
  end

  defp squares(y), do: {:mse, y, &Axon.Losses.mean_squared_error(&1, &2, reduction: :mean)}

  # Two inputs through the same layers, and two outputs.
  defp shared do
    [a, b] = for name <- ["a", "b"], do: Axon.input(name, shape: {nil, 3})
    block = Axon.block(&(&1 |> Axon.dense(4, activation: :tanh) |> Axon.dense(2)))
    [one, two] = [block.(a), block.(b)]
    Axon.container(%{one: Axon.multiply(one, two), other: one |> Axon.add(two) |> Axon.dense(1)})
  end

  defp both(y) do
    square = fn name, y, p -> Nx.mean(Nx.pow(Nx.subtract(y[name], p[name]), 2)) end
    loss = fn y, p -> Nx.add(square.(:one, y, p), Nx.multiply(square.(:other, y, p), 0.5)) end
    {loss, y, loss}
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

  @twice for name <- [:mlp, :cnn, :norms, :lstm, :attention],
             o <- [adam: 0.02, sgd: 0.05],
             do: {name, o}
  @once for(name <- [:both_ways, :images_in_time, :separable, :words], do: {name, {:adam, 0.01}}) ++
          [shared: {:sgd, 0.05}]

  for {name, {optimizer, rate}} <- @twice ++ @once do
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
