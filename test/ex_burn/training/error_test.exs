defmodule ExBurn.Training.ErrorTest do
  use ExBurn.Case, async: true

  import ExBurn.Oracle, only: [parameters: 1, assert_relative: 3]
  import Nx.Defn

  alias ExBurn.{Model, Training}

  defp model(opts \\ []) do
    axon = "x" |> Axon.input(shape: {nil, 2}) |> Axon.dense(3)
    Model.compile(axon, Keyword.merge([loss: :cross_entropy], opts))
  end

  defp x(rows \\ 4), do: Nx.iota({rows, 2}, type: :f32)
  defp y(rows \\ 4), do: Nx.remainder(Nx.iota({rows}), 3)

  defp fit(data, opts \\ []),
    do: Training.fit(model(), data, Keyword.merge([verbose: false], opts))

  defn far_in_loop(y, p) do
    {_, p, _} = while {i = 0, p, y}, i < 2, do: {i + 1, Nx.abs(y - p), y}
    Nx.sum(p)
  end

  # The state that is complex leads to the loss in a later iteration.
  defn product_in_loop(y, p) do
    {_, p, _} = while {i = 0, p, y}, i < 3, do: {i + 1, p + Nx.real(y), y * p}
    Nx.sum(p)
  end

  defn transform_in_branch(y, p) do
    Nx.sum(if Nx.sum(Nx.real(y)) > 0, do: Nx.abs(Nx.fft(p)), else: Nx.sin(p))
  end

  # One line that names the function, and leaves nothing behind in the mailbox.
  defp assert_error(text, fun) do
    error = assert_raise(Error, fun)
    message = Exception.message(error)
    assert message =~ text
    refute message =~ "\n"
    refute_received _
    error
  end

  describe "data" do
    test "of different lengths" do
      assert_error("fit: x has 4 rows and y has 3", fn -> fit({x(4), y(3)}) end)
      assert_error("evaluate: x has 4 rows", fn -> Training.evaluate(model(), {x(4), y(3)}) end)

      assert_error("compute_gradients: x has", fn ->
        Training.compute_gradients(model(), {x(1), y(3)})
      end)

      assert_error("train_step: x has", fn -> Training.train_step(model(), {x(1), y(3)}) end)
    end

    test "that is empty" do
      assert_error("fit: the data is empty", fn -> fit([]) end)
      assert_error("fit: y is empty", fn -> fit({x(), {}}) end)
      assert_error("evaluate: the data is empty", fn -> Training.evaluate(model(), []) end)
    end

    test "that can't be enumerated" do
      assert_error("fit: data must be {x, y} or an enumerable", fn -> fit(fn -> [] end) end)

      assert_error("evaluate: data must be {x, y}", fn ->
        Training.evaluate(model(), fn -> [] end)
      end)
    end

    test "that has indices out of bounds" do
      axon = "x" |> Axon.input(shape: {nil, 2}) |> Axon.embedding(3, 4) |> Axon.flatten()
      model = axon |> Axon.dense(3) |> Model.compile(loss: :cross_entropy)
      data = {Nx.tensor([[0, 7]]), Nx.tensor([1])}

      for fun <- [
            &Training.fit(&1, &2, verbose: false),
            &Training.evaluate/2,
            &Training.compute_gradients/2,
            &Training.train_step/2
          ],
          do: assert_error("take: index 7 is out of bounds", fn -> fun.(model, data) end)
    end

    test "that raises in an evaluation, or has a batch that is none" do
      raises =
        Stream.map(1..2, fn
          1 -> {x(), y()}
          2 -> raise "oops"
        end)

      error =
        assert_error("evaluate: the data raised RuntimeError: oops", fn ->
          Training.evaluate(model(), raises)
        end)

      assert %RuntimeError{message: "oops"} = error.details.error

      assert_error("evaluate: batch 2: data must be {x, y} or {x, y, weights}, got 3", fn ->
        Training.evaluate(model(), [{x(), y()}, 3])
      end)
    end

    test "that is used up by the first epoch" do
      {:ok, agent} = Agent.start_link(fn -> [{x(), y()}] end)
      take = fn -> Agent.get_and_update(agent, &{&1, []}) end

      batches =
        Stream.resource(
          take,
          fn
            [] -> {:halt, []}
            left -> {left, []}
          end,
          fn _ -> :ok end
        )

      assert_error("no batches in epoch 2", fn -> fit(batches, epochs: 2) end)
    end

    test "that is none" do
      assert_error("data must be {x, y} or an enumerable", fn -> fit(x()) end)
      assert_error("data must be {x, y}", fn -> fit([x()]) end)
      assert_error("x", fn -> fit({[1, 2], y()}) end)
      assert_error("y must be a tensor", fn -> fit({x(), [1, 2]}) end)
      assert_error("y is a scalar", fn -> fit({x(), Nx.tensor(1)}) end)
    end

    test "of a wrong shape, rank or key" do
      assert_error("expected {batch, 2}", fn -> fit({Nx.iota({4, 3}, type: :f32), y()}) end)
      assert_error("expected {batch, 2}", fn -> fit({Nx.iota({4}, type: :f32), y()}) end)
      assert_error("fit: ", fn -> fit({%{"z" => x()}, y()}) end)
      assert_error("fit: ", fn -> fit({%{}, y()}) end)
    end

    test "with targets that do not go with the loss" do
      assert_error("targets of :cross_entropy have the shape {4, 2}", fn ->
        fit({x(), Nx.iota({4, 2})})
      end)

      assert_error("fit: ", fn -> fit({x(), {y(), y()}}) end)
    end

    test "with labels out of range" do
      for labels <- [[0, 1, 2, 3], [0, 1, 2, -1]] do
        assert_error("labels of :cross_entropy must lie in 0..2", fn ->
          fit({x(), Nx.tensor(labels)})
        end)
      end

      assert_error("labels", fn -> fit({x(), y()}, validation_data: {x(1), Nx.tensor([5])}) end)
      assert_error("labels", fn -> fit([{x(), y()}, {x(1), Nx.tensor([5])}]) end)

      assert_error("evaluate: labels", fn ->
        Training.evaluate(model(), {x(1), Nx.tensor([5])})
      end)
    end

    test "with targets that are complex numbers" do
      data = {x(), Nx.as_type(Nx.broadcast(1, {4, 3}), :c64)}

      for loss <- ExBurn.Training.Loss.names() do
        text = "#{inspect(loss)} compares real numbers, targets are c64; give their parts by"
        fit = fn -> Training.fit(model(loss: loss), data, verbose: false) end
        assert_error("fit: #{text}", fit)
      end

      assert_error("train_step: :mse compares", fn ->
        Training.train_step(model(loss: :mse), data)
      end)

      assert_error("evaluate: :mse compares", fn -> Training.evaluate(model(loss: :mse), data) end)

      one = fn _y, p -> Nx.mean(p) end

      assert_error("fit: :mae compares real numbers, got targets of c64", fn ->
        Training.fit(model(loss: one, metrics: [:mae]), data, verbose: false)
      end)

      complex = {:mine, fn _y, p -> Nx.as_type(Nx.mean(p), :c64) end}

      assert_error(
        "fit: :mine must answer a scalar of a real type, got c64 of the shape {}",
        fn ->
          fit = model(loss: one, metrics: [complex])
          Training.fit(fit, {x(), Nx.broadcast(1.0, {4, 3})}, verbose: false)
        end
      )
    end

    test "with complex targets that meet the model's answers" do
      data = {x(), Nx.as_type(Nx.broadcast(1, {4, 3}), :c64)}
      model = model(loss: fn y, p -> Nx.mean(Nx.abs(Nx.subtract(y, p))) end)

      for {op, run} <- [
            fit: &Training.fit(&1, &2, verbose: false),
            train_step: &Training.train_step/2,
            profile_step: &Training.profile_step/2,
            compute_gradients: &Training.compute_gradients/2
          ] do
        text =
          "#{op}: the loss leads to the parameters through complex numbers, subtract answers c64, " <>
            "and gradients: :autodiff follows real ones; take Nx.real/1 and Nx.imag/1"

        assert_error(text, fn -> run.(model, data) end)
      end
    end

    test "with complex numbers that a loop or a branch takes on the way" do
      data = {x(), Nx.as_type(Nx.broadcast(1, {4, 3}), :c64)}

      for loss <- [&far_in_loop/2, &product_in_loop/2, &transform_in_branch/2],
          options <- [[], [gradient_checkpointing: true]] do
        assert_error("compute_gradients: the loss leads to the parameters through complex", fn ->
          Training.compute_gradients(model(loss: loss), data, options)
        end)
      end
    end

    test "with targets that are no probabilities" do
      model = model(loss: :binary_cross_entropy)

      assert_error("targets of :binary_cross_entropy must lie in 0..1", fn ->
        Training.fit(model, {x(), Nx.broadcast(2, {4, 3})}, verbose: false)
      end)
    end
  end

  describe "options" do
    test "that are unknown" do
      assert_error("fit: unknown option :epoch; known options are :accumulate_gradients, ", fn ->
        fit({x(), y()}, epoch: 1)
      end)

      assert_error("evaluate: unknown option", fn ->
        Training.evaluate(model(), {x(), y()}, size: 1)
      end)
    end

    test "that are given twice" do
      assert_error("fit: option :epochs is given twice", fn ->
        fit({x(), y()}, epochs: 1, batch_size: 2, epochs: 2)
      end)

      twice = [metrics: [:accuracy, :mae, accuracy: fn _y, p -> Nx.mean(p) end]]
      assert_error("metrics: is [:accuracy, :mae, :accuracy]", fn -> model(twice) end)

      # Over validation data the first one has the second's name.
      clash = [metrics: [:mae, val_mae: fn _y, p -> Nx.mean(p) end]]
      assert_error("metrics: is [:mae, :val_mae], expected no metric", fn -> model(clash) end)
    end

    test "with wrong values" do
      for {option, expected} <- [
            {[batch_size: 0], "batch_size: is 0, expected a positive integer"},
            {[epochs: 0], "epochs: is 0"},
            {[epochs: 1.5], "epochs: is 1.5"},
            {[shuffle: :yes], "shuffle: is :yes, expected true or false"},
            {[verbose: nil], "verbose: is nil"},
            {[seed: -1], "seed: is -1"},
            {[epochs: 10 ** 20],
             "epochs: is 100000000000000000000, expected a positive integer below 2^63"},
            {[batch_size: 10 ** 20],
             "batch_size: is 100000000000000000000, expected a positive integer below 2^63"},
            {[accumulate_gradients: 2 ** 63],
             "accumulate_gradients: is 9223372036854775808, expected a positive integer below 2^63"},
            {[gradient_checkpointing: {:every, 10 ** 20}],
             "gradient_checkpointing: is {:every, 100000000000000000000}, expected true, false or"},
            {[loss_scale: {:dynamic, interval: 10 ** 20}],
             "loss_scale: is {:dynamic, [interval: "},
            {[weight_decay: 10 ** 400],
             "weight_decay: is an integer of 401 digits, expected a number of at least 0 that a float can hold"},
            {[class_weights: [10 ** 400, 1, 1]], "class_weights: is [1000"},
            {[lr_schedule: {:exponential, 1.0, 10 ** 400}],
             "lr_schedule: the rate of epoch 2 is more than a float can hold"},
            {[lr_schedule: fn _ -> 10 ** 400 end],
             "lr_schedule: the rate of epoch 1 is more than a float can hold"},
            {[callbacks: [fn -> :ok end]], "callbacks: is "},
            {[validation_data: 1.0], "validation_data: is 1.0"},
            {[validation_data: 0.01], "validation_data: 0.01 of 4 rows"},
            {[lr_schedule: :cosine], "lr_schedule: is :cosine"},
            {[lr_schedule: fn _ -> -1 end], "lr_schedule: answers -1"}
          ] do
        assert_error("fit: " <> expected, fn -> fit({x(), y()}, option) end)
      end
    end

    test "that have no effect" do
      for option <- [monitor: :val_loss, mode: :max] do
        text = ~r/: #{elem(option, 0)}: is :\w+, which goes with best:/

        for {op, run} <- [
              checkpoint_callback: fn -> Training.checkpoint_callback(1, "runs", [option]) end,
              restore: fn -> Training.restore(model(), "runs", [option]) end
            ],
            do: assert(Exception.message(assert_error("#{op}: ", run)) =~ text)
      end
    end

    test "that are lists with a tail that is none" do
      callback = fn _event, state -> {:cont, state} end

      for {name, value} <- [callbacks: [callback | 1], class_weights: [1, 1 | 1]],
          do: assert_error("fit: #{name}: is [", fn -> fit({x(), y()}, [{name, value}]) end)

      assert_error("compile: metrics: is [:mae | :mse], expected a list", fn ->
        model(metrics: [:mae | :mse])
      end)
    end

    test "that are no process, and no device, in one line" do
      assert_error("history_callback: agent: is nil, expected an Agent's process or", fn ->
        Training.history_callback(nil)
      end)

      error =
        assert_error("device: there is no device #Nx", fn -> fit({x(), y()}, device: x()) end)

      refute Exception.message(error) =~ "\n"
    end

    test "as large as they can be" do
      for option <- [
            [batch_size: 2 ** 63 - 1],
            [accumulate_gradients: 2 ** 63 - 1],
            [gradient_checkpointing: {:every, 2 ** 63 - 1}],
            [loss_scale: {:dynamic, interval: 2 ** 63 - 1}],
            [clip_norm: 3.4e38],
            [clip_value: 3.4e38]
          ],
          do: assert(%Model{} = fit({x(), y()}, [epochs: 1] ++ option))
    end

    test "with numbers that nothing can hold, elsewhere" do
      assert_error("checkpoint_callback: every: is 100000000000000000000", fn ->
        Training.checkpoint_callback({10 ** 20, :steps}, "runs")
      end)

      assert_error("early_stopping_callback: min_delta: is an integer of 401 digits", fn ->
        Training.early_stopping_callback(2, 10 ** 400)
      end)

      assert_error("compile: learning_rate: is an integer of 401 digits", fn ->
        model(learning_rate: 10 ** 400)
      end)

      assert_error("compile: eps: is an integer of 401 digits", fn ->
        model(optimizer: {:adam, eps: 10 ** 400})
      end)
    end

    # A gradient of f32 would be 0 then.
    test "with bounds of gradients that f32 can't hold" do
      for name <- [:clip_norm, :clip_value], value <- [1.0e-300, 1.0e-39, 1.0e39, 10 ** 400] do
        text = "expected a number above 0 that f32 can hold, from 1.2e-38 to 3.4e38, or nil"
        error = assert_error("fit: #{name}: is ", fn -> fit({x(), y()}, [{name, value}]) end)
        assert Exception.message(error) =~ text
      end
    end

    test "that need the data as a whole" do
      assert_error("can't be held out", fn -> fit([{x(), y()}], validation_data: 0.5) end)
    end
  end

  describe "the model" do
    test "without a loss" do
      assert_error("has no loss", fn -> Training.fit(model(loss: nil), {x(), y()}) end)
    end

    test "from a file" do
      assert_error("loaded from a file", fn ->
        Training.fit(%{model() | axon: nil}, {x(), y()})
      end)
    end

    test "with parameters that are no floats" do
      for {type, name} <- [{{:s, 64}, "s64"}, {{:c, 64}, "c64"}] do
        weights = Axon.param("weights", {2}, type: type, initializer: :ones)
        times = fn x, w, _opts -> x |> Nx.multiply(w) |> Nx.real() end
        input = Axon.input("x", shape: {nil, 2})
        axon = times |> Axon.layer([input, weights], name: "mine") |> Axon.dense(3)
        model = Model.compile(axon, loss: :cross_entropy)
        text = "the parameter mine.weights is #{name}, and only floats can be trained; freeze it"
        assert_error("fit: #{text}", fn -> Training.fit(model, {x(), y()}, verbose: false) end)
        assert_error(text, fn -> Training.compute_gradients(model, {x(), y()}) end)
        frozen = ExBurn.freeze(model, "mine")
        assert %Model{} = Training.fit(frozen, {x(), y()}, epochs: 1, verbose: false)
      end
    end

    test "all frozen" do
      model = model()
      frozen = MapSet.new(model.parameters, &elem(&1, 0))

      assert_error("no parameters to train", fn ->
        Training.fit(%{model | frozen: frozen}, {x(), y()})
      end)
    end
  end

  describe "a loss that is not finite" do
    test "ends the run, says where, and keeps the last good model" do
      # The third batch of the second epoch divides zero by zero.
      batches = for bad <- [1.0, 1.0, 0.0], do: {x(), Nx.broadcast(bad, {4, 3})}
      {:ok, epoch} = Agent.start_link(fn -> 0 end)

      feed =
        Stream.resource(
          fn ->
            if Agent.get_and_update(epoch, &{&1, &1 + 1}) == 0,
              do: Enum.take(batches, 2),
              else: batches
          end,
          fn
            [] -> {:halt, []}
            left -> {left, []}
          end,
          fn _ -> :ok end
        )

      loss = fn y, p -> Nx.mean(Nx.divide(Nx.multiply(p, y), Nx.multiply(y, y))) end
      model = model(loss: loss, optimizer: :sgd)

      error =
        assert_error("the loss is", fn -> Training.fit(model, feed, epochs: 3, verbose: false) end)

      assert %{epoch: 2, step: 3, model: %Model{} = last, history: [%{epoch: 1}]} = error.details
      assert Exception.message(error) =~ "epoch 2, step 3"

      # Four good steps were made.
      good = Training.fit(model, List.duplicate(hd(batches), 4), epochs: 1, verbose: false)
      assert_relative(parameters(last), parameters(good), 1.0e-6)
    end

    test "after a step too far takes the step back" do
      axon = "x" |> Axon.input(shape: {nil, 2}) |> Axon.dense(4) |> Axon.dense(3)
      model = Model.compile(axon, loss: :mse, optimizer: :sgd, learning_rate: 1.0e30, seed: 1)
      data = {x(64), Nx.broadcast(1.0, {64, 3})}

      error =
        assert_error("the loss is", fn -> Training.fit(model, data, epochs: 3, verbose: false) end)

      assert %{epoch: 1, step: 2} = error.details
      assert parameters(error.details.model) == parameters(model)
    end

    test "a gradient that is not finite names its parameter" do
      axon =
        "x"
        |> Axon.input(shape: {nil, 2})
        |> Axon.dense(3, name: "first")
        |> Axon.dense(3, name: "last", kernel_initializer: :zeros)

      # The root of 0 is finite, its derivative is not.
      loss = fn y, p -> Nx.mean(Nx.multiply(y, Nx.sqrt(p))) end
      data = {x(), Nx.broadcast(1.0, {4, 3})}

      for gradients <- [:autodiff, :symbolic] do
        model = Model.compile(axon, loss: loss, seed: 1)
        opts = [verbose: false, gradients: gradients]
        error = assert_error("fit: the gradient of ", fn -> Training.fit(model, data, opts) end)
        assert error.details.parameter in ["first.bias", "first.kernel", "last.bias"]
        assert Exception.message(error) =~ "the gradient of #{error.details.parameter} is"
        assert parameters(error.details.model) == parameters(model)
      end
    end

    test "is reported by train_step under its name, without an epoch" do
      nan = Nx.broadcast(Nx.Constants.nan(:f32), {4, 2})
      model = model()
      step = fn -> Training.train_step(model, {nan, y()}) end
      error = assert_error("train_step: the loss is NaN; the first output", step)
      refute Exception.message(error) =~ ~r/fit|epoch/
      assert error.op == :train_step
      assert parameters(error.details.model) == parameters(model)

      far = model(optimizer: :sgd, learning_rate: 1.0e308)
      assert_error("train_step: the parameter", fn -> Training.train_step(far, {x(), y()}) end)
    end

    test "in an evaluation that a float can't add up is infinite" do
      loss = fn y, p ->
        Nx.sum(Nx.as_type(Nx.multiply(Nx.add(p, y), 0), :f64)) |> Nx.add(1.7e308)
      end

      data = {x(), Nx.broadcast(0.0, {4, 3})}
      assert Training.evaluate(model(loss: loss), data) == %{loss: :infinity}
    end

    test "in validation is reported in the history" do
      loss = fn y, p -> Nx.mean(Nx.divide(Nx.multiply(p, y), Nx.multiply(y, y))) end
      ones = Nx.broadcast(1.0, {4, 3})
      opts = [epochs: 1, verbose: false, validation_data: {x(), Nx.multiply(ones, 0.0)}]
      {_, [entry]} = Training.fit_with_progress(model(loss: loss), {x(), ones}, opts)
      assert entry.val_loss == :nan
    end
  end
end
