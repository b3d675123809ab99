defmodule ExBurn.Training.CallbacksTest do
  use ExBurn.Case, async: true

  import ExUnit.CaptureLog

  alias ExBurn.{Model, Training}

  doctest ExBurn.Training
  doctest ExBurn.Training.Callbacks

  defp model do
    axon = "x" |> Axon.input(shape: {nil, 2}) |> Axon.dense(1)
    Model.compile(axon, loss: :mse, optimizer: :sgd, learning_rate: 0.01)
  end

  defp data, do: {Nx.iota({4, 2}, type: :f32), Nx.iota({4, 1}, type: :f32)}

  defp fit(callbacks, opts \\ []),
    do:
      Training.fit_with_progress(model(), data(), [verbose: false, callbacks: callbacks] ++ opts)

  defp values(model), do: Enum.map(model.parameters, &Nx.to_binary(elem(&1, 1)))

  test "a callback sees each epoch and the end, and keeps a state of its own" do
    test = self()

    count = fn
      {:epoch, info}, state ->
        seen = (state || 0) + 1
        send(test, {:epoch, seen, info})
        {:cont, seen}

      {:end, info}, state ->
        send(test, {:end, state, info})
        {:cont, state}

      {:batch, info}, state ->
        send(test, {:batch, info})
        {:cont, state}
    end

    {model, history} = fit([count, count], epochs: 3, batch_size: 2)

    for epoch <- 1..3, _callback <- 1..2 do
      assert_received {:epoch, ^epoch, %{epoch: ^epoch, epochs: 3, samples: 4} = info}
      assert Map.take(info, Map.keys(hd(history))) == Enum.at(history, epoch - 1)
    end

    assert_received {:end, 3, %{reason: :finished, history: ^history, model: last}}
    assert values(last.()) == values(model)
    assert_received {:batch, %{epoch: 1, step: _, steps: 2, loss: loss}} when is_float(loss)
  end

  test "halting after an epoch ends the run with that epoch's parameters" do
    test = self()

    halt = fn
      {:epoch, %{epoch: 2, model: model}}, state ->
        send(test, {:parameters, values(model.())})
        {:halt, state}

      {:end, %{reason: reason}}, state ->
        send(test, {:reason, reason})
        {:cont, state}

      _event, state ->
        {:cont, state}
    end

    {model, history} = fit([halt], epochs: 10)
    assert Enum.map(history, & &1.epoch) == [1, 2]
    assert_received {:reason, :halted}
    assert_received {:parameters, parameters}
    assert parameters == values(model)
    refute_received {:ex_burn_train, _, _}
  end

  test "halting within an epoch ends it" do
    halt = fn
      {:batch, _}, state -> {:halt, state}
      _event, state -> {:cont, state}
    end

    batches = Stream.cycle([data()])

    {_model, history} =
      Training.fit_with_progress(model(), batches, callbacks: [halt], verbose: false)

    assert history == []
    refute_received {:ex_burn_train, _, _}
  end

  test "an exception in a callback ends the run, what is thrown passes, and nothing is left behind" do
    for {event, opts} <- [{:epoch, []}, {:batch, []}, {:end, [epochs: 1]}] do
      raising = fn
        {^event, _}, _state -> raise KeyError, key: :oops
        _event, state -> {:cont, state}
      end

      assert_raise Error, ~r/^fit: a callback .* raised KeyError: .*oops/, fn ->
        fit([raising], opts)
      end

      assert catch_throw(
               fit([
                 fn
                   {:epoch, _}, _ -> throw(:ball)
                   _, s -> {:cont, s}
                 end
               ])
             ) == :ball

      refute_received {:ex_burn_train, _, _}
    end
  end

  test "what a callback answers is checked" do
    assert_raise Error, ~r/must answer {:cont, state} or {:halt, state}, got :ok/, fn ->
      fit([fn _event, _state -> :ok end])
    end
  end

  test "messages of others stay in the mailbox" do
    send(self(), :mine)
    fit([])
    assert_received :mine
    refute_received _
  end

  test "logging_callback logs epochs" do
    log =
      capture_log(fn -> fit([Training.logging_callback(level: :error, every: 2)], epochs: 4) end)

    assert log =~ ~r"epoch 2/4: loss \d"
    assert log =~ "epoch 4/4"
    refute log =~ "epoch 3/4"
  end

  test "screen_callback and history_callback report to others" do
    {:ok, agent} = Agent.start_link(fn -> [] end)
    callbacks = [Training.screen_callback(self()), Training.history_callback(agent)]
    {_model, [first, second] = history} = fit(callbacks, epochs: 2)
    assert_received {:training_progress, 1, loss, nil}
    assert loss == first.loss
    assert_received {:training_progress, 2, _loss, nil}
    assert second.epoch == 2
    assert Agent.get(agent, & &1) == history

    {:ok, empty} = Agent.start_link(fn -> nil end)
    {_model, history} = fit([Training.history_callback(empty)], epochs: 2)
    assert Agent.get(empty, & &1) == history
  end

  describe "early_stopping_callback" do
    defp run(losses, callback) do
      Enum.reduce_while(losses, {nil, 0}, fn {loss, val_loss}, {state, epochs} ->
        {verdict, state} = callback.({:epoch, %{loss: loss, val_loss: val_loss}}, state)
        {verdict, {state, epochs + 1}}
      end)
      |> elem(1)
    end

    test "waits for patience epochs without a smaller validation loss" do
      losses = for val <- [1.0, 0.9, 0.95, 0.91, 0.8, 0.85], do: {0.0, val}
      assert run(losses, Training.early_stopping_callback(2)) == 4
      assert run(losses, Training.early_stopping_callback(3)) == 6
    end

    test "asks for an improvement of more than min_delta" do
      losses = for loss <- [1.0, 0.95, 0.9, 0.85], do: {loss, nil}
      assert run(losses, Training.early_stopping_callback(2, 0.2)) == 3
      assert run(losses, Training.early_stopping_callback(2, 0.01)) == 4
    end

    test "counts what is not finite as no improvement" do
      losses = [{0.0, :nan}, {0.0, :nan}, {0.0, 1.0}]
      assert run(losses, Training.early_stopping_callback(2)) == 2
    end

    test "ends a run whose loss stands still" do
      {_model, history} =
        fit([Training.early_stopping_callback(2)], epochs: 50, lr_schedule: fn _ -> 0.0 end)

      assert length(history) == 3
    end
  end

  test "built-in callbacks refuse wrong options" do
    for {make, message} <- [
          {fn -> Training.early_stopping_callback(0) end,
           "early_stopping_callback: patience: is 0, expected a positive integer"},
          {fn -> Training.early_stopping_callback(1, -1) end,
           "early_stopping_callback: min_delta: is -1, expected a number of at least 0"},
          {fn -> Training.logging_callback(every: 0) end,
           "logging_callback: every: is 0, expected a positive integer"},
          {fn -> Training.logging_callback(level: :loud) end,
           "logging_callback: level: is :loud, expected a level of Logger"},
          {fn -> Training.logging_callback(evry: 1) end,
           "logging_callback: unknown option :evry; known options are :every, :level"},
          {fn -> Training.progress_bar_callback(mode: :html) end,
           "progress_bar_callback: mode: is :html, expected :auto, :plain or :terminal"},
          {fn -> Training.screen_callback("me") end,
           ~s(screen_callback: pid: is "me", expected a process or its name)},
          {fn -> Training.checkpoint_callback(1, nil) end,
           "checkpoint_callback: dir: is nil, expected the path of a directory"}
        ] do
      assert_raise Error, message, make
    end
  end

  test "screen_callback finds a process by its name, or leaves it" do
    name = :"#{__MODULE__}.Screen"
    callback = Training.screen_callback(name)
    event = {:epoch, %{epoch: 1, loss: 0.5, val_loss: nil}}
    assert callback.(event, nil) == {:cont, nil}
    Process.register(self(), name)
    assert callback.(event, nil) == {:cont, nil}
    assert_received {:training_progress, 1, 0.5, nil}
    refute_received _
  end
end
