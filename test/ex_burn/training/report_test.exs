defmodule ExBurn.Training.ReportTest do
  # Handlers of telemetry hear every run.
  use ExBurn.Case, async: false

  import ExUnit.CaptureIO

  alias ExBurn.{Model, Training}

  doctest ExBurn.Training.Callbacks.Report

  defp model do
    axon = "x" |> Axon.input(shape: {nil, 2}) |> Axon.dense(1)
    Model.compile(axon, loss: :mse, metrics: [:mae], optimizer: :sgd, learning_rate: 0.01)
  end

  defp data, do: {Nx.iota({4, 2}, type: :f32), Nx.iota({4, 1}, type: :f32)}

  defp fit(opts),
    do:
      Training.fit_with_progress(
        model(),
        data(),
        Keyword.merge([batch_size: 2, verbose: false], opts)
      )

  # Sends what this process' runs execute.
  defp attach(event) do
    test = self()
    handler = {__MODULE__, event, make_ref()}

    :telemetry.attach(handler, event, &__MODULE__.tell/4, test)
    on_exit(fn -> :telemetry.detach(handler) end)
  end

  def tell(name, measured, about, test),
    do: if(self() == test, do: send(test, {name, measured, about}))

  test "each epoch is an event of telemetry" do
    attach([:ex_burn, :train, :epoch])
    {_model, [first, second]} = fit(epochs: 2)

    for entry <- [first, second] do
      assert_received {[:ex_burn, :train, :epoch], measured, %{epochs: 2, entry: ^entry}}
      assert %{steps: 2, samples: 4, skipped: 0, duration: duration, loss: loss} = measured
      assert is_integer(duration) and duration > 0
      assert loss == entry.loss
    end

    refute_received _
  end

  test "steps are events of telemetry, also of a run that shows nothing" do
    attach([:ex_burn, :train, :step])
    fit(epochs: 1)
    assert_received {[:ex_burn, :train, :step], %{step: 2, loss: loss} = measured, about}
    assert is_float(loss) and measured.samples_per_second > 0
    assert %{epoch: 1, epochs: 1, steps: 2, metrics: %{mae: mae}} = about
    assert is_float(mae)
  end

  test "the last step of enumerated batches is an event too" do
    attach([:ex_burn, :train, :step])
    batches = List.duplicate(data(), 3)
    Training.fit(model(), batches, epochs: 2, verbose: false)
    steps = for _ <- 1..2, do: assert_received({_event, %{step: 3}, %{steps: nil}})
    assert length(steps) == 2
    refute_received _
  end

  test "progress_bar_callback shows epochs as verbose: true does" do
    shown =
      capture_io(fn ->
        fit(epochs: 2, callbacks: [Training.progress_bar_callback(mode: :plain)])
      end)

    verbose = capture_io(fn -> fit(epochs: 2, verbose: true) end)
    assert [first, second] = lines(shown)
    assert first =~ ~r"^epoch 1/2  loss \d.*  mae \d"
    assert second =~ "epoch 2/2"
    # Speeds and times differ.
    assert Enum.map(lines(verbose), &numbers/1) == Enum.map([first, second], &numbers/1)

    live =
      capture_io(fn ->
        fit(epochs: 1, callbacks: [Training.progress_bar_callback(mode: :terminal)])
      end)

    assert live =~ "━"
  end

  defp lines(text), do: String.split(text, "\n", trim: true)
  defp numbers(line), do: line |> String.split("  ") |> Enum.take(3)
end
