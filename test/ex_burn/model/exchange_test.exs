defmodule ExBurn.Model.ExchangeTest do
  use ExBurn.Case, async: true

  alias ExBurn.GradientCases

  @moduletag :tmp_dir

  defp image(axon_opts \\ []) do
    "x"
    |> Axon.input(shape: {nil, 5, 5, 2})
    |> Axon.conv(3, [kernel_size: 2, name: "conv"] ++ axon_opts)
    |> Axon.batch_norm(name: "norm")
    |> Axon.dropout(rate: 0.5)
    |> Axon.flatten()
    |> Axon.dense(4, name: "out")
    |> ExBurn.compile(seed: 2)
  end

  defp words do
    "x"
    |> Axon.input(shape: {nil, 3})
    |> Axon.embedding(7, 4, name: "table")
    |> Axon.layer_norm(name: "norm")
    |> Axon.flatten()
    |> Axon.dense(2, name: "out")
    |> ExBurn.compile(inputs: %{"x" => Nx.template({1, 3}, :s64)})
  end

  defp shapes(path) do
    {:ok, {tensors, _texts}} = ExBurn.NIF.file_read(path)

    for {name, ref} <- tensors,
        {:ok, type} = ExBurn.NIF.tensor_type(ref),
        into: %{},
        do: {name, elem(type, 1)}
  end

  defp numbers(model),
    do: for({path, t} <- model.parameters ++ model.states, do: {path, Nx.to_binary(t)})

  test "a file in Axon's layout has the model's names", %{tmp_dir: dir} do
    path = Path.join(dir, "axon.safetensors")
    assert ExBurn.export(image(), path) == :ok

    assert %{"conv.kernel" => [2, 2, 2, 3], "norm.gamma" => [3], "out.kernel" => [48, 4]} =
             shapes(path)

    other = %{image() | seed: 9}

    changed =
      ExBurn.update_params(other, %{"out" => %{"bias" => Nx.tensor([1.0, 2.0, 3.0, 4.0])}})

    assert numbers(ExBurn.import_params(changed, path)) == numbers(image())
  end

  test "a file in PyTorch's layout has its names and axes", %{tmp_dir: dir} do
    path = Path.join(dir, "torch.safetensors")
    ExBurn.export(image(), path, layout: :torch)

    assert shapes(path) == %{
             "conv.weight" => [3, 2, 2, 2],
             "conv.bias" => [3],
             "norm.weight" => [3],
             "norm.bias" => [3],
             "norm.running_mean" => [3],
             "norm.running_var" => [3],
             "out.weight" => [4, 48],
             "out.bias" => [4]
           }

    assert numbers(ExBurn.import_params(image(), path, layout: :torch)) == numbers(image())
    ExBurn.export(words(), path, layout: :torch)

    assert %{"table.weight" => [7, 4], "norm.weight" => [_], "out.weight" => [2, 12]} =
             shapes(path)

    assert numbers(ExBurn.import_params(words(), path, layout: :torch)) == numbers(words())
  end

  # The sum over a window by PyTorch's definition: output o at (i, j) is the sum over channels c and offsets (a, b).
  test "a convolution with PyTorch's weights computes what PyTorch defines" do
    weight = GradientCases.random({3, 2, 2, 2}, 4)
    bias = Nx.tensor([0.5, -1.0, 2.0])

    model =
      "x"
      |> Axon.input(shape: {nil, 3, 3, 2})
      |> Axon.conv(3, kernel_size: 2, name: "c")
      |> ExBurn.compile()

    model =
      ExBurn.import_params(model, %{"0.weight" => weight, "0.bias" => bias},
        layout: :torch,
        names: %{"0" => "c"}
      )

    x = GradientCases.random({1, 3, 3, 2}, 5)
    got = ExBurn.predict!(model, x)
    [w, v] = for t <- [weight, x], do: Nx.backend_copy(t, Nx.BinaryBackend)

    for i <- 0..1, j <- 0..1, o <- 0..2 do
      terms =
        for c <- 0..1, a <- 0..1, b <- 0..1 do
          Nx.to_number(w[o][c][a][b]) * Nx.to_number(v[0][i + a][j + b][c])
        end

      want = Enum.sum(terms) + Nx.to_number(bias[o])
      assert_in_delta Nx.to_number(got[0][i][j][o]), want, 1.0e-5
    end
  end

  test "channels that come first are as in PyTorch already", %{tmp_dir: dir} do
    model =
      "x"
      |> Axon.input(shape: {nil, 2, 5, 5})
      |> Axon.conv(3, kernel_size: 2, channels: :first, name: "c")
      |> ExBurn.compile()

    path = Path.join(dir, "first.safetensors")
    ExBurn.export(model, path, layout: :torch)
    assert shapes(path)["c.weight"] == [3, 2, 2, 2]
    kernel = ExBurn.parameters(model)["c"]["kernel"]
    {:ok, {tensors, _}} = ExBurn.NIF.file_read(path)

    assert {:ok, bytes} =
             ExBurn.NIF.tensor_to_binary(:proplists.get_value("c.weight", tensors), 24)

    assert bytes == Nx.to_binary(kernel)
  end

  test "maps are taken nested, by name, from Axon and from another model" do
    model = words()
    given = ExBurn.parameters(%{words() | seed: 1})
    flat = for {path, t} <- model.parameters, into: %{}, do: {Enum.join(path, "."), t}
    assert numbers(ExBurn.import_params(model, given)) == numbers(model)
    assert numbers(ExBurn.import_params(model, flat)) == numbers(model)
    assert numbers(ExBurn.import_params(model, model)) == numbers(model)
  end

  test "types are converted, batch counters passed over, and functions rename" do
    model =
      "x"
      |> Axon.input(shape: {nil, 2})
      |> Axon.dense(1, name: "a")
      |> Axon.batch_norm(name: "b")
      |> ExBurn.compile()

    vector = fn x -> Nx.tensor([x], type: :f64) end

    given = %{
      "net.a.weight" => Nx.tensor([[1, 2]]),
      "net.a.bias" => vector.(3),
      "net.b.weight" => vector.(1),
      "net.b.bias" => vector.(0),
      "net.b.running_mean" => vector.(0),
      "net.b.running_var" => vector.(4),
      "net.b.num_batches_tracked" => Nx.tensor(17)
    }

    model =
      ExBurn.import_params(model, given,
        layout: :torch,
        names: &String.replace_prefix(&1, "net.", "")
      )

    assert [[value]] = model |> ExBurn.predict!(Nx.tensor([[10.0, 100.0]])) |> Nx.to_list()
    assert_in_delta value, 213 / 2, 1.0e-2
    assert {:f, 32} = ExBurn.parameters(model)["a"]["kernel"].type
  end

  test "some tensors can be enough" do
    bias = Nx.tensor([7.0, 8.0])
    model = ExBurn.import_params(words(), %{"out.bias" => bias}, partial: true)
    assert Nx.to_list(ExBurn.parameters(model)["out"]["bias"]) == [7.0, 8.0]
    kernel = &Nx.to_binary(ExBurn.parameters(&1)["out"]["kernel"])
    assert kernel.(model) == kernel.(words())
  end

  test "what does not fit is refused", %{tmp_dir: dir} do
    model = words()
    bias = Nx.tensor([7.0, 8.0])

    cell = "x" |> Axon.input(shape: {nil, 3, 4, 4, 1}) |> Axon.conv_lstm(2, name: "l") |> elem(0)
    cell = ExBurn.compile(cell)
    not_ours = Path.join(dir, "no.safetensors")
    File.write!(not_ours, "nothing")
    saved = Path.join(dir, "saved.safetensors")
    ExBurn.save(model, saved)

    for {fun, text} <- [
          {fn -> ExBurn.import_params(model, %{"out.bais" => bias}, partial: true) end,
           "import_params: the model has no out.bais; expected are norm.beta"},
          {fn -> ExBurn.import_params(model, %{"out.bias" => bias}) end,
           "out.kernel, table.kernel missing"},
          {fn ->
             ExBurn.import_params(model, %{"out.bias" => Nx.tensor([1.0])}, partial: true)
           end, "import_params: out.bias has shape {1}, expected {2}"},
          {fn ->
             ExBurn.import_params(model, %{"a" => bias, "b" => bias},
               names: fn _ -> "out.bias" end
             )
           end, "names: gives out.bias to more than one tensor"},
          {fn -> ExBurn.import_params(model, %{"a" => bias}, names: fn _ -> :b end) end,
           "names: answers :b for a, expected text"},
          {fn -> ExBurn.import_params(model, %{}, names: 3) end, "names: is 3"},
          {fn -> ExBurn.import_params(model, %{}, layout: :keras) end,
           "layout: is :keras, expected :axon or :torch"},
          {fn -> ExBurn.import_params(model, %{}, strict: true) end, "unknown option :strict"},
          {fn -> ExBurn.import_params(model, 3) end, "import_params: got 3, expected the path"},
          {fn -> ExBurn.import_params(model, bias) end, "expected the path"},
          {fn -> ExBurn.import_params(model, %{"a" => 1}) end,
           "import_params: a is 1, expected a tensor"},
          {fn -> ExBurn.import_params(model, "/no/file") end,
           "import_params: /no/file: no such file"},
          {fn -> ExBurn.import_params(model, not_ours) end, "import_params: "},
          {fn -> ExBurn.export(cell, Path.join(dir, "l"), layout: :torch) end,
           "of a layer of the kind :conv_lstm has no place in layout: :torch"},
          {fn -> ExBurn.export(ExBurn.load(saved), Path.join(dir, "l"), layout: :torch) end,
           "export: layout: :torch depends on the kinds of layers"},
          {fn -> ExBurn.export(model, "/no/such/folder/x") end, "export: /no/such/folder/x"},
          {fn -> ExBurn.export(:model, "x") end, "export: model is :model"},
          {fn -> ExBurn.to_device(:model, :cpu) end, "to_device: model is :model"}
        ] do
      error = assert_raise Error, fun
      assert Exception.message(error) =~ text
      refute Exception.message(error) =~ "\n"
    end
  end
end
