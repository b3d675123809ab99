defmodule ExBurn.Training.BestTest do
  # What is best of a run: stopping, keeping and answering it.
  use ExBurn.Case, async: true

  alias ExBurn.{Model, Training}
  alias ExBurn.Training.Checkpoint

  doctest ExBurn.Training.Callbacks.Watch
  doctest ExBurn.Training.Callbacks.EarlyStopping
  doctest ExBurn.Training.Callbacks.Checkpoints
  doctest ExBurn.Training.Checkpoint.Folder

  @moduletag :tmp_dir
  @score [monitor: :val_score, mode: :max]

  # The bias falls by 0.1 in each epoch and goes past the best place, -0.32: after 3 epochs it is as near as it comes.
  defp model do
    score = fn _y, p -> Nx.negate(Nx.pow(Nx.add(Nx.mean(p), 0.32), 2)) end

    "x"
    |> Axon.input(shape: {nil, 1})
    |> Axon.dense(1)
    |> Model.compile(
      loss: fn _y, p -> Nx.mean(p) end,
      metrics: [score: score],
      optimizer: :sgd,
      learning_rate: 0.1
    )
  end

  defp data, do: {Nx.broadcast(0.0, {4, 1}), Nx.broadcast(0.0, {4, 1})}

  defp fit(callbacks, opts \\ []) do
    opts = [validation_data: data(), callbacks: callbacks, epochs: 6, verbose: false] ++ opts
    Training.fit_with_progress(model(), data(), opts)
  end

  defp bias(model), do: model.parameters |> Map.new() |> Map.fetch!(["dense_0", "bias"]) |> one()
  defp one(tensor), do: tensor |> Nx.squeeze() |> Nx.to_number() |> Float.round(4)

  defp stop(patience, more \\ []),
    do: Training.early_stopping_callback(patience, 0.0, @score ++ more)

  test "early_stopping_callback watches any value, and answers the best model if asked" do
    {last, history} = fit([stop(2)])
    assert {length(history), bias(last)} == {5, -0.5}
    {best, ^history} = fit([stop(2, restore_best: true)])
    assert bias(best) == -0.3
  end

  test "a run that is not stopped answers the best model too" do
    {best, history} = fit([stop(10, restore_best: true)])
    assert {length(history), bias(best)} == {6, -0.3}
  end

  test "without mode: a metric of ExBurn's own is known to be better when larger" do
    axon = "x" |> Axon.input(shape: {nil, 1}) |> Axon.dense(1, activation: :sigmoid)
    model = Model.compile(axon, loss: :binary_cross_entropy, metrics: [:accuracy], seed: 1)
    x = Nx.tensor([[-2.0], [-1.0], [1.0], [2.0]])
    callback = Training.early_stopping_callback(3, 0.0, monitor: :accuracy)
    opts = [epochs: 200, verbose: false, callbacks: [callback]]
    {_model, history} = Training.fit_with_progress(model, {x, Nx.greater(x, 0)}, opts)

    {best, at} =
      history |> Enum.map(& &1.accuracy) |> Enum.with_index(1) |> Enum.max_by(&elem(&1, 0))

    assert length(history) == min(at + 3, 200)
    assert Enum.all?(history, &(&1.accuracy <= best))
  end

  test "reduce_lr_on_plateau_callback watches any value" do
    callback =
      Training.reduce_lr_on_plateau_callback([patience: 1, factor: 0.5, min_delta: 0.0] ++ @score)

    {_model, history} = fit([callback])
    # The fourth epoch is worse than the third one, so the fifth one is slower, and so on.
    want = [0.1, 0.1, 0.1, 0.1, 0.05, 0.025]

    for {entry, rate} <- Enum.zip(history, want),
        do: assert_in_delta(entry.learning_rate, rate, 1.0e-12)
  end

  @tag :capture_log
  test "checkpoint_callback keeps the best, and restore takes the best of them", %{tmp_dir: dir} do
    {last, history} = fit([Training.checkpoint_callback(1, dir, [best: 2] ++ @score)])
    assert Checkpoint.list(dir) == for(epoch <- [6, 4, 3], do: Checkpoint.path(dir, epoch))
    {best, before} = Training.restore(model(), dir, [best: true] ++ @score)
    assert {bias(best), before} == {-0.3, Enum.take(history, 3)}
    {newest, ^history} = Training.restore(model(), dir)
    assert bias(newest) == bias(last)

    # What was cut short is no checkpoint: then the second best is taken.
    path = Checkpoint.path(dir, 3)
    File.write!(path, binary_part(File.read!(path), 0, 100))
    {second, _before} = Training.restore(model(), dir, [best: true] ++ @score)
    assert bias(second) == -0.4
  end

  @tag :capture_log
  test "how many of the newest are kept beside the best", %{tmp_dir: dir} do
    fit([Training.checkpoint_callback(2, dir, [best: 1, keep: 2] ++ @score)])
    # Only every second epoch is written, and of these the second and the fourth are nearest.
    assert Checkpoint.list(dir) == for(epoch <- [6, 4], do: Checkpoint.path(dir, epoch))
    fit([Training.checkpoint_callback(1, dir, [best: 1, keep: 2] ++ @score)])
    assert Checkpoint.list(dir) == for(epoch <- [6, 5, 3], do: Checkpoint.path(dir, epoch))
  end

  test "a resumed run answers the best model, whichever callback comes first", %{tmp_dir: dir} do
    keep = &Training.checkpoint_callback(&1, dir)
    best = stop(10, restore_best: true)

    for callbacks <- [[keep.(1), best], [best, keep.(1)], [best, keep.({1, :steps})]] do
      {whole, history} = fit(callbacks, batch_size: 2)
      paths = Checkpoint.list(dir)
      assert length(paths) in [6, 12]

      for path <- paths do
        {resumed, all} = fit([best], batch_size: 2, resume: path)
        assert {path, all, bias(resumed)} == {path, history, bias(whole)}
        File.rm!(path)
      end
    end
  end

  test "the best model must be known where a run goes on", %{tmp_dir: dir} do
    fit([Training.checkpoint_callback(5, dir)])

    assert_raise Error, ~r/restore_best: the checkpoint has not the model of epoch 3/, fn ->
      fit([stop(10, restore_best: true)], resume: dir)
    end

    # Epoch 5 is over its best, but the checkpoint has what is to be known of it.
    {_model, history} = fit([stop(10)], resume: dir)
    assert length(history) == 6
  end

  test "a callback of one's own answers another model at the end" do
    other = model()

    give = fn
      {:end, _info}, state -> {:model, other, state}
      _event, state -> {:cont, state}
    end

    test = self()

    look = fn
      {:end, info}, state -> {:cont, send(test, {:end, bias(info.model.())}) && state}
      _event, state -> {:cont, state}
    end

    {answered, _history} = fit([look, give, look])
    assert bias(answered) == 0.0
    assert_received {:end, -0.6}
    assert_received {:end, +0.0}

    early = fn
      {:epoch, _info}, state -> {:model, other, state}
      _event, state -> {:cont, state}
    end

    assert_raise Error, ~r/\{:model, model, state\} only :end/, fn -> fit([early]) end
  end

  test "what they can be given is checked" do
    for {make, message} <- [
          {fn -> stop(0) end, "patience: is 0, expected a positive integer"},
          {fn -> stop(1, restore_best: 1) end, "restore_best: is 1, expected true or false"},
          {fn -> Training.early_stopping_callback(1, 0.0, monitor: :score) end,
           "mode: is nil, expected :min or :max, whichever is better of :score"},
          {fn -> Training.early_stopping_callback(1, 0.0, mode: :least) end,
           "mode: is :least, expected :min"},
          {fn -> Training.early_stopping_callback(1, 0.0, monitor: "loss") end,
           "monitor: is \"loss\", expected the name of a value in the history"},
          {fn -> Training.checkpoint_callback(1, "runs", best: 0) end,
           "best: is 0, expected a positive integer"},
          {fn -> Training.checkpoint_callback({1, :steps}, "runs", best: 1) end,
           "best: is 1, expected nil within epochs"},
          {fn -> Training.reduce_lr_on_plateau_callback(monitor: :mine) end,
           "mode: is nil, expected :min or :max"}
        ] do
      error = assert_raise Error, make
      assert Exception.message(error) =~ message
    end

    for callback <- [
          Training.early_stopping_callback(1, 0.0, monitor: :val_accuracy),
          Training.checkpoint_callback(1, "runs", best: 1, monitor: :val_accuracy),
          Training.reduce_lr_on_plateau_callback(monitor: :val_accuracy)
        ] do
      message =
        ~r/monitor: is :val_accuracy, expected one of :loss, :score, :val_loss, :val_score/

      assert_raise Error, message, fn -> fit([callback]) end
    end
  end
end
