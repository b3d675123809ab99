defmodule ExBurn.Training.LossTest do
  use ExBurn.Case, async: true

  import ExBurn.Oracle

  alias ExBurn.{GradientCases, Model, Training}
  alias ExBurn.Training.Loss

  doctest Loss
  doctest Loss.Check
  doctest ExBurn.Training.Weights

  @logits Nx.tensor([[1.0, -2.0, 0.5], [3.0, 0.0, -1.0], [-0.5, 0.25, 0.75]])
  @classes Nx.tensor([2, 0, 1])
  @one_hot Nx.tensor([[0, 0, 1], [1, 0, 0], [0, 1, 0]])

  # Mean negative log-likelihood of the classes, in double precision.
  defp expected_cross_entropy do
    [Nx.to_list(@logits), Nx.to_flat_list(@classes)]
    |> Enum.zip_with(fn [row, class] ->
      :math.log(Enum.sum(Enum.map(row, &:math.exp/1))) - Enum.at(row, class)
    end)
    |> then(&(Enum.sum(&1) / 3))
  end

  defp value(loss, y, p), do: loss |> Loss.apply(y, p) |> Nx.to_number()

  describe "cross_entropy" do
    test "is the mean negative log-likelihood of class numbers and of one-hot targets" do
      for y <- [@classes, Nx.new_axis(@classes, -1), @one_hot, Nx.as_type(@one_hot, :f32)],
          do: assert_in_delta(value(:cross_entropy, y, @logits), expected_cross_entropy(), 1.0e-6)
    end

    test "stays finite for logits that overflow the exponential" do
      assert value(:cross_entropy, Nx.tensor([1]), Nx.tensor([[1000.0, -1000.0]])) == 2000.0
    end

    test "of positions is the mean over all of them" do
      logits = Nx.stack([@logits, @logits])
      y = Nx.stack([@classes, @classes])
      assert_in_delta value(:cross_entropy, y, logits), expected_cross_entropy(), 1.0e-6
    end

    test "refuses other shapes" do
      assert_raise Error, ~r/have the shape \{2\}, expected \{3, 3\} or \{3\} or \{3, 1\}/, fn ->
        Loss.apply(:cross_entropy, Nx.tensor([0, 1]), @logits)
      end
    end

    test "refuses labels that are floats" do
      assert_raise Error, ~r/must be integers, got f32/, fn ->
        Loss.apply(:cross_entropy, Nx.tensor([0.0, 1.0, 2.0]), @logits)
      end
    end

    test "refuses a single class" do
      assert_raise Error, ~r/needs at least 2 classes.*binary_cross_entropy/, fn ->
        Loss.apply(:cross_entropy, Nx.tensor([0]), Nx.tensor([[1.0]]))
      end
    end
  end

  describe "binary_cross_entropy" do
    test "is the mean negative log-likelihood" do
      y = Nx.tensor([[1], [0]])
      expected = -(:math.log(0.8) + :math.log(0.7)) / 2
      assert_in_delta value(:binary_cross_entropy, y, Nx.tensor([[0.8], [0.3]])), expected, 1.0e-6
    end

    test "is clamped where a probability is 0 or 1" do
      assert_in_delta value(:binary_cross_entropy, Nx.tensor([[1.0]]), Nx.tensor([[0.0]])),
                      -:math.log(1.0e-7),
                      1.0e-4
    end
  end

  test "mse is the mean of squares, and needs equal shapes" do
    assert value(:mse, Nx.tensor([[1], [2]]), Nx.tensor([[3.0], [5.0]])) == 6.5

    assert_raise Error, ~r/have the shape \{2\}, expected \{2, 1\}/, fn ->
      Loss.apply(:mse, Nx.tensor([1.0, 2.0]), Nx.tensor([[3.0], [5.0]]))
    end
  end

  test "mae is the mean distance, huber is a square near and a line far, hinge wants a margin of 1" do
    y = Nx.tensor([[1.0, -1.0], [1.0, -1.0]])
    p = Nx.tensor([[1.5, 2.0], [-2.0, -1.0]])
    assert_in_delta value(:mae, y, p), (0.5 + 3.0 + 3.0 + 0.0) / 4, 1.0e-6
    assert_in_delta value(:huber, y, p), (0.125 + 2.5 + 2.5 + 0.0) / 4, 1.0e-6
    assert_in_delta value(:hinge, y, p), (0.0 + 3.0 + 3.0 + 0.0) / 4, 1.0e-6
  end

  test "kl_div is the sum of y log(y / p) for each row" do
    y = Nx.tensor([[0.5, 0.5], [0.25, 0.75]])
    p = Nx.tensor([[0.25, 0.75], [0.5, 0.5]])
    first = 0.5 * :math.log(2) + 0.5 * :math.log(2 / 3)
    second = 0.25 * :math.log(0.5) + 0.75 * :math.log(1.5)
    assert_in_delta value(:kl_div, y, p), (first + second) / 2, 1.0e-6
    assert_in_delta value(:kl_div, y, y), 0.0, 1.0e-6
    zeros = {Nx.tensor([[1.0, 0.0]]), Nx.tensor([[0.0, 1.0]])}
    assert_in_delta value(:kl_div, elem(zeros, 0), elem(zeros, 1)), :math.log(1.0e7), 1.0e-3
  end

  test "each is the mean of Axon's loss of every row" do
    {y, p} =
      {Nx.tensor([[1, -1, 1], [-1, -1, 1]]), Nx.tensor([[0.2, 2.5, -3.0], [0.1, -1.0, 0.7]])}

    {q, r} =
      {Nx.tensor([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]]),
       Nx.tensor([[0.1, 0.6, 0.3], [0.4, 0.5, 0.1]])}

    for {loss, axon, y, p} <- [
          {:mae, &Axon.Losses.mean_absolute_error/3, y, p},
          {:huber, &Axon.Losses.huber/3, y, p},
          {:hinge, &Axon.Losses.hinge/3, y, p},
          {:kl_div, &Axon.Losses.kl_divergence/3, q, r}
        ] do
      want = Nx.to_number(axon.(y, p, reduction: :mean))
      assert_in_delta value(loss, y, p), want, 1.0e-6, inspect(loss)
    end
  end

  describe "weights" do
    defp weighed(loss, y, p, weights), do: loss |> Loss.apply(y, p, weights) |> Nx.to_number()

    test "of rows make the loss a weighted mean" do
      rows = Nx.tensor([1.0, 0.0, 3.0])
      first = value(:cross_entropy, @classes[0..0], @logits[0..0])
      third = value(:cross_entropy, @classes[2..2], @logits[2..2])

      for y <- [@classes, @one_hot],
          do:
            assert_in_delta(
              weighed(:cross_entropy, y, @logits, rows: rows),
              (first + 3 * third) / 4,
              1.0e-6
            )

      for loss <- [:mse, :mae, :huber, :hinge, :kl_div, :binary_cross_entropy] do
        [y, p] = [Nx.tensor([[1.0], [0.0], [0.5]]), Nx.tensor([[0.2], [0.9], [0.6]])]
        want = (value(loss, y[0..0], p[0..0]) + 3 * value(loss, y[2..2], p[2..2])) / 4
        assert_in_delta weighed(loss, y, p, rows: rows), want, 1.0e-6, inspect(loss)
      end
    end

    test "of classes are those of Axon" do
      weights = [0.5, 2.0, 3.0]
      opts = [class_weights: Nx.tensor(weights), from_logits: true, reduction: :mean]
      want = Nx.to_number(Axon.Losses.categorical_cross_entropy(@one_hot, @logits, opts))

      for y <- [@classes, @one_hot, Nx.new_axis(@classes, 1)],
          class <- [weights, %{0 => 0.5, 1 => 2, 2 => 3}],
          do: assert_in_delta(weighed(:cross_entropy, y, @logits, class: class), want, 1.0e-6)
    end

    test "of classes and of rows are multiplied" do
      weights = [class: [2.0, 1.0, 1.0], rows: Nx.tensor([1, 3, 1])]
      losses = for i <- 0..2, do: value(:cross_entropy, @classes[i..i], @logits[i..i])
      want = (losses |> Enum.zip_with([1, 6, 1], &*/2) |> Enum.sum()) / 8
      assert_in_delta weighed(:cross_entropy, @classes, @logits, weights), want, 1.0e-6
    end

    test "of the two sides of a probability" do
      [y, p] = [Nx.tensor([[1], [0], [0]]), Nx.tensor([[0.8], [0.3], [0.6]])]
      want = -(4 * :math.log(0.8) + 0.5 * :math.log(0.7) + 0.5 * :math.log(0.4)) / 5
      assert_in_delta weighed(:binary_cross_entropy, y, p, class: [0.5, 4]), want, 1.0e-6
    end

    test "that are all 0 make the loss 0" do
      assert weighed(:mse, Nx.tensor([1.0]), Nx.tensor([3.0]), rows: Nx.tensor([0.0])) == 0.0
    end

    test "are refused where they mean nothing" do
      assert_raise Error, ~r/:mse has no classes to weigh/, fn ->
        weighed(:mse, @one_hot, @logits, class: [1, 2])
      end

      assert_raise Error, ~r/takes no weights/, fn ->
        weighed(fn y, p -> Nx.mean(Nx.subtract(y, p)) end, @one_hot, @logits,
          rows: Nx.tensor([1, 1, 1])
        )
      end

      assert_raise Error, ~r/class_weights: is \[1, 2\], expected weights of classes 0..2/, fn ->
        weighed(:cross_entropy, @classes, @logits, class: [1, 2])
      end
    end
  end

  test "predictions of 16 bits are widened" do
    y = Nx.tensor([1000.0], type: :f32)
    assert value(:mse, y, Nx.tensor([0.0], type: :f16)) == 1.0e6
  end

  test "a function must answer a float scalar" do
    assert_raise Error, ~r/must be a float scalar, got f32 of the shape \{3, 3\}/, fn ->
      Loss.apply(fn y, p -> Nx.subtract(p, y) end, @one_hot, @logits)
    end
  end

  describe "gradient" do
    for name <- [
          :class_numbers,
          :one_hot,
          :softmax,
          :sigmoid,
          :mse,
          :mae,
          :huber,
          :hinge,
          :kl_div
        ] do
      test "of #{name} is that of Axon's loss" do
        {loss, activation, y, reference} = reference(unquote(name))
        axon = "x" |> Axon.input(shape: {nil, 4}) |> Axon.dense(3, activation: activation)
        model = Model.compile(axon, loss: loss, seed: 3)
        x = GradientCases.random({3, 4}, 9)
        gradients = Training.compute_gradients(model, {x, y})
        assert_relative(gradients, gradients(model, {x, y}, reference), 1.0e-5)
      end
    end

    test "of clamped probabilities" do
      axon = "x" |> Axon.input(shape: {nil, 4}) |> Axon.dense(3, activation: :softmax)
      model = Model.compile(axon, loss: :binary_cross_entropy, seed: 3)
      x = GradientCases.random({3, 4}, 9)

      reference = fn y, p ->
        y
        |> Nx.multiply(Nx.log(p))
        |> Nx.add(Nx.multiply(Nx.subtract(1, y), Nx.log(Nx.subtract(1, p))))
        |> Nx.mean()
        |> Nx.negate()
      end

      gradients = Training.compute_gradients(model, {x, @one_hot})
      assert_relative(gradients, gradients(model, {x, @one_hot}, reference), 1.0e-5)
    end
  end

  defp reference(:class_numbers),
    do: {:cross_entropy, nil, @classes, &cross_entropy(&1, &2, from_logits: true, sparse: true)}

  defp reference(:one_hot),
    do: {:cross_entropy, nil, @one_hot, &cross_entropy(&1, &2, from_logits: true)}

  defp reference(:softmax), do: {:cross_entropy, :softmax, @one_hot, &cross_entropy(&1, &2, [])}

  defp reference(:sigmoid) do
    fun = &Axon.Losses.binary_cross_entropy(&1, &2, reduction: :mean)
    {:binary_cross_entropy, :sigmoid, @one_hot, fun}
  end

  defp reference(:mse) do
    {:mse, nil, @one_hot, &Axon.Losses.mean_squared_error(&1, &2, reduction: :mean)}
  end

  defp reference(:mae),
    do: {:mae, nil, @one_hot, &Axon.Losses.mean_absolute_error(&1, &2, reduction: :mean)}

  defp reference(:huber),
    do: {:huber, nil, @one_hot, &Axon.Losses.huber(&1, &2, reduction: :mean)}

  defp reference(:hinge),
    do: {:hinge, nil, @one_hot, &Axon.Losses.hinge(&1, &2, reduction: :mean)}

  defp reference(:kl_div),
    do: {:kl_div, :softmax, @one_hot, &Axon.Losses.kl_divergence(&1, &2, reduction: :mean)}

  defp cross_entropy(y, p, opts),
    do: Axon.Losses.categorical_cross_entropy(y, p, [reduction: :mean] ++ opts)
end
