defmodule ExBurn.Training.MetricTest do
  use ExBurn.Case, async: true

  alias ExBurn.{GradientCases, Model, Training}
  alias ExBurn.Training.Metric

  doctest Metric

  defp value(name, y, p), do: name |> Metric.apply(y, p) |> Nx.to_number()

  @y Nx.tensor([[1], [0], [1], [1], [0], [1], [0]])
  @p Nx.tensor([[0.8], [0.6], [0.4], [0.2], [0.8], [0.7], [0.2]])

  test "precision, recall and f1 are those of the counts" do
    # Two are right of four positive ones; four should be.
    assert_in_delta value(:precision, @y, @p), 0.5, 1.0e-6
    assert_in_delta value(:recall, @y, @p), 0.5, 1.0e-6
    y = Nx.tensor([[1], [1], [1], [0], [0], [1], [0]])
    # Three of four, three of four that should be; then without one of the positive ones.
    assert_in_delta value(:precision, y, @p), 0.75, 1.0e-6

    assert_in_delta value(
                      :f1,
                      y,
                      Nx.multiply(@p, Nx.tensor([[0], [1], [1], [1], [1], [1], [1]]))
                    ),
                    4 / 7,
                    1.0e-6

    for {name, axon} <- [precision: &Axon.Metrics.precision/2, recall: &Axon.Metrics.recall/2],
        y <- [@y, y],
        do: assert_in_delta(value(name, y, @p), Nx.to_number(axon.(y, @p)), 1.0e-6)
  end

  test "with nothing positive they are 0" do
    none = Nx.multiply(@p, 0)
    for name <- [:precision, :recall, :f1], do: assert(value(name, @y, none) == 0.0)
    assert value(:recall, Nx.multiply(@y, 0), @p) == 0.0
  end

  test "mae and mse are means over all elements" do
    [y, p] = [Nx.tensor([[1, 2], [3, 4]]), Nx.tensor([[1.0, 4.0], [0.0, 4.0]])]
    assert value(:mae, y, p) == 1.25
    assert value(:mse, y, p) == 3.25
  end

  test "top_5_accuracy looks for the class among the five largest" do
    p =
      Nx.tensor([
        [7.0, 6.0, 5.0, 4.0, 3.0, 2.0],
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        [0, 0, 0, 0, 0, 0]
      ])

    assert value(:top_5_accuracy, Nx.tensor([5, 1, 4]), p) |> Float.round(6) ==
             Float.round(2 / 3, 6)

    assert value(:top_5_accuracy, Nx.tensor([[4], [0], [5]]), p) |> Float.round(6) ==
             Float.round(1 / 3, 6)

    {p, _} = Nx.Random.uniform(Nx.Random.key(3), shape: {40, 9})
    {y, _} = Nx.Random.randint(Nx.Random.key(4), 0, 9, shape: {40})
    one_hot = y |> Nx.new_axis(1) |> Nx.equal(Nx.iota({1, 9}))
    order = p |> Nx.negate() |> Nx.argsort(axis: 1) |> Nx.to_list()

    hits =
      Enum.zip_with(order, Nx.to_list(y), fn places, class -> class in Enum.take(places, 5) end)

    want = Enum.count(hits, & &1) / 40
    for y <- [y, one_hot], do: assert_in_delta(value(:top_5_accuracy, y, p), want, 1.0e-6)
  end

  test "accuracy of one probability for each row" do
    assert value(:accuracy, Nx.tensor([1, 0, 0, 1]), Nx.tensor([0.9, 0.2, 0.7, 0.6])) == 0.75
  end

  test "accuracy compares classes of one axis" do
    for name <- [:accuracy, :top_5_accuracy], shape <- [{4, 5}, {2, 3}, {4, 3, 1}] do
      message = ~r/^metric: #{inspect(name)} compares classes .*predictions \{4, 3\}$/

      assert_raise Error, message, fn ->
        value(name, Nx.broadcast(0, shape), Nx.iota({4, 3}, type: :f32))
      end
    end
  end

  test "shapes must agree" do
    for name <- [:mae, :mse, :precision, :recall, :f1] do
      assert_raise Error, ~r/^metric: #{inspect(name)} compares tensors of one shape/, fn ->
        value(name, Nx.tensor([1, 0]), Nx.tensor([[0.1], [0.2]]))
      end
    end
  end

  test "training and evaluation report built-in metrics and one's own" do
    axon = "x" |> Axon.input(shape: {nil, 3}) |> Axon.dense(1, activation: :sigmoid)
    largest = {:largest, fn _y, p -> Nx.reduce_max(p) end}
    metrics = [:accuracy, :precision, :recall, :f1, :mae, :mse, largest]
    model = Model.compile(axon, loss: :binary_cross_entropy, metrics: metrics, learning_rate: 0.0)
    x = GradientCases.random({8, 3}, 1)
    y = Nx.tensor([[1], [0], [1], [1], [0], [1], [0], [0]])
    opts = [epochs: 1, batch_size: 8, verbose: false, validation_data: {x, y}]
    {model, [entry]} = Training.fit_with_progress(model, {x, y}, opts)
    p = ExBurn.predict!(model, x)

    for metric <- metrics, name = Metric.name(metric) do
      want = value(metric, y, p)
      assert_in_delta entry[name], want, 1.0e-6
      assert_in_delta entry[:"val_#{name}"], want, 1.0e-6
      assert_in_delta Training.evaluate(model, {x, y})[name], want, 1.0e-6
    end
  end

  # Fourier transforms and complex numbers have no gradient in training, and the metrics need none.
  test "one's own computes in what has no gradient" do
    far = {:far, fn y, p -> y |> Nx.subtract(p) |> Nx.abs() |> Nx.mean() end}
    loudest = {:loudest, fn _y, p -> p |> Nx.fft() |> Nx.abs() |> Nx.reduce_max() end}
    x = GradientCases.random({6, 3}, 1)
    y = Nx.complex(GradientCases.random({6, 4}, 2), GradientCases.random({6, 4}, 3))
    axon = "x" |> Axon.input(shape: {nil, 3}) |> Axon.dense(4, activation: :tanh)
    loss = fn y, p -> p |> Nx.subtract(Nx.real(y)) |> Nx.pow(2) |> Nx.mean() end
    model = Model.compile(axon, loss: loss, learning_rate: 0.0, metrics: [far, loudest])
    p = model |> ExBurn.predict!(x) |> Nx.backend_copy(Nx.BinaryBackend)

    for gradients <- [:autodiff, :symbolic] do
      opts = [epochs: 1, batch_size: 6, verbose: false, gradients: gradients]
      {_model, [entry]} = Training.fit_with_progress(model, {x, y}, opts)

      for {name, fun} <- [far, loudest],
          do: assert_in_delta(entry[name], Nx.to_number(fun.(y, p)), 1.0e-5)
    end
  end

  # Far from 0 the logarithm of a probability is known from the logits only.
  test "one's own that is a loss of Axon finds the logits" do
    metric = {:entropy, &Axon.Losses.categorical_cross_entropy(&1, &2, reduction: :mean)}
    kernel = Nx.tensor([[200.0, -200.0]])
    axon = "x" |> Axon.input(shape: {nil, 1}) |> Axon.dense(2, use_bias: false, name: "d")
    axon = Axon.activation(axon, :softmax)
    opts = [loss: :cross_entropy, learning_rate: 0.0, metrics: [metric]]
    model = Model.compile({axon, %{"d" => %{"kernel" => kernel}}}, opts)
    data = {Nx.tensor([[1.0]]), Nx.tensor([[0, 1]])}
    {_model, [entry]} = Training.fit_with_progress(model, data, epochs: 1, verbose: false)
    assert_in_delta entry.entropy, 400.0, 1.0e-3
  end
end
