defmodule ExBurn.Training.ProfileTest do
  use ExBurn.Case, async: true

  alias ExBurn.{Model, Training}

  defp model do
    axon =
      "x" |> Axon.input(shape: {nil, 64}) |> Axon.dense(64, activation: :relu) |> Axon.dense(1)

    Model.compile(axon, loss: :mse)
  end

  defp prediction(model), do: model |> ExBurn.predict!(elem(batch(), 0)) |> Nx.to_binary()
  defp batch, do: {Nx.broadcast(0.5, {32, 64}), Nx.broadcast(1.0, {32, 1})}

  test "every part takes time, and the model stays as it is" do
    model = model()
    before = prediction(model)
    times = Training.profile_step(model, batch(), repeat: 3)
    assert Enum.sort(Map.keys(times)) == [:backward, :forward, :optimizer]
    for {_part, time} <- times, do: assert(time > 0 and time < 1.0e7)
    assert prediction(model) == before

    assert %{backward: +0.0, forward: forward} =
             Training.profile_step(model, batch(), gradients: :symbolic)

    assert forward > 0
  end

  test "options are checked" do
    for {opts, message} <- [
          {[repeat: 0], "repeat: is 0, expected a positive integer"},
          {[times: 1],
           "unknown option :times; known options are :class_weights, :clip_norm, :clip_value, " <>
             ":gradient_checkpointing, :gradients, :learning_rate, :repeat, :weight_decay"},
          {[gradients: :numeric], "gradients: is :numeric, expected :autodiff or :symbolic"}
        ] do
      error = assert_raise Error, fn -> Training.profile_step(model(), batch(), opts) end
      assert Exception.message(error) =~ "profile_step: " <> message
    end
  end
end
