defmodule ExBurn.Training.ConvergenceTest do
  # Small problems that are learnt from every seed.
  use ExUnit.Case, async: true

  alias ExBurn.{Model, Training}

  @seeds 1..10

  defp learnt(axon, data, opts, compile) do
    for seed <- @seeds do
      model = Model.compile(axon, [metrics: [:accuracy], seed: seed] ++ compile)
      model = Training.fit(model, data, [verbose: false, seed: seed] ++ opts)
      Training.evaluate(model, data).accuracy
    end
  end

  test "XOR" do
    axon =
      "x"
      |> Axon.input(shape: {nil, 2})
      |> Axon.dense(8, activation: :tanh)
      |> Axon.dense(1, activation: :sigmoid)

    data =
      {Nx.tensor([[0, 0], [0, 1], [1, 0], [1, 1]], type: :f32), Nx.tensor([[0], [1], [1], [0]])}

    compile = [loss: :binary_cross_entropy, optimizer: :adam, learning_rate: 0.05]

    for gradients <- [:autodiff, :symbolic] do
      opts = [epochs: 300, batch_size: 4, gradients: gradients]
      assert learnt(axon, data, opts, compile) == List.duplicate(1.0, 10)
    end
  end

  test "two spirals" do
    axon =
      "x"
      |> Axon.input(shape: {nil, 2})
      |> Axon.dense(32, activation: :tanh)
      |> Axon.dense(32, activation: :tanh)
      |> Axon.dense(2)

    t = Nx.add(0.5, Nx.multiply(Nx.iota({100}), 0.06))
    arm = &Nx.stack([Nx.multiply(&1, Nx.cos(t)), Nx.multiply(&1, Nx.sin(t))], axis: 1)
    x = Nx.concatenate([arm.(t), arm.(Nx.negate(t))])
    y = Nx.concatenate([Nx.broadcast(0, {100}), Nx.broadcast(1, {100})])
    compile = [loss: :cross_entropy, optimizer: :adamw, learning_rate: 0.01]
    schedule = [lr_schedule: {:cosine, 0.01, 0.001}]

    for gradients <- [:autodiff, :symbolic] do
      opts = [epochs: 120, batch_size: 20, gradients: gradients] ++ schedule
      accuracies = learnt(axon, {x, y}, opts, compile)
      assert Enum.all?(accuracies, &(&1 >= 0.99)), inspect({gradients, accuracies})
    end
  end

  test "a sequence, said again after its end" do
    axon =
      "x"
      |> Axon.input(shape: {nil, 6, 4})
      |> Axon.lstm(24, unroll: :static)
      |> elem(0)
      |> Axon.dense(4)

    # Three symbols of 1..3 and three blanks; wanted are three blanks and the symbols.
    symbols = for a <- 1..3, b <- 1..3, c <- 1..3, do: [a, b, c]
    blank = Nx.broadcast(0, {27, 3})
    said = Nx.concatenate([Nx.tensor(symbols), blank], axis: 1)
    x = said |> Nx.new_axis(-1) |> Nx.equal(Nx.iota({1, 1, 4})) |> Nx.as_type(:f32)
    y = Nx.concatenate([blank, Nx.tensor(symbols)], axis: 1)
    compile = [loss: :cross_entropy, optimizer: :adam, learning_rate: 0.03]

    for gradients <- [:autodiff, :symbolic] do
      opts = [epochs: 120, batch_size: 27, clip_norm: 1.0, gradients: gradients]
      accuracies = learnt(axon, {x, y}, opts, compile)
      assert Enum.all?(accuracies, &(&1 >= 0.99)), inspect({gradients, accuracies})
    end
  end
end
