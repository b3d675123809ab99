defmodule ExBurn.Training.ProgressTest do
  use ExUnit.Case, async: true

  import ExUnit.CaptureIO

  alias ExBurn.Training.Progress

  @batch %{
    epoch: 2,
    epochs: 10,
    step: 45,
    steps: 90,
    samples_per_second: 12_345.6,
    loss: 0.12345,
    accuracy: 0.9,
    model: nil
  }

  @epoch %{
    epoch: 2,
    epochs: 10,
    loss: 0.25,
    val_loss: 0.5,
    accuracy: 0.75,
    val_accuracy: 0.5,
    learning_rate: 0.1,
    seconds: 2.0,
    samples: 3000,
    model: nil
  }

  test "on a terminal one line is rewritten until the epoch ends" do
    output =
      capture_io(fn ->
        :terminal |> Progress.new(10, 32) |> Progress.batch(@batch) |> Progress.epoch(@epoch)
      end)

    assert [_, first, last] = String.split(output, "\r\e[2K")

    assert first ==
             "epoch 2/10  ━━━━━━━━━━╌╌╌╌╌╌╌╌╌╌ 45/90  loss 0.1235  accuracy 0.9000  12,346 samples/s  ETA 0.1 s"

    assert last ==
             "epoch 2/10  loss 0.2500  accuracy 0.7500  val_loss 0.5000  val_accuracy 0.5000  1,500 samples/s  2.0 s\n"
  end

  test "a terminal that is gone does not end a run" do
    {:ok, device} = StringIO.open("")
    StringIO.close(device)

    shown =
      Task.async(fn ->
        Process.group_leader(self(), device)

        for mode <- [:terminal, :plain] do
          mode
          |> Progress.new(10, 32)
          |> Progress.batch(@batch)
          |> Progress.close()
          |> Progress.epoch(@epoch)
        end
      end)

    assert [%Progress{}, %Progress{}] = Task.await(shown)
  end

  test "without a known number of steps there is neither bar nor ETA" do
    output =
      capture_io(fn ->
        :terminal |> Progress.new(10, 32) |> Progress.batch(%{@batch | steps: nil})
      end)

    assert output =~ "epoch 2/10  step 45  loss"
    refute output =~ "ETA"
  end

  test "as many batches are expected as the epoch before had, until there are more" do
    epoch = fn progress, from, to ->
      progress =
        Enum.reduce(from..to, progress, &Progress.batch(&2, %{@batch | step: &1, steps: nil}))

      Progress.epoch(progress, @epoch)
    end

    output =
      capture_io(fn ->
        progress = :terminal |> Progress.new(10, 32) |> epoch.(1, 4)
        IO.write("second:")
        epoch.(progress, 3, 5)
      end)

    assert [first, second] = String.split(output, "second:")
    refute first =~ "ETA"
    # 3000 samples in 4 batches, one of which is left.
    assert second =~ "━━━━━━━━━━━━━━━╌╌╌╌╌ 3/4  loss"
    assert second =~ "ETA 0.1 s"
    assert second =~ "4/4  loss"
    assert second =~ "step 5  loss"
  end

  test "elsewhere there is a plain line after each epoch" do
    output =
      capture_io(fn ->
        :auto |> Progress.new(10, 32) |> Progress.batch(@batch) |> Progress.epoch(@epoch)
      end)

    assert output =~ ~r"\Aepoch 2/10  loss 0.2500 .*\n\z"
    refute output =~ "\e"
  end

  test "nothing is shown when it is off" do
    assert capture_io(fn ->
             :off |> Progress.new(10, 32) |> Progress.batch(@batch) |> Progress.epoch(@epoch)
           end) == ""
  end

  test "an unfinished line is left behind" do
    assert capture_io(fn ->
             :terminal |> Progress.new(10, 32) |> Progress.batch(@batch) |> Progress.close()
           end) =~ ~r"\n\z"

    assert capture_io(fn -> :terminal |> Progress.new(10, 32) |> Progress.close() end) == ""
  end

  test "long times are in minutes" do
    slow = %{@batch | samples_per_second: 10.0}

    assert capture_io(fn -> :terminal |> Progress.new(10, 32) |> Progress.batch(slow) end) =~
             "ETA 2:24 min"
  end
end
