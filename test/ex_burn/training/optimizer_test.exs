defmodule ExBurn.Training.OptimizerTest do
  use ExBurn.Case, async: true

  import ExBurn.Oracle

  alias ExBurn.{GradientCases, Model, Training}
  alias ExBurn.Training.{Loss, Optimizer}

  doctest ExBurn.Training.Update
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
        {"adamw", {:adamw, decay: 0.1}, :adamw, 0.02},
        {"lamb", {:lamb, []}, :lamb, 0.01},
        {"lamb with decay", {:lamb, decay: 0.1, min_norm: 0.5, b1: 0.8}, :lamb, 0.01},
        {"rmsprop", {:rmsprop, []}, :rmsprop, 0.002},
        {"rmsprop with options", {:rmsprop, decay: 0.8, eps: 1.0e-4, initial_scale: 0.5},
         :rmsprop, 0.002},
        {"rmsprop, centered", {:rmsprop, centered: true, eps: 1.0e-4}, :rmsprop, 0.005},
        {"rmsprop with momentum", {:rmsprop, momentum: 0.8}, :rmsprop, 0.002},
        {"rmsprop with everything",
         {:rmsprop, centered: true, momentum: 0.8, nesterov: true, eps: 1.0e-3}, :rmsprop, 0.002},
        {"adagrad", {:adagrad, []}, :adagrad, 0.05},
        {"adagrad with options", {:adagrad, eps: 0.01, initial_accumulator_value: 0.5}, :adagrad,
         0.05},
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

  # Program 1 of arXiv:2302.06675, as a pair that Polaris could have.
  defp lion(rate, b1, b2, decay) do
    init = fn parameters -> map(parameters, &Nx.multiply(&1, 0.0)) end

    update = fn gradients, moments, parameters ->
      mix = fn m, g, b -> Nx.add(Nx.multiply(b, m), Nx.multiply(1 - b, g)) end

      updates =
        moments
        |> zip(gradients, &Nx.sign(mix.(&1, &2, b1)))
        |> zip(parameters, &Nx.multiply(-rate, Nx.add(&1, Nx.multiply(decay, &2))))

      {updates, zip(moments, gradients, &mix.(&1, &2, b2))}
    end

    {init, update}
  end

  # Muon for matrices; vectors go as under Polaris' AdamW.
  defp muon(rate, momentum, decay) do
    {init_adam, adam} = Polaris.Optimizers.adamw(learning_rate: rate, decay: decay)
    init = fn parameters -> {init_adam.(parameters), map(parameters, &Nx.multiply(&1, 0.0))} end

    update = fn gradients, {state, traces}, parameters ->
      {vectors, state} = adam.(gradients, state, parameters)
      mix = fn t, g -> Nx.add(Nx.multiply(momentum, t), Nx.multiply(1 - momentum, g)) end
      traces = zip(traces, gradients, mix)

      matrices =
        traces
        |> zip(gradients, mix)
        |> map(&if(Nx.rank(&1) == 2, do: orthogonal(&1), else: &1))
        |> zip(parameters, fn o, p ->
          length = 0.2 * :math.sqrt(Enum.max(Tuple.to_list(p.shape)))
          Nx.multiply(-rate, Nx.add(Nx.multiply(length, o), Nx.multiply(decay, p)))
        end)

      {zip(matrices, vectors, &if(Nx.rank(&1) == 2, do: &1, else: &2)), {state, traces}}
    end

    {init, update}
  end

  defp orthogonal(x) do
    x = Nx.divide(x, Nx.add(Nx.sqrt(Nx.sum(Nx.multiply(x, x))), 1.0e-7))

    Enum.reduce(1..5, x, fn _, x ->
      gram = Nx.dot(x, Nx.transpose(x))
      factor = Nx.add(Nx.multiply(-4.775, gram), Nx.multiply(2.0315, Nx.dot(gram, gram)))
      Nx.add(Nx.multiply(3.4445, x), Nx.dot(factor, x))
    end)
  end

  defp map(nested, fun) do
    Map.new(nested, fn
      {name, %Nx.Tensor{} = t} -> {name, fun.(t)}
      {name, inner} -> {name, map(inner, fun)}
    end)
  end

  defp zip(a, b, fun) do
    Map.new(a, fn
      {name, %Nx.Tensor{} = t} -> {name, fun.(t, b[name])}
      {name, inner} -> {name, zip(inner, b[name], fun)}
    end)
  end

  test "lion moves parameters as its authors say, over #{@steps} steps" do
    want = polaris(lion(0.002, 0.9, 0.99, 0.0))
    assert_relative(parameters(ours(:lion, 0.002)), want, 1.0e-4)
    want = polaris(lion(0.002, 0.8, 0.95, 0.1))
    got = ours({:lion, b1: 0.8, b2: 0.95, decay: 0.1}, 0.002)
    assert_relative(parameters(got), want, 1.0e-4)
  end

  test "muon moves parameters as its authors say, over #{@steps} steps" do
    assert_relative(parameters(ours(:muon, 0.01)), polaris(muon(0.01, 0.95, 0.0)), 1.0e-3)
    got = ours({:muon, momentum: 0.8, decay: 0.1}, 0.01)
    assert_relative(parameters(got), polaris(muon(0.01, 0.8, 0.1)), 1.0e-3)
  end

  describe "a pair of functions" do
    for {name, pair} <- [
          {"adam", {:adam, learning_rate: 0.05}},
          {"radam", {:radam, learning_rate: 0.01}},
          {"yogi", {:yogi, learning_rate: 0.01}},
          {"adabelief", {:adabelief, learning_rate: 0.01}}
        ] do
      test "of Polaris, #{name}, moves parameters as on Nx.BinaryBackend" do
        {function, opts} = unquote(Macro.escape(pair))
        pair = apply(Polaris.Optimizers, function, [opts])
        assert_relative(parameters(ours(pair, 1.0)), polaris(pair), 1.0e-4)
      end
    end

    test "composed of updates, with a schedule of its own" do
      pair =
        [eps: 1.0e-6]
        |> Polaris.Updates.scale_by_adam()
        |> Polaris.Updates.clip_by_global_norm(max_norm: 0.5)
        |> Polaris.Updates.scale_by_schedule(&Nx.multiply(-0.05, Nx.pow(0.99, &1)))

      assert_relative(parameters(ours(pair, 1.0)), polaris(pair), 1.0e-4)
    end

    test "goes on from step to step" do
      pair = Polaris.Optimizers.sgd(learning_rate: 0.02, momentum: 0.9)
      model = Model.compile(axon(), loss: :mse, optimizer: pair, seed: 1)

      stepped =
        Enum.reduce(1..5, model, fn _, m -> m |> Training.train_step(data()) |> elem(1) end)

      fitted =
        Training.fit(model, data(), epochs: 5, batch_size: 6, shuffle: false, verbose: false)

      assert parameters(stepped) == parameters(fitted)
    end

    test "takes no schedule, and has to keep shapes" do
      pair = Polaris.Optimizers.adam(learning_rate: 0.05)
      model = Model.compile(axon(), loss: :mse, optimizer: pair)

      assert_raise Error, ~r/^fit: lr_schedule: has no effect on .*brings its own/, fn ->
        Training.fit(model, data(), lr_schedule: {:exponential, 0.1, 0.5}, verbose: false)
      end

      warmup = [callbacks: [Training.warmup_callback(2)], verbose: false]

      assert_raise Error, ~r/^fit: the learning rate of a callback has no effect on a pair/, fn ->
        Training.fit(model, data(), warmup)
      end

      assert_raise Error, ~r/^train_step: learning_rate: has no effect on a pair/, fn ->
        Training.train_step(model, data(), learning_rate: 0.1)
      end

      {_model, [entry]} = Training.fit_with_progress(model, data(), epochs: 1, verbose: false)
      assert entry.learning_rate == nil

      flat = {fn _ -> {} end, fn _gradients, state, _parameters -> {%{}, state} end}

      assert_raise Error, "fit: optimizer: its updates are not shaped as the parameters", fn ->
        ours(flat, 1.0)
      end

      growing = {fn _ -> Nx.tensor([0]) end, fn g, s, _ -> {g, Nx.concatenate([s, s])} end}

      assert_raise Error, ~r/^fit: optimizer: its new state is not shaped/, fn ->
        ours(growing, 1.0)
      end
    end
  end

  test "refuses unknown optimizers and options" do
    for optimizer <- [:adabelief, "adam", nil, {1, 2}, {:rmsprop2, []}] do
      assert_raise Error, ~r/^compile: optimizer: is .*, expected one of :adagrad, :adam, /, fn ->
        Optimizer.fetch!(optimizer)
      end
    end

    for optimizer <- [{:adam, beta: 1}, {:sgd, [:momentum]}, {:sgd, 1}] do
      assert_raise Error, ~r/^compile: optimizer: is .*, expected options of /, fn ->
        Optimizer.fetch!(optimizer)
      end
    end

    assert_raise Error, "compile: nesterov: is 1, expected true or false", fn ->
      Optimizer.fetch!({:sgd, nesterov: 1})
    end

    for {optimizer, message} <- [
          {{:adam, b1: -1}, "b1: is -1, expected a number of at least 0 and below 1"},
          {{:lion, b2: 1}, "b2: is 1, expected a number of at least 0 and below 1"},
          {{:muon, steps: 0}, "steps: is 0, expected an integer from 1 to 100"},
          {{:rmsprop, centered: nil}, "centered: is nil, expected true or false"},
          {{:sgd, nesterov: true}, "nesterov: is true, expected a momentum: beside it"},
          {{:rmsprop, nesterov: true}, "nesterov: is true, expected a momentum: beside it"},
          {{:lamb, min_norm: "1"}, ~s(min_norm: is "1", expected a number of at least 0)},
          {{:sgd, momentum: 2}, "momentum: is 2, expected a number of at least 0 and below 1"}
        ] do
      assert_raise Error, "compile: " <> message, fn -> Optimizer.fetch!(optimizer) end
    end
  end
end
