defmodule ExBurn.Model.TorchTest do
  @moduledoc """
  Parameters of PyTorch's layers in Axon's: the answers are those of PyTorch, which `test/fixtures/torch_layers.py` wrote down.
  """
  use ExBurn.Case, async: true

  alias ExBurn.Model.Files

  @fixture "test/fixtures/torch_layers.safetensors"

  @moduletag :tmp_dir

  setup_all do
    {:ok, {tensors, _texts}} = ExBurn.NIF.file_read(Path.expand(@fixture))
    %{torch: Map.new(tensors, fn {name, ref} -> {name, Files.tensor(ref)} end)}
  end

  defp input(shape), do: Axon.input("x", shape: shape)

  defp sequence({sequence, _carry}), do: sequence

  # Axon's layers, by the names of PyTorch's.
  defp layers do
    own = [name: "own"]
    recurrent = own ++ [recurrent_initializer: :zeros]

    %{
      "dense" => input({nil, 3}) |> Axon.dense(2, own),
      "conv1d" => input({nil, 4, 2}) |> Axon.conv(3, own ++ [kernel_size: 2]),
      "conv2d" => input({nil, 5, 5, 2}) |> Axon.conv(3, own ++ [kernel_size: {2, 3}, strides: 2]),
      "conv3d" => input({nil, 3, 3, 3, 2}) |> Axon.conv(2, own ++ [kernel_size: 2]),
      "grouped" =>
        input({nil, 3, 3, 4}) |> Axon.conv(2, own ++ [kernel_size: 2, feature_group_size: 2]),
      "depthwise" => input({nil, 3, 3, 2}) |> Axon.depthwise_conv(2, own ++ [kernel_size: 2]),
      "separable2d" => input({nil, 3, 3, 2}) |> Axon.separable_conv2d(2, own ++ [kernel_size: 2]),
      "separable3d" =>
        input({nil, 3, 3, 3, 2}) |> Axon.separable_conv3d(2, own ++ [kernel_size: 2]),
      "transposed1d" => input({nil, 4, 2}) |> Axon.conv_transpose(3, own ++ [kernel_size: 3]),
      "transposed2d" =>
        input({nil, 3, 3, 2})
        |> Axon.conv_transpose(3, own ++ [kernel_size: {3, 2}, strides: 2]),
      "batch_norm" => input({nil, 2, 2, 3}) |> Axon.batch_norm(own),
      "instance_norm" => input({nil, 2, 2, 3}) |> Axon.instance_norm(own),
      "layer_norm" => input({nil, 4}) |> Axon.layer_norm(own),
      "group_norm" => input({nil, 2, 2, 4}) |> Axon.group_norm(2, own),
      "rms_norm" => input({nil, 4}) |> Axon.rms_norm(own),
      "lstm" => input({nil, 4, 3}) |> Axon.lstm(2, recurrent) |> sequence(),
      "lstm_no_bias" =>
        input({nil, 2, 3}) |> Axon.lstm(2, recurrent ++ [use_bias: false]) |> sequence(),
      "gru" => input({nil, 4, 3}) |> Axon.gru(2, recurrent) |> sequence(),
      "bilinear" => Axon.bilinear(input({nil, 2}), Axon.input("x2", shape: {nil, 3}), 2, own),
      "embedding" => input({nil, 3}) |> Axon.embedding(5, 2, own)
    }
  end

  defp compiled(name, axon, torch) do
    type = torch["#{name}@x"].type
    inputs = %{"x" => Nx.template(torch["#{name}@x"].shape, type)}
    ExBurn.compile(axon, if(Nx.Type.integer?(type), do: [inputs: inputs], else: []))
  end

  defp given(torch, name) do
    for {key, tensor} <- torch,
        String.starts_with?(key, name <> ":"),
        not String.ends_with?(key, "num_batches_tracked"),
        into: %{} do
      {String.replace_prefix(key, name <> ":", "own."), tensor}
    end
  end

  defp predict(model, torch, name) do
    x = torch["#{name}@x"]
    second = torch["#{name}@x2"]
    ExBurn.predict!(model, if(second, do: %{"x" => x, "x2" => second}, else: x))
  end

  test "each layer computes what it does in PyTorch, and goes back to the same tensors",
       context do
    %{torch: torch, tmp_dir: dir} = context

    for {name, axon} <- layers() do
      given = given(torch, name)
      model = name |> compiled(axon, torch) |> ExBurn.import_params(given, layout: :torch)

      assert_close(predict(model, torch, name), torch["#{name}@y"])

      path = Path.join(dir, name)
      ExBurn.export(model, path, layout: :torch)
      {:ok, {back, _texts}} = ExBurn.NIF.file_read(path)
      back = Map.new(back, fn {key, ref} -> {key, Files.tensor(ref)} end)
      assert Map.keys(back) == Map.keys(given), name

      for {key, tensor} <- merged_biases(back),
          do: assert_close(tensor, merged_biases(given)[key])
    end
  end

  # Two biases that are added are one in Axon; those of a GRU's last gate are not added.
  defp merged_biases(%{"own.bias_ih_l0" => input, "own.bias_hh_l0" => hidden} = tensors) do
    sum = Nx.add(input, hidden)
    apart = if Nx.size(sum) == 6, do: [input[4..5], hidden[4..5]], else: []

    Map.merge(tensors, %{
      "own.bias_ih_l0" => sum,
      "own.bias_hh_l0" => Nx.concatenate([sum | apart])
    })
  end

  defp merged_biases(tensors), do: tensors

  test "channels that come first, and layers in a block", %{torch: torch} do
    axon =
      "x"
      |> Axon.input(shape: {nil, 2, 3, 3})
      |> Axon.conv_transpose(3, kernel_size: {3, 2}, strides: 2, channels: :first, name: "own")

    model =
      ExBurn.import_params(ExBurn.compile(axon), given(torch, "transposed2d"), layout: :torch)

    turned = &Nx.transpose(&1, axes: [0, 3, 1, 2])
    x = turned.(torch["transposed2d@x"])
    assert_close(ExBurn.predict!(model, x), turned.(torch["transposed2d@y"]))

    own = &sequence(Axon.lstm(&1, 2, name: "own", recurrent_initializer: :zeros))
    model = Axon.block(own, name: "net").(input({nil, 4, 3})) |> ExBurn.compile()
    given = for {key, t} <- given(torch, "lstm"), into: %{}, do: {"net." <> key, t}
    model = ExBurn.import_params(model, given, layout: :torch)
    assert_close(ExBurn.predict!(model, torch["lstm@x"]), torch["lstm@y"], 1.0e-5)
  end

  test "what belongs together comes together, in its shape", %{torch: torch} do
    model = compiled("lstm", layers()["lstm"], torch)
    given = given(torch, "lstm")

    for {given, opts, text} <- [
          {Map.delete(given, "own.bias_hh_l0"), [partial: true],
           "import_params: own.bias_hh_l0 missing, of several that belong together; expected are"},
          {Map.delete(given, "own.weight_ih_l0"), [], "import_params: own.weight_ih_l0 missing"},
          {%{given | "own.weight_ih_l0" => Nx.iota({3, 8})}, [],
           "import_params: own.weight_ih_l0 has shape {3, 8}, expected {8, 3}"}
        ] do
      error =
        assert_raise Error, fn -> ExBurn.import_params(model, given, [layout: :torch] ++ opts) end

      assert Exception.message(error) =~ text
    end

    some = Map.take(given, ["own.weight_hh_l0"])
    model = ExBurn.import_params(model, some, layout: :torch, partial: true)
    kernel = ExBurn.parameters(model)["own"]["hidden_kernel"]["whf"]
    assert Nx.to_list(Nx.transpose(kernel)) == Nx.to_list(some["own.weight_hh_l0"][2..3])
  end
end
