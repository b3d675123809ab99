defmodule ExBurn.Training.StepScheduleTest do
  # Learning rates by steps. The slope of the loss by the bias is 1, so the bias is what the rates add up to.
  use ExBurn.Case, async: true

  alias ExBurn.{Model, Training}

  doctest ExBurn.Training.Rates

  defp model(optimizer \\ :sgd) do
    "x"
    |> Axon.input(shape: {nil, 1})
    |> Axon.dense(1)
    |> Model.compile(loss: fn _y, p -> Nx.mean(p) end, optimizer: optimizer)
  end

  # Three batches of two rows.
  defp data, do: {Nx.broadcast(0.0, {6, 1}), Nx.broadcast(0.0, {6, 1})}
  defp batches, do: List.duplicate({Nx.broadcast(0.0, {2, 1}), Nx.broadcast(0.0, {2, 1})}, 3)

  defp fit(data, schedule, opts \\ []) do
    test = self()

    look = fn
      {:epoch, info}, state -> {:cont, send(test, {:bias, bias(info.model.())}) && state}
      _event, state -> {:cont, state}
    end

    {callbacks, opts} = Keyword.pop(opts, :callbacks, [])
    opts = [batch_size: 2, epochs: 2, lr_schedule: schedule, verbose: false] ++ opts

    {_model, history} =
      Training.fit_with_progress(model(), data, [callbacks: callbacks ++ [look]] ++ opts)

    for entry <- history do
      assert_received {:bias, bias}
      {entry.learning_rate, bias}
    end
  end

  defp bias(model),
    do:
      model.parameters
      |> Map.new()
      |> Map.fetch!(["dense_0", "bias"])
      |> Nx.squeeze()
      |> Nx.to_number()

  defp assert_epochs(got, want) do
    assert length(got) == length(want)

    for {{rate, bias}, {wanted, sum}} <- Enum.zip(got, want) do
      assert_in_delta rate, wanted, 1.0e-12
      assert_in_delta bias, -sum, 1.0e-6
    end
  end

  @linear {:steps, {:linear, 1.0, 0.0}}

  test "each step has its rate, over all epochs" do
    assert_epochs(fit(data(), @linear), [{0.6, 2.4}, {0.0, 3.0}])
    assert_epochs(fit(batches(), @linear), [{0.6, 2.4}, {0.0, 3.0}])
    assert_epochs(fit(data(), {:steps, fn step -> step / 10 end}), [{0.3, 0.6}, {0.6, 2.1}])
  end

  test "warming up by steps" do
    schedule = {:steps, {:warmup, 4, {:step, 1.0, 1, 0.5}}}
    assert_epochs(fit(data(), schedule), [{0.75, 1.5}, {0.5, 4.0}])
  end

  # Two batches make a step, and the last of an epoch one.
  test "steps are those of the optimizer" do
    assert_epochs(fit(data(), @linear, accumulate_gradients: 2), [{2 / 3, 5 / 3}, {0.0, 2.0}])
  end

  test "the number of steps can be given, and later steps are as the last one" do
    stream = Stream.map(batches(), & &1)
    schedule = {:steps, 4, {:linear, 0.8, 0.2}}
    assert_epochs(fit(stream, schedule), [{0.4, 1.8}, {0.2, 2.4}])

    assert_raise Error, ~r/give {:steps, number of steps, schedule}/, fn ->
      fit(stream, @linear)
    end
  end

  test "callbacks change all steps of an epoch by a factor" do
    assert_epochs(
      fit(data(), @linear, callbacks: [Training.warmup_callback(2)]),
      [{0.3, 1.2}, {0.0, 1.8}]
    )
  end

  test "a batch that is left out is no step" do
    {x, y} = hd(batches())
    bad = {Nx.multiply(x, Nx.Constants.nan(:f32)), y}
    left = [bad | tl(batches())]

    assert_epochs(fit(left, {:steps, 4, {:linear, 0.8, 0.2}}, nan: :skip), [
      {0.6, 1.4},
      {0.2, 2.0}
    ])
  end

  test "what makes no sense is refused" do
    for {schedule, message} <- [
          {{:steps, {:steps, {:linear, 1, 0}}}, "expected {:step, base, every, gamma}"},
          {{:steps, 0, {:linear, 1, 0}}, "expected {:step, base, every, gamma}"},
          {{:steps, fn _ -> -1 end}, "lr_schedule: answers -1, expected a number of at least 0"},
          {{:steps, 10 ** 12, {:linear, 1, 0}},
           "1000000000000 steps are more than 50000000; give one by epochs"},
          {{:steps, fn _ -> raise "oops" end}, "raised for step 1: RuntimeError: oops"}
        ] do
      error = assert_raise Error, fn -> fit(data(), schedule) end
      assert Exception.message(error) =~ message
    end

    pair = Polaris.Optimizers.sgd(learning_rate: 0.1)

    assert_raise Error, ~r/lr_schedule: has no effect on a pair/, fn ->
      Training.fit(model(pair), data(), lr_schedule: @linear)
    end
  end
end
