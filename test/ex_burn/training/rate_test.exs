defmodule ExBurn.Training.RateTest do
  use ExBurn.Case, async: true

  alias ExBurn.{Model, Training}

  doctest ExBurn.Training.Callbacks.Control

  @rate 0.01

  # Its loss is the same in all epochs, since nothing is trained by a gradient of 0.
  defp still do
    axon = "x" |> Axon.input(shape: {nil, 2}) |> Axon.dense(1)
    loss = fn y, p -> Nx.add(Nx.mean(Nx.multiply(p, 0)), Nx.mean(y)) end
    Model.compile(axon, loss: loss, optimizer: :sgd, learning_rate: @rate)
  end

  defp rates(callbacks, opts \\ []) do
    data = {Nx.iota({4, 2}, type: :f32), Nx.iota({4, 1}, type: :f32)}
    opts = Keyword.merge([verbose: false, callbacks: callbacks, epochs: 6], opts)
    {_model, history} = Training.fit_with_progress(still(), data, opts)
    Enum.map(history, & &1.learning_rate)
  end

  defp assert_rates(got, want) do
    assert length(got) == length(want)
    for {g, w} <- Enum.zip(got, want), do: assert_in_delta(g, w, 1.0e-12)
  end

  test "warmup_callback takes a growing share of the rate" do
    assert_rates(
      rates([Training.warmup_callback(4)]),
      [0.0025, 0.005, 0.0075, 0.01, 0.01, 0.01]
    )

    schedule = {:step, 0.8, 2, 0.5}

    assert_rates(
      rates([Training.warmup_callback(2)], lr_schedule: schedule),
      [0.4, 0.8, 0.4, 0.4, 0.2, 0.2]
    )
  end

  test "warmup_callback goes from a rate to another" do
    assert_rates(
      rates([Training.warmup_callback(3, 0.1, 0.5)]),
      [0.1, 0.3, 0.5, @rate, @rate, @rate]
    )
  end

  test "reduce_lr_on_plateau_callback reduces it after each wait in vain" do
    reduce = &[Training.reduce_lr_on_plateau_callback(&1)]

    assert_rates(rates(reduce.(patience: 2)), [0.01, 0.01, 0.01, 0.005, 0.005, 0.0025])

    assert_rates(
      rates(reduce.(patience: 1, factor: 0.1, min_lr: 0.0005)),
      [0.01, 0.01, 0.001, 0.0005, 0.0005, 0.0005]
    )
  end

  test "a loss that falls is no plateau" do
    callback = Training.reduce_lr_on_plateau_callback(patience: 2)
    losses = [{3.0, nil}, {2.0, nil}, {2.0, nil}, {1.0, nil}, {9.0, 0.5}, {9.0, 0.4}, {0.1, 0.4}]

    {rates, _state} =
      Enum.map_reduce(losses, nil, fn {loss, val_loss}, state ->
        info = %{loss: loss, val_loss: val_loss, next_learning_rate: 1.0}
        {:learning_rate, rate, state} = callback.({:epoch, info}, state)
        {rate, state}
      end)

    assert rates == List.duplicate(1.0, 7)
  end

  test "callbacks see what those before them have made of the rate" do
    double = fn
      {:epoch, %{next_learning_rate: rate}}, state when rate != nil ->
        {:learning_rate, rate * 2, state}

      _event, state ->
        {:cont, state}
    end

    assert_rates(
      rates([Training.warmup_callback(3), double, double], epochs: 4),
      [@rate / 3, @rate * 8 / 3, @rate * 4, @rate * 4]
    )
  end

  test "schedules are followed epoch by epoch" do
    schedules = [
      {{:step, 0.4, 2, 0.5}, [0.4, 0.4, 0.2, 0.2, 0.1, 0.1]},
      {{:exponential, 0.8, 0.5}, [0.8, 0.4, 0.2, 0.1, 0.05, 0.025]},
      {{:linear, 0.5, 0.0}, [0.5, 0.4, 0.3, 0.2, 0.1, 0.0]},
      {{:warmup, 2, {:linear, 0.4, 0.1}}, [0.2, 0.4, 0.4, 0.3, 0.2, 0.1]},
      {&(&1 / 10), [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]},
      {{:cosine, 0.4, 0.2}, for(n <- 0..5, do: 0.3 + 0.1 * :math.cos(:math.pi() * n / 5))}
    ]

    for {schedule, want} <- schedules, do: assert_rates(rates([], lr_schedule: schedule), want)
  end

  test "wrong answers and options are refused" do
    answering = fn answer ->
      fn
        {:epoch, _info}, _state -> answer
        _event, state -> {:cont, state}
      end
    end

    assert_raise Error, ~r/a callback answers the learning rate -1, expected a number/, fn ->
      rates([answering.({:learning_rate, -1, nil})])
    end

    for {call, message} <- [
          {fn -> Training.warmup_callback(0) end, "warmup_callback: epochs: is 0"},
          {fn -> Training.warmup_callback(2, -1, 1) end, "warmup_callback: from: is -1"},
          {fn -> Training.reduce_lr_on_plateau_callback(factor: 2) end, "factor: is 2"},
          {fn -> Training.reduce_lr_on_plateau_callback(wait: 2) end, "unknown option :wait"},
          {fn -> Training.checkpoint_callback(0, "x") end, "checkpoint_callback: every: is 0"},
          {fn -> Training.checkpoint_callback(1, "x", keep: 0) end, "keep: is 0"}
        ] do
      error = assert_raise Error, call
      assert Exception.message(error) =~ message
    end
  end
end
