defmodule ExBurn.Training.CheckpointTest do
  use ExBurn.Case, async: true

  import ExUnit.CaptureLog

  alias ExBurn.{GradientCases, Model, NIF, Training}
  alias ExBurn.Training.Checkpoint

  doctest Checkpoint
  doctest Checkpoint.Checksum

  @moduletag :tmp_dir
  @epochs 6

  # Batch normalisation and dropout have states that training changes.
  defp model(optimizer \\ :adam) do
    axon =
      "x"
      |> Axon.input(shape: {nil, 3})
      |> Axon.dense(5, activation: :relu)
      |> Axon.batch_norm()
      |> Axon.dropout(rate: 0.3)
      |> Axon.dense(1)

    Model.compile(axon, loss: :mse, metrics: [:mae], optimizer: optimizer, learning_rate: 0.02)
  end

  defp data, do: {GradientCases.random({11, 3}, 1), GradientCases.random({11, 1}, 2)}

  defp options(more),
    do: [epochs: @epochs, batch_size: 4, seed: 9, validation_data: data(), verbose: false] ++ more

  defp fit(model, more) do
    {validation, more} = Keyword.pop(more, :validation_data, data())
    options = Keyword.put(options(more), :validation_data, validation)
    Training.fit_with_progress(model, data(), options)
  end

  defp bits(model),
    do: for({path, t} <- model.parameters ++ model.states, do: {path, Nx.to_binary(t)})

  defp halting_after(epoch) do
    fn
      {:epoch, %{epoch: ^epoch}}, state -> {:halt, state}
      _event, state -> {:cont, state}
    end
  end

  defp assert_resumes(dir, model, callbacks, more) do
    {whole, history} = fit(model, [callbacks: callbacks] ++ more)

    for last <- 1..(@epochs - 1) do
      dir = Path.join(dir, Integer.to_string(last))
      keep = Training.checkpoint_callback(1, dir)
      fit(model, [callbacks: callbacks ++ [keep, halting_after(last)]] ++ more)
      {resumed, all} = fit(model, [callbacks: callbacks, resume: dir] ++ more)
      assert all == history
      assert bits(resumed) == bits(whole)
    end
  end

  for optimizer <- [:adam, {:sgd, momentum: 0.9}, :muon, :lamb, :adagrad, :sgd] do
    test "a resumed run with #{inspect(optimizer)} ends with the same bits", %{tmp_dir: dir} do
      assert_resumes(dir, model(unquote(optimizer)), [], [])
    end
  end

  test "so does one with a pair of functions", %{tmp_dir: dir} do
    assert_resumes(dir, model(Polaris.Optimizers.radam(learning_rate: 0.02)), [], [])
  end

  test "so does one with a schedule, and with callbacks that change the rate", %{tmp_dir: dir} do
    callbacks = [
      Training.warmup_callback(2),
      Training.reduce_lr_on_plateau_callback(patience: 1, min_delta: 0.05)
    ]

    more = [lr_schedule: {:cosine, 0.05, 0.001}, accumulate_gradients: 2, clip_norm: 1.0]
    assert_resumes(dir, model(), callbacks, more)
  end

  test "a run that had ended is not trained on", %{tmp_dir: dir} do
    {whole, history} = fit(model(), callbacks: [Training.checkpoint_callback(1, dir)])
    assert {model, ^history} = fit(model(), resume: dir)
    assert bits(model) == bits(whole)
  end

  test "early stopping counts the epochs before", %{tmp_dir: dir} do
    stop = [Training.early_stopping_callback(2, 1.0e6)]
    keep = Training.checkpoint_callback(1, dir)
    {_model, [_, _, _]} = fit(model(), callbacks: stop ++ [keep])
    {_model, history} = fit(model(), callbacks: stop, resume: dir)
    assert length(history) == 3
  end

  @tag :capture_log
  test "the newest whole checkpoint is found, wherever another was cut short", %{tmp_dir: dir} do
    fit(model(), callbacks: [Training.checkpoint_callback(2, dir)])
    [newest, before | _] = Checkpoint.list(dir)
    assert [6, 4, 2] == for(path <- Checkpoint.list(dir), do: epoch(path))
    bytes = File.read!(newest)
    File.write!(Path.join(dir, "checkpoint-000009.safetensors.tmp"), bytes)
    assert Checkpoint.newest(dir) == {:ok, newest}

    for size <- [0, 1, 7, 8, 9, 100, 1000, byte_size(bytes) - 1] do
      File.write!(newest, binary_part(bytes, 0, size))
      assert found_past(newest, dir) == {:ok, before}
    end

    {whole, history} = fit(model(), [])
    assert {resumed, ^history} = fit(model(), resume: dir)
    assert bits(resumed) == bits(whole)
  end

  # The warning names the file that is passed over.
  defp found_past(damaged, dir) do
    {found, log} = with_log(fn -> Checkpoint.newest(dir) end)
    assert log =~ "a checkpoint is passed over: "
    assert log =~ Path.basename(damaged)
    found
  end

  test "a changed bit anywhere in a checkpoint is noticed", %{tmp_dir: dir} do
    fit(model(), callbacks: [Training.checkpoint_callback(3, dir)])
    [newest, before] = Checkpoint.list(dir)
    bytes = File.read!(newest)
    <<header::64-little, _::binary>> = bytes
    # In the sizes, all over the header, in the first and in the last tensor.
    places = [0, 5, 8] ++ Enum.to_list(9..(header + 7)//97) ++ [header + 8, byte_size(bytes) - 1]

    for at <- places do
      File.write!(newest, flipped(bytes, at))
      assert {at, found_past(newest, dir)} == {at, {:ok, before}}
    end

    assert_raise Error, ~r/^fit: resume: .*is damaged: /, fn ->
      fit(model(), resume: newest)
    end

    {whole, history} = fit(model(), [])
    {{resumed, ^history}, log} = with_log(fn -> fit(model(), resume: dir) end)
    assert bits(resumed) == bits(whole)
    assert log =~ "checkpoint-000006.safetensors is damaged"
    assert {{_model, [_, _, _]}, _log} = with_log(fn -> Training.restore(model(), dir) end)
  end

  defp flipped(bytes, at) do
    <<first::binary-size(at), byte, rest::binary>> = bytes
    first <> <<Bitwise.bxor(byte, 4)>> <> rest
  end

  test "one that was written without a checksum is read", %{tmp_dir: dir} do
    fit(model(), callbacks: [Training.checkpoint_callback(3, dir), halting_after(3)])
    [path] = Checkpoint.list(dir)
    {:ok, {tensors, texts}} = NIF.file_read(path)
    older = texts |> Map.delete("checksum") |> Map.put("ex_burn_checkpoint", "1")
    {:ok, _} = NIF.file_write(path, tensors, older)
    {whole, history} = fit(model(), [])
    assert {resumed, ^history} = fit(model(), resume: dir)
    assert bits(resumed) == bits(whole)
    # Now all of them have one.
    {:ok, _} = NIF.file_write(path, tensors, Map.delete(texts, "checksum"))
    assert {:none, _log} = with_log(fn -> Checkpoint.newest(dir) end)
  end

  # Without a checksum a name or a number in it may have changed.
  test "one without a checksum that lacks something is passed over", %{tmp_dir: dir} do
    fit(model(), callbacks: [Training.checkpoint_callback({2, :steps}, dir)])
    [newest, before | _] = Checkpoint.list(dir)
    {:ok, {tensors, texts}} = NIF.file_read(newest)
    about = texts["about"] |> Base.decode64!() |> :erlang.binary_to_term()

    write = fn about ->
      about = about |> :erlang.term_to_binary() |> Base.encode64()

      older =
        texts
        |> Map.delete("checksum")
        |> Map.merge(%{"ex_burn_checkpoint" => "1", "about" => about})

      {:ok, _} = NIF.file_write(newest, tensors, older)
    end

    changed =
      for {name, _} <- about, value <- ["x", %{}, [1], -1, 1.0], do: Map.put(about, name, value)

    lacking = for name <- ~w(history settings count slots), do: Map.delete(about, name)

    entries = [
      %{about | "history" => [%{"epoch" => 1}]},
      %{about | "means" => Map.delete(about["means"], "batches")}
    ]

    allowed =
      for {name, value} <- [{"settings", %{}}, {"kept", [1]}, {"slots", [1]}],
          do: Map.put(about, name, value)

    for about <- [7, [1]] ++ ((lacking ++ entries ++ changed) -- allowed) do
      write.(about)
      assert {about, found_past(newest, dir)} == {about, {:ok, before}}
    end

    write.(about)
    assert Checkpoint.newest(dir) == {:ok, newest}
  end

  defp epoch(path),
    do: path |> String.replace(~r/\D/, "") |> String.slice(-6, 6) |> String.to_integer()

  # Metrics' names are atoms that a VM makes when it trains.
  test "a VM that has not trained yet can read it", %{tmp_dir: dir} do
    path = Path.join(dir, "checkpoint-000001.safetensors")
    fit(model(), callbacks: [Training.checkpoint_callback(1, dir), halting_after(1)])
    [about] = Regex.run(~r/"about":"([^"]+)"/, File.read!(path), capture: :all_but_first)
    [entry] = about |> Base.decode64!() |> :erlang.binary_to_term() |> Map.fetch!("history")
    assert Enum.sort(Map.keys(entry)) == ~w(epoch learning_rate loss mae val_loss val_mae)

    script = """
    {:ok, _} = Application.ensure_all_started(:ex_burn)
    {:ok, path} = ExBurn.Training.Checkpoint.newest(#{inspect(dir)})
    IO.puts(path)
    """

    paths = Enum.flat_map(:code.get_path(), &["-pa", to_string(&1)])
    {text, 0} = System.cmd("elixir", paths ++ ["-e", script], stderr_to_stdout: true)
    assert text =~ path
  end

  test "keep: leaves the newest ones", %{tmp_dir: dir} do
    fit(model(), callbacks: [Training.checkpoint_callback(1, dir, keep: 2)])
    assert Checkpoint.list(dir) == [Checkpoint.path(dir, 6), Checkpoint.path(dir, 5)]
  end

  test "what a killed run left half written is removed, if it is old", %{tmp_dir: dir} do
    [old, new, other] =
      for name <- ~w(.ex_burnAb1.tmp .ex_burnXy2.tmp mine.tmp), do: Path.join(dir, name)

    for path <- [old, new, other], do: File.write!(path, "")
    for path <- [old, other], do: File.touch!(path, System.os_time(:second) - 7200)
    fit(model(), callbacks: [Training.checkpoint_callback(1, dir), halting_after(1)])
    assert Enum.map([old, new, other], &File.exists?/1) == [false, true, true]
  end

  test "checkpoints of another run that got further are told of and left alone", %{tmp_dir: dir} do
    fit(model(), callbacks: [Training.checkpoint_callback(1, dir, keep: 1)])
    [other] = Checkpoint.list(dir)
    keep = [Training.checkpoint_callback(1, dir, keep: 1), halting_after(3)]
    {_, log} = with_log(fn -> fit(model(), callbacks: keep) end)
    assert log =~ "has checkpoints of another run, up to checkpoint-000006.safetensors"
    assert Checkpoint.list(dir) == [other, Checkpoint.path(dir, 3)]

    keep = [Training.checkpoint_callback({1, :steps}, dir, keep: 2), halting_after(4)]
    resumed = [resume: Checkpoint.path(dir, 3), callbacks: keep]
    {_, log} = with_log(fn -> fit(model(), resumed) end)
    assert log =~ "has checkpoints of another run"
    own = for batch <- [3, 2], do: Checkpoint.path(dir, 3, batch)
    assert Checkpoint.list(dir) == [other | own]

    # Its own are no others.
    File.rm!(other)
    {_, log} = with_log(fn -> fit(model(), resume: dir, callbacks: keep) end)
    refute log =~ "#{dir} has checkpoints"
  end

  test "an empty directory, or none, starts a new run", %{tmp_dir: dir} do
    {fresh, history} = fit(model(), [])

    for path <- [dir, Path.join(dir, "none")] do
      assert {model, ^history} = fit(model(), resume: path)
      assert bits(model) == bits(fresh)
    end
  end

  test "other options or another model are refused", %{tmp_dir: dir} do
    fit(model(), callbacks: [Training.checkpoint_callback(6, dir)])

    for {model, more, message} <- [
          {model(), [weight_decay: 0.1], "was written with weight_decay: 0.0, now it is 0.1"},
          {model(), [validation_data: 0.2],
           "was written with validation_data: :no_share, now it is 0.2"},
          {model(), [nan: :skip], "was written with nan: :stop, now it is :skip"},
          {model(), [lr_schedule: {:warmup, 2, {:linear, 0.1, 0.0}}],
           "was written with lr_schedule: nil, now it is {:warmup, 2, {:linear, 0.1, 0.0}}"},
          {%{model() | learning_rate: 0.01}, [],
           "was written with learning_rate: 0.02, now it is 0.01"},
          {Model.Freeze.freeze(model(), "dense_1"), [],
           ~s(was written with frozen: [], now it is ["dense_1.bias", "dense_1.kernel"])},
          {Model.compile("x" |> Axon.input(shape: {nil, 3}) |> Axon.dense(7),
             loss: :mse,
             learning_rate: 0.02
           ), [], "dense_0.bias has shape {5}, expected {7}; it is of another model"},
          {%{model() | loss: :mae}, [], "was written with loss: :mse, now it is :mae"},
          {model(:sgd), [], "was written with optimizer: {:adam,"},
          {Model.compile(Axon.dense(Axon.input("x", shape: {nil, 3}), 1, name: "other"),
             loss: :mse,
             learning_rate: 0.02
           ), [], "it is of another model"}
        ] do
      error = assert_raise Error, fn -> fit(model, [resume: dir] ++ more) end
      assert Exception.message(error) =~ "fit: resume: "
      assert Exception.message(error) =~ message
    end

    {x, y} = data()
    fewer = {x[0..9], y[0..9]}

    assert_raise Error, ~r/was written with rows: 11, now it is 10; give the same/, fn ->
      Training.fit(model(), fewer, options(resume: dir))
    end

    path = Path.join(dir, "model.safetensors")

    assert_raise Error, ~r/^fit: resume: there is no file .*model.safetensors; give a/, fn ->
      fit(model(), resume: path)
    end

    assert_raise Error, ~r/^fit: resume: is "", expected the path/, fn ->
      fit(model(), resume: "")
    end

    ExBurn.save(model(), path)

    assert_raise Error, ~r/is no checkpoint of this version/, fn -> fit(model(), resume: path) end
  end

  test "a directory that can't be made is reported", %{tmp_dir: dir} do
    file = Path.join(dir, "file")
    File.write!(file, "")

    assert_raise Error, ~r{^checkpoint_callback: .*file/below: }, fn ->
      fit(model(), callbacks: [Training.checkpoint_callback(1, Path.join(file, "below"))])
    end
  end

  test "functions among the options are not compared", %{tmp_dir: dir} do
    fit(model(), callbacks: [Training.checkpoint_callback(6, dir)], lr_schedule: &(0.1 / &1))
    schedule = fn epoch -> 0.1 / epoch end
    assert {_model, [_ | _]} = fit(model(), resume: dir, lr_schedule: schedule)
  end
end
