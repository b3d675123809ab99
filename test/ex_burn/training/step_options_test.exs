defmodule ExBurn.Training.StepOptionsTest do
  use ExBurn.Case, async: true

  import ExBurn.Oracle

  alias ExBurn.{GradientCases, Model, Training}
  alias ExBurn.Training.Weights

  @quiet [verbose: false, epochs: 3, shuffle: false]

  defp model(opts \\ []) do
    axon = "x" |> Axon.input(shape: {nil, 3}) |> Axon.dense(4, activation: :tanh) |> Axon.dense(2)

    defaults = [loss: :cross_entropy, optimizer: :sgd, learning_rate: 0.1, seed: 4]
    Model.compile(axon, Keyword.merge(defaults, opts))
  end

  defp x, do: GradientCases.random({8, 3}, 3)
  defp y, do: Nx.tensor([0, 1, 1, 0, 1, 0, 0, 1])

  # Whether batches that make one step make that of all rows as one batch: their weights differ, the first one has none.
  test "gradients of weighted batches are those of all rows at once" do
    rows = Nx.tensor([0, 0, 1, 0, 3, 0.5, 2, 4])
    parts = [batch_size: 2, accumulate_gradients: 4] ++ @quiet

    for data <- [{x(), y(), rows}, {x(), y()}], more <- [[], [class_weights: [0.25, 4]]] do
      {whole, history} =
        Training.fit_with_progress(model(), data, [batch_size: 8] ++ more ++ @quiet)

      {summed, all} = Training.fit_with_progress(model(), data, more ++ parts)
      assert_alike(summed, whole)
      for {a, b} <- Enum.zip(all, history), do: assert_in_delta(a.loss, b.loss, 1.0e-6)
    end

    # Each batch has a mean of its own otherwise.
    {single, _} =
      Training.fit_with_progress(model(), {x(), y(), rows}, parts ++ [class_weights: nil])

    {plain, _} = Training.fit_with_progress(model(), {x(), y()}, parts)
    assert_raise ExUnit.AssertionError, fn -> assert_alike(single, plain) end
  end

  test "weights of rows that are sequences count in all places" do
    axon = "x" |> Axon.input(shape: {nil, 3}) |> Axon.dense(4) |> Axon.reshape({:batch, 2, 2})

    model =
      Model.compile(axon, loss: :cross_entropy, optimizer: :sgd, learning_rate: 0.1, seed: 4)

    y = Nx.tensor([[0, 1], [1, 1], [1, 0], [0, 0], [1, 0], [0, 1], [0, 0], [1, 1]])
    data = {x(), y, Nx.tensor([1, 2, 0, 5, 1, 1, 3, 0])}
    opts = [class_weights: [1, 3]] ++ @quiet
    whole = Training.fit(model, data, [batch_size: 8] ++ opts)

    assert_alike(
      Training.fit(model, data, [batch_size: 3, accumulate_gradients: 3] ++ opts),
      whole
    )
  end

  test "batches that are enumerated may have weights or not, and all may be 0" do
    batch = fn i, weights -> {x()[i..(i + 3)], y()[i..(i + 3)], weights} end
    {x, y, _} = batch.(4, nil)
    parts = [batch.(0, Nx.tensor([2, 0, 0, 2])), {x, y}]
    data = {x(), y(), Nx.tensor([2, 0, 0, 2, 1, 1, 1, 1])}
    whole = Training.fit(model(), data, [batch_size: 8] ++ @quiet)
    assert_alike(Training.fit(model(), parts, [accumulate_gradients: 2] ++ @quiet), whole)

    still = {x(), y(), Nx.broadcast(0, {8})}
    opts = [batch_size: 4, accumulate_gradients: 2] ++ @quiet
    {same, history} = Training.fit_with_progress(model(), still, opts)
    assert_alike(same, model())
    assert Enum.all?(history, &(&1.loss == 0.0))
  end

  test "an evaluation does not depend on the batches" do
    data = {x(), y(), Nx.tensor([0, 0, 1, 0, 3, 0.5, 2, 4])}
    opts = [class_weights: [0.25, 4]]
    whole = Training.evaluate(model(), data, [batch_size: 8] ++ opts)
    parts = Training.evaluate(model(), data, [batch_size: 3] ++ opts)
    assert_in_delta whole.loss, parts.loss, 1.0e-6
  end

  defp assert_alike(a, b) do
    for {{path, got}, {path, want}} <- Enum.zip(a.parameters, b.parameters),
        do: assert_close(got, want)
  end

  test "rows with a weight of 0 are not there, others count as often" do
    weights = Nx.tensor([2, 1, 1, 0, 1, 1, 0, 1])
    order = Nx.tensor([0, 0, 1, 2, 4, 5, 7])

    {weighed, history} =
      Training.fit_with_progress(model(), {x(), y(), weights}, [batch_size: 8] ++ @quiet)

    repeated = {Nx.take(x(), order), Nx.take(y(), order)}

    {wanted, wanted_history} =
      Training.fit_with_progress(model(), repeated, [batch_size: 7] ++ @quiet)

    assert_relative(parameters(weighed), parameters(wanted), 1.0e-5)
    for {a, b} <- Enum.zip(history, wanted_history), do: assert_in_delta(a.loss, b.loss, 1.0e-6)
  end

  test "batches and validation data can have weights too" do
    weights = Nx.tensor([2.0, 1.0, 0.5, 0.0, 1.0, 1.0, 3.0, 1.0])
    batches = for i <- [0, 4], do: {x()[i..(i + 3)], y()[i..(i + 3)], weights[i..(i + 3)]}
    validation = [batch_size: 4, validation_data: {x(), y(), weights}]
    {fed, history} = Training.fit_with_progress(model(), batches, validation ++ @quiet)
    whole = [batch_size: 4, validation_data: {x(), y(), weights}] ++ @quiet
    assert {model, ^history} = Training.fit_with_progress(model(), {x(), y(), weights}, whole)
    assert parameters(fed) == parameters(model)
    evaluated = Training.evaluate(model, {x(), y(), weights}, batch_size: 4)
    assert_in_delta evaluated.loss, List.last(history).val_loss, 1.0e-6
    refute_in_delta Training.evaluate(model, {x(), y()}).loss, evaluated.loss, 1.0e-4
  end

  test "classes with a weight count as rows with it" do
    by_row = Nx.select(y(), 5.0, 0.5)

    {by_class, history} =
      Training.fit_with_progress(model(), {x(), y()}, [class_weights: [0.5, 5]] ++ @quiet)

    {wanted, wanted_history} = Training.fit_with_progress(model(), {x(), y(), by_row}, @quiet)
    assert_relative(parameters(by_class), parameters(wanted), 1.0e-5)
    for {a, b} <- Enum.zip(history, wanted_history), do: assert_in_delta(a.loss, b.loss, 1.0e-6)
    assert by_class.class_weights == nil
  end

  test "a share held out takes its weights along" do
    # All held out have the weight of their class, so the loss is a mean weighted by class.
    {_model, [entry | _]} =
      Training.fit_with_progress(
        model(learning_rate: 0.0),
        {x(), y(), Nx.select(y(), 3.0, 0.0)},
        [validation_data: 0.5] ++ @quiet
      )

    assert entry.val_loss > 0
  end

  test "weights that are none are refused" do
    for {weights, message} <- [
          {Nx.tensor([1, 2]), "weights must be a vector of 8 real numbers"},
          {Nx.broadcast(1, {8, 1}), "weights must be a vector of 8 real numbers"},
          {Nx.tensor([1, 1, 1, 1, 1, 1, 1, -1]), "a weight is -1"},
          {List.duplicate(1, 8), "weights must be a vector"}
        ] do
      error = assert_raise Error, fn -> Training.fit(model(), {x(), y(), weights}, @quiet) end
      assert Exception.message(error) =~ "fit: " <> message
    end

    for weights <- [[1], %{2 => 1}, [1, 2, 3]] do
      assert_raise Error, ~r/^fit: class_weights: is .*, expected weights of classes 0..1/, fn ->
        Training.fit(model(), {x(), y()}, [class_weights: weights] ++ @quiet)
      end
    end

    assert_raise Error,
                 ~r/^fit: class_weights: is :balanced, expected weights of at least 0/,
                 fn ->
                   Training.fit(model(), {x(), y()}, class_weights: :balanced)
                 end
  end

  describe "weights that f32" do
    # Predicts 0, so the squares are 1 / 4 and 1 / 16.
    defp zeros(opts \\ [loss: :mse]) do
      "x"
      |> Axon.input(shape: {nil, 1})
      |> Axon.dense(1, kernel_initializer: :zeros)
      |> Model.compile(opts)
    end

    defp two_rows(weights), do: {Nx.tensor([[1.0], [1.0]]), Nx.tensor([[0.5], [0.25]]), weights}

    test "can just add up are weights as others" do
      for weights <- [[1.0e38, 2.0e38], [1.2e-38, 2.4e-38], [1, 2]] do
        assert_in_delta Training.evaluate(zeros(), two_rows(Nx.tensor(weights))).loss,
                        0.125,
                        1.0e-7
      end

      # As one batch they would be too many.
      weights = Nx.tensor([2.0e38, 2.0e38])
      opts = [batch_size: 1] ++ @quiet

      assert {_model, [_, _]} =
               Training.fit_with_progress(
                 zeros(),
                 two_rows(weights),
                 Keyword.put(opts, :epochs, 2)
               )

      assert_in_delta Training.evaluate(zeros(), two_rows(weights), batch_size: 1).loss,
                      0.15625,
                      1.0e-7
    end

    test "can't add up are refused, wherever they are given" do
      data = two_rows(Nx.tensor([2.0e38, 2.0e38]))

      text =
        "weights: of up to 2.00e+38 can add up to 4.00e+38 in a batch, which is more than the 3.4e38 that f32 can hold"

      for {op, run} <- [
            fit: &Training.fit(&1, data, @quiet),
            "fit: validation_data":
              &Training.fit(&1, two_rows(Nx.tensor([1, 1])), [validation_data: data] ++ @quiet),
            evaluate: &Training.evaluate(&1, data),
            train_step: &Training.train_step(&1, data),
            profile_step: &Training.profile_step(&1, data),
            compute_gradients: &Training.compute_gradients(&1, data)
          ] do
        error = assert_raise Error, fn -> run.(zeros()) end
        assert Exception.message(error) =~ "#{op}: " <> text
      end

      error = assert_raise Error, fn -> Training.fit(zeros(), [data], @quiet) end
      assert Exception.message(error) =~ "fit: batch 1 of epoch 1: " <> text
    end

    test "can't add up with those of their classes are refused" do
      model = zeros(loss: :binary_cross_entropy)
      {x, y, _} = two_rows(nil)
      weights = [class_weights: [1, 3.0e38]]
      text = ~r/^fit: class_weights: of up to 3.00e\+38 can add up to 6.00e\+38 in a batch/
      assert_raise Error, text, fn -> Training.fit(model, {x, y}, weights ++ @quiet) end
      text = ~r/^evaluate: weights: times class_weights: of up to 3.00e\+39 can add up/
      rows = Nx.tensor([10, 0])
      assert_raise Error, text, fn -> Training.evaluate(model, {x, y, rows}, weights) end

      text =
        ~r/^evaluate: weights: times class_weights: of up to 1.00e-40 are less than the 1.2e-38/

      rows = Nx.tensor([1.0e-20, 0])
      tiny = [class_weights: [1.0e-20, 1.0e-20]]
      assert_raise Error, text, fn -> Training.evaluate(model, {x, y, rows}, tiny) end
    end

    test "can't hold are refused" do
      for value <- [1.0e39, 1.0e-39, 1.0e-300] do
        text =
          ~r/^fit: a weight is #{value}, expected numbers of at least 0 of which f32 can hold/

        weights = Nx.tensor([value, 0], type: :f64)
        assert_raise Error, text, fn -> Training.fit(zeros(), two_rows(weights), @quiet) end
        text = ~r/^fit: class_weights: is .*, expected weights of at least 0 that f32 can hold/

        assert_raise Error, text, fn ->
          Training.fit(model(), {x(), y()}, [class_weights: [1, value]] ++ @quiet)
        end
      end

      # Among others, what is too small is nothing.
      weights = Nx.tensor([1, 1.0e-300], type: :f64)
      assert_in_delta Training.evaluate(zeros(), two_rows(weights)).loss, 0.25, 1.0e-7
    end

    # The mean of 81 and 16, the second row thrice as heavy.
    test "can add up, but not times the losses, are weights as others" do
      {x, _y, weights} = two_rows(Nx.tensor([5.0e37, 1.5e38]))
      data = {x, Nx.tensor([[9.0], [4.0]]), weights}
      opts = [validation_data: data, epochs: 1, batch_size: 2, verbose: false]

      for gradients <- [:autodiff, :symbolic] do
        model = zeros(loss: :mse, optimizer: :sgd, learning_rate: 0.0)
        opts = opts ++ [gradients: gradients]
        {_model, [entry]} = Training.fit_with_progress(model, data, opts)
        assert_in_delta entry.loss, 32.25, 1.0e-5
        assert_in_delta entry.val_loss, 32.25, 1.0e-5
        gradient = Training.compute_gradients(model, data, gradients: gradients)
        assert_in_delta Nx.to_number(gradient["dense_0"]["bias"][0]), -2 * 5.25, 1.0e-5
      end

      assert_in_delta Training.evaluate(zeros(), data).loss, 32.25, 1.0e-5
    end

    test "of f64 models are as exact as these" do
      items = Nx.tensor([1.0, 2.0, 4.0], type: :f64)
      {mean, _weight} = Weights.mean(items, nil, Nx.tensor([1.0, 1.0, 1.0]))
      assert_in_delta Nx.to_number(mean), 7 / 3, 1.0e-15
    end

    test "leave what is not finite to be told of: of training as an error, of an evaluation as it is" do
      {x, _y, weights} = two_rows(Nx.tensor([1.0, 1.0]))
      data = {x, Nx.tensor([[3.0e38], [9.0]]), weights}
      text = ~r/the loss is inf .*look at the targets, the weights and the loss$/
      assert_raise Error, text, fn -> Training.fit(zeros(), data, @quiet) end
      assert Training.evaluate(zeros(), data) == %{loss: :infinity}

      {_model, history} =
        Training.fit_with_progress(
          zeros(),
          two_rows(Nx.tensor([1, 1])),
          [validation_data: data] ++ @quiet
        )

      assert hd(history).val_loss == :infinity
    end
  end

  describe "gradients" do
    test "of several batches make the step of one large batch" do
      for {optimizer, more} <- [
            {:sgd, []},
            {{:sgd, momentum: 0.9}, [clip_norm: 0.1]},
            {:adam, [clip_value: 0.01]}
          ] do
        model = model(optimizer: optimizer)
        opts = more ++ @quiet
        whole = Training.fit(model, {x(), y()}, [batch_size: 8] ++ opts)
        # 3, 3 and 2 rows: the last batch is short, and the last step takes what is left.
        parts = Training.fit(model, {x(), y()}, [batch_size: 3, accumulate_gradients: 5] ++ opts)
        assert_relative(parameters(parts), parameters(whole), 1.0e-4)
      end

      half = Training.fit(model(), {x(), y()}, [batch_size: 4] ++ @quiet)

      pairs =
        Training.fit(model(), {x(), y()}, [batch_size: 2, accumulate_gradients: 2] ++ @quiet)

      assert_relative(parameters(pairs), parameters(half), 1.0e-5)
    end

    test "are clipped by Polaris' rules" do
      for {option, update} <- [
            {[clip_norm: 0.05], &Polaris.Updates.clip_by_global_norm(&1, max_norm: 0.05)},
            {[clip_value: 0.01], &Polaris.Updates.clip(&1, delta: 0.01)},
            {[weight_decay: 0.3], &Polaris.Updates.add_decayed_weights(&1, decay: 0.3)}
          ] do
        pair = Polaris.Updates.identity() |> update.() |> Polaris.Updates.scale(-0.1)
        ours = Training.fit(model(), {x(), y()}, option ++ @quiet)
        theirs = Training.fit(model(optimizer: pair), {x(), y()}, @quiet)
        assert_relative(parameters(ours), parameters(theirs), 1.0e-5)
        plain = Training.fit(model(), {x(), y()}, @quiet)
        assert parameters(ours) != parameters(plain)
        # A program's gradients are prepared too.
        sgd = Polaris.Optimizers.sgd(learning_rate: 0.1)
        prepared = Training.fit(model(optimizer: sgd), {x(), y()}, option ++ @quiet)
        assert_relative(parameters(prepared), parameters(ours), 1.0e-5)
      end
    end

    test "weight_decay is the option of optimizers that have one" do
      for name <- [:adamw, :lion, :lamb, :muon] do
        by_option = Training.fit(model(optimizer: {name, decay: 0.2}), {x(), y()}, @quiet)
        by_fit = Training.fit(model(optimizer: name), {x(), y()}, [weight_decay: 0.2] ++ @quiet)
        assert parameters(by_option) == parameters(by_fit)
      end
    end

    test "of a single step are clipped and decay as in fit" do
      more = [clip_norm: 0.05, clip_value: 0.04, weight_decay: 0.1]
      {_loss, stepped} = Training.train_step(model(), {x(), y()}, more)

      fitted =
        Training.fit(
          model(),
          {x(), y()},
          [verbose: false, epochs: 1, batch_size: 8, shuffle: false] ++ more
        )

      assert parameters(stepped) == parameters(fitted)
    end
  end

  describe "nan: :skip" do
    # A row of targets of 0 makes the loss infinite or no number.
    defp faulty, do: fn y, p -> Nx.mean(Nx.divide(Nx.multiply(p, y), Nx.multiply(y, y))) end

    test "leaves such batches out" do
      model = model(loss: faulty())
      good = for i <- [0, 4], do: {x()[i..(i + 3)], Nx.broadcast(1.0, {4, 2})}
      bad = {x()[0..3], Nx.broadcast(0.0, {4, 2})}
      test = self()

      told = fn
        {:epoch, info}, state -> {:cont, send(test, {:skipped, info.skipped}) && state}
        _event, state -> {:cont, state}
      end

      opts = [verbose: false, epochs: 2]
      batches = [bad, hd(good), bad, List.last(good), bad]

      {skipping, history} =
        Training.fit_with_progress(model, batches, [nan: :skip, callbacks: [told]] ++ opts)

      assert {wanted, ^history} = Training.fit_with_progress(model, good, opts)
      assert parameters(skipping) == parameters(wanted)
      assert_received {:skipped, 3}
      assert_received {:skipped, 3}
    end

    test "ends when nothing is left" do
      bad = {x(), Nx.broadcast(0.0, {8, 2})}

      error =
        assert_raise Error, fn ->
          Training.fit(model(loss: faulty()), bad, nan: :skip, verbose: false)
        end

      assert Exception.message(error) =~ "loss or gradient of every batch"
      assert %{epoch: 1, step: 1} = error.details
      assert parameters(error.details.model) == parameters(model())
    end
  end

  test "options are checked" do
    for {option, expected} <- [
          {[clip_norm: 0], "clip_norm: is 0, expected a number above 0 that f32 can hold"},
          {[clip_value: -1], "clip_value: is -1"},
          {[weight_decay: -0.1], "weight_decay: is -0.1, expected a number of at least 0"},
          {[accumulate_gradients: 0], "accumulate_gradients: is 0, expected a positive integer"},
          {[gradient_checkpointing: {:every, 0}],
           "gradient_checkpointing: is {:every, 0}, expected true, false or {:every, a positive"},
          {[gradient_checkpointing: true, gradients: :symbolic],
           "gradient_checkpointing: is true, but it is of gradients: :autodiff"},
          {[nan: :ignore], "nan: is :ignore, expected :stop or :skip"},
          {[resume: true], "resume: is true, expected the path of a directory"}
        ] do
      error = assert_raise Error, fn -> Training.fit(model(), {x(), y()}, option) end
      assert Exception.message(error) =~ "fit: " <> expected
    end
  end

  test "classes can have weights in single steps and in evaluations" do
    weighed = {x(), y(), Nx.select(y(), 5.0, 0.5)}
    opts = [class_weights: %{0 => 0.5, 1 => 5}]
    {loss, stepped} = Training.train_step(model(), {x(), y()}, opts)
    {want, by_row} = Training.train_step(model(), weighed)
    assert_in_delta loss, want, 1.0e-6
    assert_relative(parameters(stepped), parameters(by_row), 1.0e-5)
    assert stepped.class_weights == nil

    [gradients, wanted] =
      for gradients <- [
            Training.compute_gradients(model(), {x(), y()}, opts),
            Training.compute_gradients(model(), weighed)
          ],
          do: Nx.backend_copy(gradients["dense_1"]["kernel"], Nx.BinaryBackend)

    assert Nx.to_number(Nx.all_close(gradients, wanted, rtol: 1.0e-5)) == 1

    evaluated = Training.evaluate(model(), {x(), y()}, opts)
    assert_in_delta evaluated.loss, Training.evaluate(model(), weighed).loss, 1.0e-6
    refute_in_delta evaluated.loss, Training.evaluate(model(), {x(), y()}).loss, 1.0e-4
  end
end
