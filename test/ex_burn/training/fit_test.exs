defmodule ExBurn.Training.FitTest do
  use ExBurn.Case, async: true

  import ExBurn.Oracle
  import ExUnit.CaptureIO

  alias ExBurn.{GradientCases, Model, Training}

  @quiet [verbose: false]

  defp line(opts \\ []) do
    axon = "x" |> Axon.input(shape: {nil, 2}) |> Axon.dense(1)
    Model.compile(axon, Keyword.merge([loss: :mse, optimizer: :sgd, learning_rate: 0.1], opts))
  end

  # y = 3 a - 2 b + 1
  defp line_data(rows) do
    x = GradientCases.random({rows, 2}, 3)
    y = x |> Nx.dot(Nx.tensor([[3.0], [-2.0]])) |> Nx.add(1.0)
    {x, y}
  end

  defp classifier(layers, opts \\ []) do
    axon = "x" |> Axon.input(shape: {nil, 4}) |> layers.() |> Axon.dense(3)
    Model.compile(axon, [loss: :cross_entropy, metrics: [:accuracy]] ++ opts)
  end

  # The class is the largest of the first three columns.
  defp classes(rows, seed) do
    x = GradientCases.random({rows, 4}, seed)
    {x, x |> Nx.slice_along_axis(0, 3, axis: 1) |> Nx.argmax(axis: 1)}
  end

  test "finds the line that the data lies on" do
    model = Training.fit(line(), line_data(40), [epochs: 60, batch_size: 8] ++ @quiet)
    %{"dense_0" => %{"kernel" => kernel, "bias" => bias}} = parameters(model)
    assert_relative(kernel, Nx.tensor([[3.0], [-2.0]]), 1.0e-4)
    assert_relative(bias, Nx.tensor([1.0]), 1.0e-4)
    assert %{loss: loss} = Training.evaluate(model, line_data(40))
    assert loss < 1.0e-6
  end

  test "learns classes, and evaluate agrees with the validation" do
    model = classifier(&Axon.dense(&1, 16, activation: :relu), learning_rate: 0.02)
    validation = classes(50, 2)
    opts = [epochs: 30, batch_size: 16, validation_data: validation] ++ @quiet
    {model, history} = Training.fit_with_progress(model, classes(200, 1), opts)

    assert Enum.map(history, & &1.epoch) == Enum.to_list(1..30)
    last = List.last(history)
    assert last.loss < hd(history).loss
    assert last.accuracy > 0.95
    assert last.val_accuracy > 0.85

    for size <- [7, 16, 50, 1000] do
      values = Training.evaluate(model, validation, batch_size: size)
      assert_in_delta values.loss, last.val_loss, 1.0e-5
      assert_in_delta values.accuracy, last.val_accuracy, 1.0e-6
    end
  end

  test "the same seed gives the same history, run after run, and another seed another" do
    layers = &(&1 |> Axon.dense(8) |> Axon.batch_norm() |> Axon.dropout(rate: 0.3, seed: 1))
    data = classes(50, 1)

    run = fn seed ->
      opts = [epochs: 3, batch_size: 16, seed: seed, validation_data: 0.2] ++ @quiet
      {model, history} = layers |> classifier() |> Training.fit_with_progress(data, opts)
      {history, Enum.map(model.parameters ++ model.states, &Nx.to_binary(elem(&1, 1)))}
    end

    assert run.(5) == run.(5)
    {history, _} = run.(5)
    {other, _} = run.(6)
    assert Enum.map(history, & &1.loss) != Enum.map(other, & &1.loss)
  end

  test "an epoch without shuffling equals one that is fed the same batches" do
    data = {x, y} = classes(20, 1)
    model = classifier(&Axon.dense(&1, 8))
    batches = for i <- [0, 8, 16], do: {rows(x, i, min(8, 20 - i)), rows(y, i, min(8, 20 - i))}

    opts = [epochs: 2, batch_size: 8, shuffle: false] ++ @quiet
    {whole, history} = Training.fit_with_progress(model, data, opts)
    {fed, fed_history} = Training.fit_with_progress(model, batches, [epochs: 2] ++ @quiet)
    assert fed_history == history
    assert_relative(parameters(fed), parameters(whole), 1.0e-7)

    lazy = Stream.map(batches, & &1)
    {_, lazy_history} = Training.fit_with_progress(model, lazy, [epochs: 2] ++ @quiet)
    assert lazy_history == history
    assert Training.evaluate(fed, batches) == Training.evaluate(whole, data, batch_size: 8)
  end

  test "what an enumerable raises reaches the caller, and it is closed once" do
    test = self()
    batch = line_data(4)

    next = fn
      2 -> raise KeyError, key: :broken
      n -> {[batch], n + 1}
    end

    stream = Stream.resource(fn -> 0 end, next, fn _ -> send(test, :closed) end)

    assert_raise ExBurn.Error, ~r/the data raised KeyError: .*broken/, fn ->
      Training.fit(line(), stream, @quiet)
    end

    assert_received :closed
    refute_received _

    halting = fn _event, _state -> {:halt, nil} end
    endless = Stream.resource(fn -> 0 end, &{[batch], &1}, fn _ -> send(test, :closed) end)
    Training.fit(line(), endless, [callbacks: [halting]] ++ @quiet)
    assert_received :closed
    refute_received _
  end

  defp rows(t, start, count), do: Nx.slice_along_axis(t, start, count, axis: 0)

  test "batch normalisation's statistics and dropout's key advance as Axon says" do
    layers = &(&1 |> Axon.batch_norm() |> Axon.dropout(rate: 0.5, seed: 2))
    model = classifier(layers)
    {x, y} = classes(10, 1)
    {_init, step} = Axon.build(model.axon, mode: :train)
    state = ExBurn.Model.State.to_axon(model.parameters, model.states)

    want =
      Nx.Defn.jit_apply(&step.(&1, &2).state, [binary(state), x], compiler: Nx.Defn.Evaluator)

    trained = Training.fit(model, {x, y}, [epochs: 1, batch_size: 10] ++ @quiet)
    got = ExBurn.Model.State.nest(trained.states)
    assert_relative(got["batch_norm_0"], want["batch_norm_0"], 1.0e-5)
    assert Nx.to_binary(got["dropout_0"]["key"]) == Nx.to_binary(want["dropout_0"]["key"])

    assert Nx.to_binary(got["dropout_0"]["key"]) !=
             Nx.to_binary(
               hd(model.states |> Enum.filter(&match?({["dropout_0" | _], _}, &1)))
               |> elem(1)
             )
  end

  defp binary(state),
    do: Nx.Defn.Composite.traverse(state, &Nx.backend_copy(&1, Nx.BinaryBackend))

  test "frozen parameters stay, and the others do not" do
    model = classifier(&Axon.dense(&1, 8))
    model = %{model | frozen: MapSet.new([["dense_0", "kernel"], ["dense_0", "bias"]])}
    trained = Training.fit(model, classes(20, 1), [epochs: 2] ++ @quiet)
    [before, later] = Enum.map([model, trained], &parameters/1)
    assert before["dense_0"] == later["dense_0"]
    assert before["dense_1"]["kernel"] != later["dense_1"]["kernel"]
  end

  test "a model of several inputs takes a map of them, and targets may be a container" do
    [a, b] = Enum.map(["a", "b"], &Axon.input(&1, shape: {nil, 1}))
    axon = a |> Axon.concatenate(b) |> Axon.dense(1)
    loss = fn %{"t" => t}, p -> Nx.mean(Nx.pow(Nx.subtract(p, t), 2)) end
    model = Model.compile(axon, loss: loss, optimizer: :sgd, learning_rate: 0.1)
    {x, y} = line_data(30)

    x = %{
      "a" => Nx.slice_along_axis(x, 0, 1, axis: 1),
      "b" => Nx.slice_along_axis(x, 1, 1, axis: 1)
    }

    model = Training.fit(model, {x, %{"t" => y}}, [epochs: 60, batch_size: 10] ++ @quiet)
    assert_relative(parameters(model)["dense_0"]["kernel"], Nx.tensor([[3.0], [-2.0]]), 1.0e-3)
  end

  # The same steps by Nx alone.
  test "batches of sequences may be as long as they like where the model leaves it open" do
    axon =
      "x"
      |> Axon.input(shape: {nil, nil, 3})
      |> Axon.dense(4, activation: :tanh)
      |> Axon.nx(&Nx.mean(&1, axes: [1]))
      |> Axon.dense(1)

    batches =
      for {rows, length} <- [{2, 3}, {3, 5}, {1, 1}, {2, 3}] do
        {GradientCases.random({rows, length, 3}, length), GradientCases.random({rows, 1}, rows)}
      end

    inputs = %{"x" => Nx.template({1, 4, 3}, :f32)}
    opts = [inputs: inputs, loss: :mse, optimizer: :sgd, learning_rate: 0.1]
    model = Model.compile(axon, opts)
    {_init, predict} = Axon.build(axon)

    squares = fn parameters, {x, y} ->
      predict.(Axon.ModelState.new(parameters), x) |> Nx.subtract(y) |> Nx.pow(2) |> Nx.mean()
    end

    step = fn batch, parameters ->
      gradients = Nx.Defn.grad(parameters, &squares.(&1, batch))
      down = fn _name, p, g -> Nx.subtract(p, Nx.multiply(g, 0.1)) end
      Map.merge(parameters, gradients, fn _layer, ps, gs -> Map.merge(ps, gs, down) end)
    end

    want = Enum.reduce(batches, parameters(model), step)
    opts = [epochs: 1, validation_data: batches] ++ @quiet
    {trained, [entry]} = Training.fit_with_progress(model, batches, opts)
    assert_relative(parameters(trained), want, 1.0e-5)

    counted =
      for batch <- batches,
          _row <- 1..Nx.axis_size(elem(batch, 1), 0),
          do: Nx.to_number(squares.(want, batch))

    assert_in_delta Training.evaluate(trained, batches).loss, Enum.sum(counted) / 8, 1.0e-5
    assert_in_delta entry.val_loss, Enum.sum(counted) / 8, 1.0e-5
    {x, _y} = hd(batches)
    assert {:error, _} = ExBurn.predict(trained, x)
    assert Nx.shape(ExBurn.predict!({axon, ExBurn.parameters(trained)}, x)) == {2, 1}

    assert_raise Error, ~r/input "x" has shape {2, 3, 2}, expected {batch, any, 3}/, fn ->
      Training.evaluate(model, [{Nx.iota({2, 3, 2}, type: :f32), Nx.iota({2, 1})}])
    end
  end

  test "batches for validation count by their rows" do
    {x, y} = classes(50, 2)
    model = classifier(&Axon.dense(&1, 5, activation: :relu))
    cut = fn rows -> {x[rows], y[rows]} end
    batches = Stream.map([0..15, 16..46, 47..49], cut)
    opts = [epochs: 2, batch_size: 16] ++ @quiet

    [{_, want}, {_, got}] =
      for data <- [{x, y}, batches],
          do: Training.fit_with_progress(model, {x, y}, [validation_data: data] ++ opts)

    assert got == want
    weighted = [{x, y}, {x, y, Nx.broadcast(1.0, {50})}]

    [{_, [first | _]}, {_, [same | _]}] =
      for data <- [{x, y}, weighted],
          do: Training.fit_with_progress(model, {x, y}, [validation_data: data] ++ opts)

    assert_in_delta same.val_loss, first.val_loss, 1.0e-5

    for {data, text} <- [
          {[], "validation_data has no batches"},
          {[3], "data must be {x, y}"}
        ] do
      error =
        assert_raise ExBurn.Error, fn -> Training.fit(model, {x, y}, validation_data: data) end

      assert Exception.message(error) =~ text
    end
  end

  test "a share of the rows is held out for validation" do
    counter = fn y, _p -> Nx.mean(y) end
    axon = "x" |> Axon.input(shape: {nil, 1}) |> Axon.dense(1)
    model = Model.compile(axon, loss: :mse, metrics: [share: counter])
    data = {Nx.iota({10, 1}, type: :f32), Nx.iota({10, 1}, type: :f32)}
    opts = [epochs: 1, batch_size: 10, validation_data: 0.3] ++ @quiet
    {_, [entry]} = Training.fit_with_progress(model, data, opts)
    # 0 + 1 + … + 9, in two parts of 7 and 3 rows.
    assert_in_delta entry.share * 7 + entry.val_share * 3, 45.0, 1.0e-4
    assert entry.share != entry.val_share
  end

  test "the learning rate follows its schedule" do
    opts = [epochs: 4, lr_schedule: {:step, 0.1, 2, 0.5}] ++ @quiet
    {_, history} = Training.fit_with_progress(line(), line_data(8), opts)
    assert Enum.map(history, & &1.learning_rate) == [0.1, 0.1, 0.05, 0.05]
  end

  test "steps one by one equal an epoch, and carry the optimizer's moments" do
    {x, y} = line_data(24)
    batches = for i <- [0, 8, 16], do: {rows(x, i, 8), rows(y, i, 8)}
    model = line(optimizer: :adam)

    {stepped, losses} =
      Enum.reduce(batches, {model, []}, fn batch, {model, losses} ->
        {loss, model} = Training.train_step(model, batch)
        {model, [loss | losses]}
      end)

    opts = [epochs: 1, batch_size: 8, shuffle: false] ++ @quiet
    {fitted, [entry]} = Training.fit_with_progress(model, {x, y}, opts)
    assert_relative(parameters(stepped), parameters(fitted), 1.0e-6)
    assert_in_delta Enum.sum(losses) / 3, entry.loss, 1.0e-5
    assert fitted.optimizer_state == nil
  end

  test "verbose prints a plain line for each epoch where there is no terminal" do
    output = capture_io(fn -> Training.fit(line(), line_data(8), epochs: 2) end)
    assert [first, second] = String.split(output, "\n", trim: true)
    assert first =~ ~r"^epoch 1/2  loss \d+\.\d{4}  .* samples/s  \d"
    assert second =~ "epoch 2/2"
    assert capture_io(fn -> Training.fit(line(), line_data(8), [epochs: 1] ++ @quiet) end) == ""
  end

  test "a model of one batch size takes as many rows as it divides" do
    fixed = Axon.input("x", shape: {4, 2}) |> Axon.dense(1) |> Model.compile(loss: :mse)
    free = Axon.input("x", shape: {nil, 2}) |> Axon.dense(1) |> Model.compile(loss: :mse)
    data = {Nx.iota({8, 2}, type: :f32), Nx.iota({8, 1}, type: :f32)}
    opts = [epochs: 2, batch_size: 4, verbose: false, validation_data: data]
    {model, history} = Training.fit_with_progress(fixed, data, opts)
    assert {same, ^history} = Training.fit_with_progress(free, data, opts)
    assert parameters(model) == parameters(same)

    assert Training.evaluate(model, data, batch_size: 4) ==
             Training.evaluate(same, data, batch_size: 4)

    message = ~r/^fit: input "x" takes batches of 4 rows, got one of 6; give batch_size: 4/

    assert_raise Error, message, fn ->
      Training.fit(fixed, data, batch_size: 6, verbose: false)
    end

    short = [{Nx.iota({2, 2}, type: :f32), Nx.iota({2, 1}, type: :f32)}]
    message = ~r/^fit: batch 1 of epoch 1: input "x" takes batches of 4 rows, got one of 2/
    assert_raise Error, message, fn -> Training.fit(fixed, short, verbose: false) end
  end
end
