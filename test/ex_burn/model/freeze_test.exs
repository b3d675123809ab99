defmodule ExBurn.Model.FreezeTest do
  use ExBurn.Case, async: true

  import ExBurn.Oracle

  alias ExBurn.{GradientCases, Model, Training}

  defp model do
    encoder =
      "x"
      |> Axon.input(shape: {nil, 3})
      |> Axon.dense(4, name: "encoder.first")
      |> Axon.batch_norm(name: "encoder.norm")

    Model.compile(Axon.dense(encoder, 2, name: "head"),
      loss: :mse,
      optimizer: :sgd,
      learning_rate: 0.1
    )
  end

  defp trained(model) do
    data = {GradientCases.random({8, 3}, 1), GradientCases.random({8, 2}, 2)}
    Training.fit(model, data, epochs: 3, verbose: false)
  end

  defp changed(before, now) do
    [before, now] = Enum.map([before, now], &(&1.parameters ++ &1.states))

    for {{path, a}, {path, b}} <- Enum.zip(before, now),
        Nx.to_binary(a) != Nx.to_binary(b),
        do: Enum.join(path, ".")
  end

  test "what is frozen stays, the rest is trained" do
    model = model()
    assert length(changed(model, trained(model))) == 8

    for {names, frozen} <- [
          {"head", ["head.bias", "head.kernel"]},
          {["head.bias"], ["head.bias"]},
          {:head, ["head.bias", "head.kernel"]},
          {&String.ends_with?(&1, "kernel"), ["encoder.first.kernel", "head.kernel"]}
        ] do
      frozen_model = ExBurn.freeze(model, names)

      assert Enum.sort(
               changed(model, trained(model)) -- changed(frozen_model, trained(frozen_model))
             ) == frozen
    end
  end

  test "what is below a name is frozen with its states" do
    model = ExBurn.freeze(model(), "encoder")
    assert changed(model, trained(model)) == ["head.bias", "head.kernel"]
    assert ExBurn.frozen_layers(model) == ["encoder.first", "encoder.norm"]
    assert ExBurn.info(model).frozen == 3 * 4 + 4 + 4 + 4
    model = ExBurn.unfreeze(model, "encoder.norm")
    assert ExBurn.frozen_layers(model) == ["encoder.first"]
    assert "encoder.norm.mean" in changed(model, trained(model))
  end

  test "what is frozen in part is no frozen layer" do
    assert model() |> ExBurn.freeze("head.bias") |> ExBurn.frozen_layers() == []
  end

  test "frozen parameters keep their gradients from the others" do
    data = {GradientCases.random({8, 3}, 1), GradientCases.random({8, 2}, 2)}
    all = Training.compute_gradients(model(), data)
    some = model() |> ExBurn.freeze("encoder") |> Training.compute_gradients(data)
    assert Map.keys(some) == ["head"]

    on_binary =
      &Map.new(&1["head"], fn {name, t} -> {name, Nx.backend_copy(t, Nx.BinaryBackend)} end)

    # Frozen batch normalisation still normalises by the batch.
    assert_relative(on_binary.(some), on_binary.(all), 1.0e-6)
  end

  test "a frozen model says so in its file" do
    path =
      Path.join(System.tmp_dir!(), "freeze-#{System.unique_integer([:positive])}.safetensors")

    on_exit(fn -> File.rm(path) end)
    model() |> ExBurn.freeze("head") |> ExBurn.save(path)
    assert path |> ExBurn.load() |> ExBurn.frozen_layers() == ["head"]
  end

  test "names that are none are refused" do
    for {names, message} <- [
          {"tail",
           ~s(the model has no tail; its layers are "encoder.first", "encoder.norm", "head")},
          {["head", "hea"], "the model has no hea"},
          {[1], "layers: is 1, expected names of layers"}
        ],
        op <- [:freeze, :unfreeze] do
      error = assert_raise Error, fn -> apply(ExBurn, op, [model(), names]) end
      assert Exception.message(error) =~ "#{op}: " <> message
    end
  end
end
