defmodule ExBurn.Training.OptimizerTest do
  use ExBurn.Case, async: true

  import ExBurn.Oracle

  alias ExBurn.{GradientCases, Model, Training}
  alias ExBurn.Training.{Loss, Optimizer}

  doctest Optimizer

  @steps 100

  defp axon do
    "x" |> Axon.input(shape: {nil, 3}) |> Axon.dense(4, activation: :tanh) |> Axon.dense(2)
  end

  defp data, do: {GradientCases.random({6, 3}, 1), GradientCases.random({6, 2}, 2)}

  # One epoch is one step, since the batch has all rows.
  defp ours(optimizer, learning_rate) do
    axon()
    |> Model.compile(loss: :mse, optimizer: optimizer, learning_rate: learning_rate, seed: 1)
    |> Training.fit(data(), epochs: @steps, batch_size: 6, shuffle: false, verbose: false)
  end

  defp polaris({init, update}) do
    model = Model.compile(axon(), loss: :mse, seed: 1)
    parameters = parameters(model)
    {x, y} = data()
    {_init, predict} = Axon.build(axon())
    loss = &Loss.apply(:mse, y, predict.(Axon.ModelState.new(&1), x))

    step = fn parameters, state ->
      gradients = Nx.Defn.grad(parameters, loss)
      {updates, state} = update.(gradients, state, parameters)
      {Polaris.Updates.apply_updates(parameters, updates), state}
    end

    step = Nx.Defn.jit(step, compiler: Nx.Defn.Evaluator)

    1..@steps
    |> Enum.reduce({parameters, init.(parameters)}, fn _, {p, s} -> step.(p, s) end)
    |> elem(0)
  end

  for {name, optimizer, reference, rate} <- [
        {"adam", {:adam, []}, :adam, 0.05},
        {"adam with options", {:adam, b1: 0.8, b2: 0.99, eps: 1.0e-6}, :adam, 0.02},
        {"sgd", {:sgd, []}, :sgd, 0.1},
        {"sgd with momentum", {:sgd, momentum: 0.9}, :sgd, 0.02},
        {"sgd with Nesterov momentum", {:sgd, momentum: 0.9, nesterov: true}, :sgd, 0.02}
      ] do
    test "#{name} moves parameters as Polaris does, over #{@steps} steps" do
      optimizer = unquote(Macro.escape(optimizer))
      opts = [learning_rate: unquote(rate)] ++ elem(optimizer, 1)
      want = polaris(apply(Polaris.Optimizers, unquote(reference), [opts]))
      got = optimizer |> ours(unquote(rate)) |> parameters()
      assert_relative(got, want, 1.0e-4)
    end
  end

  test "refuses unknown optimizers and options" do
    for optimizer <- [:adagrad, {:adam, beta: 1}, {:sgd, [:momentum]}, "adam", nil, {1, 2}] do
      assert_raise Error, ~r/^compile: optimizer: is .*, expected :adam, /, fn ->
        Optimizer.fetch!(optimizer)
      end
    end

    assert_raise Error, "compile: nesterov: is 1, expected true or false", fn ->
      Optimizer.fetch!({:sgd, nesterov: 1})
    end

    assert_raise Error, "compile: b1: is -1, expected a number of at least 0", fn ->
      Optimizer.fetch!({:adam, b1: -1})
    end
  end
end
