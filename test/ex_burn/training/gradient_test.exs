defmodule ExBurn.Training.GradientTest do
  use ExUnit.Case, async: true

  import ExBurn.Oracle
  import Nx.Defn

  alias ExBurn.{GradientCases, Model, Training}

  # A linear function of the prediction with all slopes different.
  defp weighted_sum(weights, prediction),
    do: prediction |> Nx.multiply(weights) |> Nx.sum()

  for %{name: name} <- GradientCases.all() do
    test "of #{name}" do
      %{model: axon, x: x} = Enum.find(GradientCases.all(), &(&1.name == unquote(name)))
      loss = &weighted_sum/2
      model = Model.compile(axon, loss: loss, seed: 5)
      y = model |> prediction(x) |> Nx.shape() |> GradientCases.random(11)

      # The test's loss sums over everything, so the rows of y are those of x.
      want = gradients(model, {x, y}, loss)

      for path <- [:autodiff, :symbolic],
          do:
            assert_relative(
              Training.compute_gradients(model, {x, y}, gradients: path),
              want,
              1.0e-5
            )
    end
  end

  for layer <- [:lstm, :gru] do
    test "of #{layer} as a loop, by Nx" do
      model =
        "x"
        |> Axon.input(shape: {nil, 3, 2})
        |> then(&apply(Axon, unquote(layer), [&1, 4, [unroll: :dynamic]]))
        |> elem(0)
        |> Axon.flatten()
        |> Model.compile(loss: &weighted_sum/2, seed: 5)

      data = {GradientCases.random({2, 3, 2}, 7), GradientCases.random({2, 12}, 8)}
      got = Training.compute_gradients(model, data, gradients: :symbolic)
      assert_relative(got, gradients(model, data, &weighted_sum/2), 1.0e-5)
    end
  end

  test "is compared for every activation of Axon" do
    names = for %{name: name} <- GradientCases.all(), do: name
    exported = for {name, 1} <- Axon.Activations.__info__(:functions), do: name
    activations = Enum.reject(exported, &String.starts_with?(Atom.to_string(&1), "__"))
    assert activations -- names == []
    assert length(activations) > 20
  end

  # What leads only to a value without a gradient may be of any type, whichever way gradients are computed: by rules, by a tape
  # as for depthwise convolutions of several channels, or again on the way back.
  for layer <- [:dense, :depthwise_conv],
      options <- [[], [gradient_checkpointing: true], [gradient_checkpointing: {:every, 5}]] do
    test "passes by what the loss holds fixed, #{layer} #{inspect(options)}" do
      axon = unquote(layer) |> flat() |> Axon.dense(2, activation: :tanh)
      y = Nx.complex(GradientCases.random({4, 2}, 7), GradientCases.random({4, 2}, 8))
      data = {GradientCases.random({4, 5, 2}, 9), y}

      losses =
        [&fixed_complex/2, &fixed_fft/2, &custom_fft/2] ++ [&fixed_in_branch/2, &fixed_in_loop/2]

      for loss <- losses ++ [&fixed_beside/2, &chosen_by_fft/2] do
        model = Model.compile(axon, loss: loss, seed: 5)
        got = Training.compute_gradients(model, data, unquote(options))
        assert_relative(got, gradients(model, data, loss), 1.0e-5, [inspect(loss)])
      end
    end
  end

  defp flat(layer) do
    input = Axon.input("x", shape: {nil, 5, 2})
    opts = if layer == :dense, do: [], else: [kernel_size: 2]
    Axon |> apply(layer, [input, 2, opts]) |> Axon.flatten()
  end

  defp fixed_complex(y, p) do
    place = Nx.argmax(Nx.abs(Nx.multiply(y, p)))
    fixed = Nx.Defn.Kernel.stop_grad(Nx.abs(Nx.subtract(y, p)))
    p |> Nx.multiply(fixed) |> Nx.sum() |> Nx.add(Nx.multiply(0, place))
  end

  defp fixed_fft(y, p) do
    fixed = Nx.Defn.Kernel.stop_grad(Nx.abs(Nx.fft(p)))
    Nx.sum(Nx.multiply(Nx.real(y), p)) |> Nx.add(Nx.sum(fixed))
  end

  defp custom_fft(y, p) do
    there = Nx.real(Nx.ifft(Nx.fft(p)))
    same = Nx.Defn.Kernel.custom_grad(there, [p], fn g -> [Nx.multiply(g, Nx.real(y))] end)
    Nx.sum(Nx.multiply(same, same))
  end

  defn fixed_in_branch(y, p) do
    if Nx.sum(Nx.real(y)) > 0,
      do: Nx.sum(p * stop_grad(Nx.abs(Nx.fft(p)))),
      else: Nx.sum(Nx.sin(p) * stop_grad(Nx.abs(Nx.fft(p))))
  end

  defn fixed_in_loop(y, p) do
    {_, last, _} =
      while {i = 0, p, y}, i < 3 do
        {i + 1, Nx.sin(p) + stop_grad(Nx.abs(Nx.fft(p)) * Nx.real(y)), y}
      end

    Nx.sum(last * last)
  end

  # Of two results of a branch one leads to the loss.
  defn fixed_beside(y, p) do
    {a, b} = if Nx.sum(Nx.real(y)) > 0, do: {Nx.sin(p), Nx.exp(p)}, else: {Nx.cos(p), p}
    Nx.sum(a * stop_grad(Nx.abs(Nx.fft(b))))
  end

  defn chosen_by_fft(_y, p) do
    Nx.sum(if Nx.sum(Nx.abs(Nx.fft(p))) > 0.1, do: Nx.sin(p), else: Nx.exp(p))
  end

  # A part of a loop's state that its body does not read is a result all the same, as is the first state where there is no
  # iteration.
  for layer <- [:dense, :depthwise_conv], options <- [[], [gradient_checkpointing: true]] do
    test "of parts of a loop's state that its body does not read, #{layer} #{inspect(options)}" do
      axon = unquote(layer) |> flat() |> Axon.dense(2)
      data = {GradientCases.random({4, 5, 2}, 9), GradientCases.random({4, 2}, 7)}

      losses = [
        {&unread_in_loop/2, fn _y, p -> Nx.sum(Nx.cos(Nx.sin(Nx.sin(p)))) end},
        {&no_iteration/2, fn _y, p -> Nx.sum(Nx.sin(p)) end},
        {&no_iteration_of_data/2, fn _y, p -> Nx.sum(Nx.sin(p)) end}
      ]

      for {loss, same} <- losses do
        model = Model.compile(axon, loss: loss, seed: 5)
        got = Training.compute_gradients(model, data, unquote(options))
        assert_relative(got, gradients(model, data, same), 1.0e-5, [inspect(loss)])
      end
    end
  end

  defn unread_in_loop(_y, p) do
    {_, _, b} = while {i = 0, a = p, _b = p * 0}, i < 3, do: {i + 1, Nx.sin(a), Nx.cos(a)}
    Nx.sum(b)
  end

  defn no_iteration(_y, p) do
    {_, b, _} = while {i = 0, _b = Nx.sin(p), p}, i < 0, do: {i + 1, p, p}
    Nx.sum(b)
  end

  defn no_iteration_of_data(y, p) do
    {_, b, _} = while {p, _b = Nx.sin(p), y}, Nx.sum(y) > 1.0e6, do: {p, p * 2, y}
    Nx.sum(b)
  end

  # Complex results and state of which nothing leads to the loss; Nx's own rules differentiate what the loop repeats.
  test "passes by complex numbers beside what leads to the loss" do
    axon = "x" |> Axon.input(shape: {nil, 3}) |> Axon.dense(2)
    data = {GradientCases.random({4, 3}, 9), GradientCases.random({4, 2}, 7)}

    losses = [
      {&complex_beside_in_loop/2, &Nx.sum(Nx.multiply(&1, Nx.sin(Nx.sin(Nx.sin(&2)))))},
      {&complex_beside_in_branch/2, fn _y, p -> Nx.sum(Nx.sin(p)) end}
    ]

    for {loss, same} <- losses, options <- [[], [gradient_checkpointing: true]] do
      model = Model.compile(axon, loss: loss, seed: 5)
      got = Training.compute_gradients(model, data, options)
      assert_relative(got, gradients(model, data, same), 1.0e-5, [inspect(loss)])
    end
  end

  defn complex_beside_in_loop(y, p) do
    {_, a, _} = while {i = 0, a = p, z = Nx.fft(p)}, i < 3, do: {i + 1, Nx.sin(a), z * a}
    Nx.sum(y * a)
  end

  defn complex_beside_in_branch(y, p) do
    {a, _} =
      if Nx.sum(y * y) > 0, do: {Nx.sin(p), Nx.fft(p)}, else: {Nx.cos(p), Nx.ifft(p)}

    Nx.sum(a)
  end

  # Nx 0.13 counts some of what the branch and the product share twice, so the expected gradient is that of the branch alone.
  test "of a cond is that of the branch that is taken" do
    loss = fn y, p -> p |> Nx.multiply(sine_or_tanh(y, p)) |> Nx.sum() end
    axon = "x" |> Axon.input(shape: {nil, 3}) |> Axon.dense(2)
    model = Model.compile(axon, loss: loss, seed: 5)
    x = GradientCases.random({4, 3}, 9)

    for {y, taken} <- [{1, &Nx.sin/1}, {-1, &Nx.tanh/1}] do
      data = {x, Nx.broadcast(Nx.tensor(y, type: :f32), {4, 2})}
      want = gradients(model, data, fn _y, p -> p |> Nx.multiply(taken.(p)) |> Nx.sum() end)
      assert_relative(Training.compute_gradients(model, data), want, 1.0e-5)
    end
  end

  defnp sine_or_tanh(y, p), do: if(Nx.sum(y) > 0, do: Nx.sin(p), else: Nx.tanh(p))

  test "of a padded max_pool belongs to the largest element, never to the padding" do
    axon =
      "x"
      |> Axon.input(shape: {nil, 3, 1})
      |> Axon.dense(1, use_bias: false, kernel_initializer: :ones)
      |> Axon.max_pool(kernel_size: 3, strides: 2, padding: :same)

    model = Model.compile(axon, loss: &weighted_sum/2)
    x = Nx.tensor([[[-3.0], [-2.0], [-1.0]]])
    y = Nx.tensor([[[10.0], [100.0]]])
    # The windows are (padding, -3, -2) and (-2, -1, padding): -2 * 10 - 1 * 100.
    gradients = Training.compute_gradients(model, {x, y})
    assert Nx.to_flat_list(gradients["dense_0"]["kernel"]) == [-120.0]
  end

  # One element of each row, as integer targets are taken, or of each column; the prediction is taken from twice.
  test "of elements along an axis, whatever type names them" do
    axon = "x" |> Axon.input(shape: {nil, 3}) |> Axon.dense(300)
    x = GradientCases.random({4, 3}, 9)
    rows = [[299], [0], [255], [0]]
    columns = [for(column <- 0..299, do: rem(column, 4))]

    for {indices, axis, types} <- [{rows, 1, [:u16, :s32, :s64, :u64]}, {columns, 0, [:u8, :s8]}],
        type <- types do
      loss = fn _y, p ->
        places = Nx.tensor(indices, type: type)
        taken = Nx.take_along_axis(p, places, axis: axis)
        again = p |> Nx.sin() |> Nx.take_along_axis(places, axis: axis)
        Nx.sum(Nx.multiply(Nx.exp(taken), again))
      end

      model = Model.compile(axon, loss: loss, seed: 5)
      data = {x, Nx.iota({4, 300}, type: :f32)}
      got = Training.compute_gradients(model, data)
      assert_relative(got, gradients(model, data, loss), 1.0e-5, [inspect(type)])
    end
  end

  # 1 / p is infinite at the place of a zero alone.
  test "of an element that was taken is nowhere else, infinite or not" do
    loss = fn _y, p ->
      p |> Nx.take_along_axis(Nx.tensor([[1]]), axis: 1) |> Nx.log() |> Nx.sum()
    end

    axon = "x" |> Axon.input(shape: {nil, 1}) |> Axon.dense(3, kernel_initializer: :zeros)
    model = Model.compile(axon, loss: loss)
    gradients = Training.compute_gradients(model, {Nx.tensor([[1.0]]), Nx.tensor([[0.0]])})
    assert Nx.to_flat_list(gradients["dense_0"]["bias"]) == [0.0, :infinity, 0.0]
  end

  defp parameters_of(gradients) do
    for {layer, tensors} <- gradients, into: %{} do
      {layer, Map.new(tensors, fn {name, t} -> {name, Nx.backend_copy(t, Nx.BinaryBackend)} end)}
    end
  end

  test "answers zeros for a parameter that the loss does not depend on" do
    axon = "x" |> Axon.input(shape: {nil, 2}) |> Axon.dense(2)
    model = Model.compile(axon, loss: fn y, _prediction -> Nx.sum(Nx.multiply(y, 1.0)) end)
    gradients = Training.compute_gradients(model, {Nx.iota({3, 2}, type: :f32), Nx.iota({3})})
    assert Nx.to_flat_list(gradients["dense_0"]["kernel"]) == [0.0, 0.0, 0.0, 0.0]
    assert Nx.to_flat_list(gradients["dense_0"]["bias"]) == [0.0, 0.0]
  end

  test "leaves out frozen parameters" do
    axon = "x" |> Axon.input(shape: {nil, 2}) |> Axon.dense(3) |> Axon.dense(1)
    model = Model.compile(axon, loss: :mse)
    model = %{model | frozen: MapSet.new([["dense_0", "kernel"]])}
    data = {Nx.iota({3, 2}, type: :f32), Nx.iota({3, 1}, type: :f32)}
    gradients = Training.compute_gradients(model, data)
    symbolic = Training.compute_gradients(model, data, gradients: :symbolic)
    assert_relative(parameters_of(symbolic), parameters_of(gradients), 1.0e-6)
    assert Map.keys(gradients["dense_0"]) == ["bias"]
    assert gradients["dense_1"] |> Map.keys() |> Enum.sort() == ["bias", "kernel"]

    all =
      gradients(%{model | frozen: MapSet.new()}, data, &ExBurn.Training.Loss.apply(:mse, &1, &2))

    assert_relative(gradients["dense_1"], all["dense_1"], 1.0e-5)
  end
end
