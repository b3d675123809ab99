defmodule ExBurn.Model.QuantizeTest do
  use ExBurn.Case, async: true

  alias ExBurn.GradientCases

  @moduletag :tmp_dir

  defp model do
    "x"
    |> Axon.input(shape: {nil, 8})
    |> Axon.dense(32, activation: :tanh)
    |> Axon.batch_norm()
    |> Axon.dropout(rate: 0.2)
    |> Axon.dense(16)
    |> ExBurn.compile(loss: :mse, seed: 6)
  end

  defp x, do: GradientCases.random({5, 8}, 1)

  defp furthest(a, b),
    do: a |> Nx.subtract(b) |> Nx.abs() |> Nx.reduce_max() |> Nx.to_number()

  test "predictions are those of the rounded parameters" do
    for {type, bound} <- [f16: 1.0e-3, bf16: 1.0e-2] do
      small = ExBurn.quantize(model(), type)
      for {_path, t} <- small.parameters, do: assert(Nx.Type.to_string(t.type) == "#{type}")

      rounded =
        for {path, t} <- model().parameters, do: {path, t |> Nx.as_type(type) |> Nx.as_type(:f32)}

      want =
        model()
        |> ExBurn.update_params(rounded |> ExBurn.Model.State.nest())
        |> ExBurn.predict!(x())

      got = ExBurn.predict!(small, x())
      assert got.type == {:f, 32}
      assert furthest(got, want) <= 1.0e-6
      assert furthest(got, ExBurn.predict!(model(), x())) <= bound
      assert ExBurn.info(small).bytes < ExBurn.info(model()).bytes * 0.62
    end
  end

  test "integers have a factor for each feature, and are off by half of it at most" do
    small = ExBurn.quantize(model(), :s8)
    tensors = Map.new(small.parameters)

    for {[layer, "kernel"] = path, old} <- model().parameters do
      {integers, scale} = {tensors[path], tensors[[layer, "kernel_scale"]]}
      assert {integers.type, scale.shape} == {{:s, 8}, {elem(old.shape, 1)}}

      assert integers
             |> Nx.abs()
             |> Nx.reduce_max(axes: [0])
             |> Nx.to_list()
             |> Enum.all?(&(&1 == 127))

      off = integers |> Nx.multiply(scale) |> Nx.subtract(old) |> Nx.abs() |> Nx.divide(scale)
      assert off |> Nx.reduce_max() |> Nx.to_number() <= 0.5001
    end

    for {[_layer, "bias"] = path, old} <- model().parameters,
        do: assert(Nx.to_binary(tensors[path]) == Nx.to_binary(old))

    assert furthest(ExBurn.predict!(small, x()), ExBurn.predict!(model(), x())) <= 3.0e-2
    assert ExBurn.info(small).bytes < ExBurn.info(model()).bytes / 2
  end

  test "a feature without weights stays so" do
    kernel = Nx.tensor([[0.0, 1.0], [0.0, -2.0]])
    axon = "x" |> Axon.input(shape: {nil, 2}) |> Axon.dense(2, name: "d", use_bias: false)
    model = ExBurn.compile({axon, %{"d" => %{"kernel" => kernel}}})
    small = ExBurn.quantize(model, :s8)
    [[nothing, value]] = small |> ExBurn.predict!(Nx.tensor([[3.0, 1.0]])) |> Nx.to_list()
    assert nothing == 0.0
    assert_in_delta value, 1.0, 2 * 3 / 127
  end

  test "files keep it, and any batch size is served", %{tmp_dir: dir} do
    [large, small] = for name <- ~w(large small), do: Path.join(dir, name <> ".safetensors")
    quantized = ExBurn.quantize(model(), :s8)
    ExBurn.save(model(), large)
    ExBurn.save(quantized, small)
    assert File.stat!(small).size < File.stat!(large).size
    loaded = ExBurn.load(small)

    for rows <- [1, 5] do
      got = ExBurn.predict!(loaded, x()[0..(rows - 1)])
      assert Nx.to_binary(got) == Nx.to_binary(ExBurn.predict!(quantized, x()[0..(rows - 1)]))
    end
  end

  test "convolutions and integers in a model pass through it" do
    axon =
      "x"
      |> Axon.input(shape: {nil, 4})
      |> Axon.embedding(9, 6)
      |> Axon.conv(5, kernel_size: 2)
      |> Axon.flatten()
      |> Axon.dense(2)

    model = ExBurn.compile(axon, inputs: %{"x" => Nx.template({1, 4}, :s64)})
    x = Nx.tensor([[0, 3, 8, 1], [2, 2, 7, 5]])
    [got, want] = for m <- [ExBurn.quantize(model, :s8), model], do: ExBurn.predict!(m, x)
    assert furthest(got, want) <= 3.0e-2
  end

  test "a model for one batch size needs it named" do
    axon = "x" |> Axon.input(shape: {nil, 3, 2}) |> Axon.lstm(2) |> elem(0)
    model = ExBurn.compile(axon)
    error = assert_raise Error, fn -> ExBurn.quantize(model, :f16) end
    assert Exception.message(error) =~ "quantize: no one program serves all batch sizes"
    small = ExBurn.quantize(model, :f16, batch_sizes: [2])
    x = GradientCases.random({2, 3, 2}, 1)
    assert furthest(ExBurn.predict!(small, x), ExBurn.predict!(model, x)) <= 1.0e-3
  end

  test "it predicts only" do
    small = ExBurn.quantize(model(), :bf16)
    assert ExBurn.info(small).trainable? == false

    for {fun, text} <- [
          {fn -> ExBurn.fit(small, {x(), GradientCases.random({5, 16}, 2)}, verbose: false) end,
           "loaded from a file or quantized and can only predict"},
          {fn -> ExBurn.quantize(small, :s8) end,
           "quantize: the model comes from a file or is quantized already"},
          {fn -> ExBurn.quantize(model(), :f16, bits: 4) end, "quantize: unknown option :bits"},
          {fn -> ExBurn.quantize(:model, :f16) end, "quantize: model is :model"}
        ] do
      assert Exception.message(assert_raise(Error, fun)) =~ text
    end
  end
end
