defmodule ExBurn.Training.ModelKindsTest do
  use ExUnit.Case, async: true

  import ExBurn.Oracle
  import Nx.Defn

  alias ExBurn.{GradientCases, Model, Training}

  defp weighted_sum(weights, prediction),
    do: prediction |> Nx.multiply(weights) |> Nx.sum()

  defp policy(axon, types) do
    Axon.MixedPrecision.apply_policy(axon, Axon.MixedPrecision.create_policy(types))
  end

  defp assert_gradients(axon, x, tolerance, paths \\ [:autodiff, :symbolic]) do
    model = Model.compile(axon, loss: &weighted_sum/2, seed: 5)
    prediction = prediction(model, x)
    y = prediction |> Nx.shape() |> GradientCases.random(11) |> Nx.as_type(prediction.type)
    want = gradients(model, {x, y}, &weighted_sum/2)

    for path <- paths do
      got = Training.compute_gradients(model, {x, y}, gradients: path)
      assert_relative(got, want, tolerance)
    end

    model
  end

  # Inputs are f32; the first layer widens them.
  # Axon computes RMSNorm in f32, and its policies pass over blocks, of which a bidirectional layer is made.
  for %{name: name} <- GradientCases.all(), name not in [:rms_norm, :bidirectional] do
    test "of #{name} in f64" do
      %{model: axon, x: x} = Enum.find(GradientCases.all(), &(&1.name == unquote(name)))
      axon = policy(axon, params: {:f, 64}, compute: {:f, 64}, output: {:f, 64})
      model = assert_gradients(axon, x, 1.0e-10)
      assert for({_path, t} <- model.parameters, t.type != {:f, 64}, do: t.type) == []
    end
  end

  # Eight bits of mantissa, eleven with f16, and sums in another order.
  for {compute, tolerance} <- [{{:bf, 16}, 2.0e-2}, {{:f, 16}, 3.0e-3}],
      name <- [:dense, :conv_2d, :layer_norm, :gelu] do
    test "of #{name} that computes in #{inspect(compute)}" do
      %{model: axon, x: x} = Enum.find(GradientCases.all(), &(&1.name == unquote(name)))
      axon = policy(axon, params: {:f, 32}, compute: unquote(compute), output: {:f, 32})
      assert_gradients(axon, x, unquote(tolerance))
    end
  end

  test "a policy keeps parameters wide, and training makes the loss smaller" do
    axon =
      "x"
      |> Axon.input(shape: {nil, 3})
      |> Axon.dense(8, activation: :tanh)
      |> Axon.dense(1)
      |> policy(params: {:f, 32}, compute: {:bf, 16}, output: {:f, 32})

    x = GradientCases.random({64, 3}, 1)
    y = Nx.sum(x, axes: [1], keep_axes: true)
    model = Model.compile(axon, loss: :mse, optimizer: :adam, learning_rate: 0.02)
    opts = [epochs: 20, batch_size: 16, verbose: false]
    {model, history} = Training.fit_with_progress(model, {x, y}, opts)
    assert for({_path, t} <- model.parameters, do: t.type) |> Enum.uniq() == [{:f, 32}]
    assert List.last(history).loss < 0.2 * hd(history).loss
  end

  test "of a layer that two inputs share" do
    block = Axon.block(&Axon.dense(&1, 4, activation: :tanh))
    inputs = for name <- ["a", "b"], do: Axon.input(name, shape: {nil, 3})
    axon = inputs |> Enum.map(block) |> then(fn [a, b] -> Axon.multiply(a, b) end)
    x = %{"a" => GradientCases.random({2, 3}, 1), "b" => GradientCases.random({2, 3}, 2)}
    model = assert_gradients(axon, x, 1.0e-5)
    assert length(model.parameters) == 2
  end

  # Nx derives another gradient from the loop than from the single steps, which are what ours is compared with.
  for layer <- [:lstm, :gru] do
    test "of #{layer} as a loop, by rules, is that of the single steps" do
      build = fn unroll ->
        x = Axon.input("x", shape: {nil, 5, 3})
        zeros = Axon.nx(x, &Nx.broadcast(0.0, {Nx.axis_size(&1, 0), 4}), name: "zeros")
        state = if unquote(layer) == :lstm, do: {zeros, zeros}, else: {zeros}
        {steps, _} = apply(Axon, unquote(layer), [x, state, 4, [unroll: unroll, name: "r"]])
        steps |> Axon.flatten() |> Model.compile(loss: &weighted_sum/2, seed: 5)
      end

      data = {GradientCases.random({2, 5, 3}, 7), GradientCases.random({2, 20}, 8)}
      want = gradients(build.(:static), data, &weighted_sum/2)
      assert_relative(Training.compute_gradients(build.(:dynamic), data), want, 1.0e-5)
    end
  end

  for {type, tolerance} <- [f32: 1.0e-5, f64: 1.0e-10] do
    test "of a loop of one's own in #{type} is that of its iterations" do
      types = Nx.Type.normalize!(unquote(type))
      x = "x" |> Axon.input(shape: {nil, 3}) |> Axon.dense(3, name: "d")

      [model, unrolled] =
        for fun <- [&loop/3, &iterations/3] do
          [x, Axon.param("kernel", {3, 3})]
          |> then(&Axon.layer(fun, &1, name: "r"))
          |> policy(params: types, compute: types, output: types)
          |> Model.compile(loss: &weighted_sum/2, seed: 5)
        end

      weights = {4, 3} |> GradientCases.random(8) |> Nx.as_type(types)
      data = {GradientCases.random({4, 3}, 7), weights}
      want = gradients(unrolled, data, &weighted_sum/2)
      assert_relative(Training.compute_gradients(model, data), want, unquote(tolerance))
    end
  end

  defnp loop(x, kernel, _opts) do
    {x, _, _} =
      while {x, kernel, i = 7}, i > 1 do
        {Nx.tanh(Nx.dot(x, kernel)), kernel, i - 2}
      end

    x
  end

  # For 7, 5 and 3.
  defp iterations(x, kernel, _opts),
    do: Enum.reduce(1..3, x, fn _, x -> Nx.tanh(Nx.dot(x, kernel)) end)

  # All outputs, so that every step counts.
  test "of conv_lstm as a loop, by Nx" do
    axon =
      "x"
      |> Axon.input(shape: {nil, 3, 2, 4, 4})
      |> Axon.conv_lstm(2, kernel_size: 3, padding: :same, unroll: :dynamic)
      |> elem(0)
      |> Axon.flatten()

    assert_gradients(axon, GradientCases.random({2, 3, 2, 4, 4}, 7), 1.0e-5, [:symbolic])
  end

  test "of conv_lstm as a loop, by rules, is that of the single steps" do
    build = fn unroll ->
      "x"
      |> Axon.input(shape: {nil, 3, 2, 4, 4})
      |> Axon.conv_lstm(2, kernel_size: 3, padding: :same, unroll: unroll, name: "r")
      |> elem(0)
      |> Axon.flatten()
      |> Model.compile(loss: &weighted_sum/2, seed: 5)
    end

    weights = GradientCases.random({2, 3 * 2 * 4 * 4}, 8)
    data = {GradientCases.random({2, 3, 2, 4, 4}, 7), weights}
    want = gradients(build.(:static), data, &weighted_sum/2)
    got = Training.compute_gradients(build.(:dynamic), data, gradients: :autodiff)
    assert_relative(got, want, 1.0e-5)
  end
end
