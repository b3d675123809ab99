defmodule ExBurn.FilesTest do
  use ExBurn.Case, async: true

  @moduletag :tmp_dir

  defp model(opts \\ []) do
    Axon.input("x", shape: {nil, 4})
    |> Axon.dense(8, activation: :relu)
    |> Axon.batch_norm()
    |> Axon.dropout(rate: 0.2)
    |> Axon.dense(3, activation: :softmax)
    |> ExBurn.compile(opts)
  end

  defp input(batch), do: Nx.iota({batch, 4}, type: :f32) |> Nx.divide(10)

  defp saved(dir, model \\ model()) do
    path = Path.join(dir, "model.safetensors")
    assert ExBurn.save(model, path) == :ok
    path
  end

  # A file with some of its texts replaced.
  defp with_texts(path, change) do
    {:ok, {tensors, texts}} = ExBurn.NIF.file_read(path)
    {:ok, {}} = ExBurn.NIF.file_write(path, tensors, change.(texts))
  end

  defp load_error(path) do
    error = assert_raise Error, fn -> ExBurn.load(path) end
    message = Exception.message(error)
    assert error.op == :load
    assert message =~ path
    refute message =~ "\n"
    message
  end

  test "a loaded model answers the same for any batch size", %{tmp_dir: dir} do
    model = model()
    loaded = dir |> saved(model) |> ExBurn.load()
    assert loaded.axon == nil

    for batch <- [1, 3, 50] do
      got = ExBurn.predict!(loaded, input(batch))
      assert Nx.to_binary(got) == Nx.to_binary(ExBurn.predict!(model, input(batch)))
    end

    assert {:error, error} = ExBurn.predict(loaded, Nx.iota({2, 3}))
    assert Exception.message(error) =~ "has shape {2, 3}, expected {batch, 4}"
  end

  test "keeps everything that is plain data", %{tmp_dir: dir} do
    opts = [
      loss: :cross_entropy,
      optimizer: {:sgd, momentum: 0.9, nesterov: true},
      learning_rate: 0.25,
      metrics: [:accuracy],
      seed: 7
    ]

    model = %{
      model(opts)
      | frozen: MapSet.new([["dense_0", "bias"]]),
        trained: %{"epochs" => "3", "note" => "grüße"}
    }

    loaded = dir |> saved(model) |> ExBurn.load()

    kept = [
      :inputs,
      :frozen,
      :loss,
      :optimizer,
      :learning_rate,
      :metrics,
      :seed,
      :device,
      :trained
    ]

    assert Map.take(loaded, kept) |> Map.update!(:optimizer, &sorted/1) ==
             Map.take(model, kept) |> Map.update!(:optimizer, &sorted/1)

    for {got, want} <-
          Enum.zip(loaded.parameters ++ loaded.states, model.parameters ++ model.states) do
      assert elem(got, 0) == elem(want, 0)
      assert Nx.to_binary(elem(got, 1)) == Nx.to_binary(elem(want, 1))
    end

    assert ExBurn.summary(loaded) == ExBurn.summary(model)
  end

  defp sorted({name, opts}), do: {name, Enum.sort(opts)}

  test "a loss or option without a name is left out", %{tmp_dir: dir} do
    loss = &Nx.mean(Nx.abs(Nx.subtract(&1, &2)))
    assert (dir |> saved(model(loss: loss)) |> ExBurn.load()).loss == nil
  end

  test "a loaded model can be saved, and gives its parameters to Axon again", %{tmp_dir: dir} do
    model = model()
    loaded = dir |> saved(model) |> ExBurn.load()
    again = Path.join(dir, "again.safetensors")
    ExBurn.save(loaded, again)
    assert File.read!(again) == File.read!(Path.join(dir, "model.safetensors"))

    compiled = ExBurn.compile({model.axon, ExBurn.parameters(loaded)}, seed: 1)
    assert_close(ExBurn.predict!(compiled, input(2)), ExBurn.predict!(model, input(2)))
  end

  # The format: a length, a JSON header with offsets, the bytes.
  test "other programs can read the tensors", %{tmp_dir: dir} do
    model = model()

    <<length::64-little, header::binary-size(length), data::binary>> =
      File.read!(saved(dir, model))

    pattern =
      ~r/"dense_0\.kernel":\{"data_offsets":\[(\d+),(\d+)\],"dtype":"F32","shape":\[4,8\]\}/

    [_all | offsets] = Regex.run(pattern, header)
    [from, to] = Enum.map(offsets, &String.to_integer/1)
    kernel = ExBurn.parameters(model)["dense_0"]["kernel"]
    assert binary_part(data, from, to - from) == Nx.to_binary(kernel)
  end

  test "maps come back with strings as keys", %{tmp_dir: dir} do
    x = Axon.input("x", shape: {nil, 4})

    model =
      Axon.container(%{double: Axon.nx(x, &Nx.multiply(&1, 2)), pair: {x, x}}) |> ExBurn.compile()

    loaded = dir |> saved(model) |> ExBurn.load()
    assert %{"double" => double, "pair" => {left, _right}} = ExBurn.predict!(loaded, input(2))
    assert_close(double, Nx.multiply(input(2), 2))
    assert_close(left, input(2))
  end

  test "captured tensors are in the file", %{tmp_dir: dir} do
    table = Nx.tensor([1, 2, 3, 4], backend: Nx.BinaryBackend)
    axon = Axon.input("x", shape: {nil, 4}) |> Axon.nx(&Nx.multiply(&1, table))
    loaded = dir |> saved(ExBurn.compile(axon)) |> ExBurn.load()
    assert_close(ExBurn.predict!(loaded, input(2)), Nx.multiply(input(2), table))
  end

  test "a model without a rule for the batch size keeps the sizes that are named", %{tmp_dir: dir} do
    axon =
      Axon.input("x", shape: {nil, 4})
      |> Axon.nx(fn x -> if Nx.axis_size(x, 0) > 2, do: Nx.exp(x), else: x end)

    model = ExBurn.compile(axon)
    path = Path.join(dir, "sizes.safetensors")

    assert_raise Error,
                 ~r/^save: no one program serves all batch sizes: .*; name some, as in batch_sizes: \[1, 32\]$/,
                 fn ->
                   ExBurn.save(model, path)
                 end

    assert_raise Error,
                 ~r/^save: batch_sizes: is \[0\], expected a list of positive integers$/,
                 fn ->
                   ExBurn.save(model, path, batch_sizes: [0])
                 end

    ExBurn.save(model, path, batch_sizes: [1, 4])
    loaded = ExBurn.load(path)
    assert ExBurn.info(loaded).batch_sizes == [1, 4]
    assert_close(ExBurn.predict!(loaded, input(1)), input(1))
    assert_close(ExBurn.predict!(loaded, input(4)), Nx.exp(input(4)))

    assert {:error, error} = ExBurn.predict(loaded, input(3))

    assert Exception.message(error) ==
             "predict: there is no program for a batch of 3, only for 1, 4"
  end

  test "a fresh VM without Axon predicts", %{tmp_dir: dir} do
    model = model()
    path = saved(dir, model)

    script = """
    false = Code.ensure_loaded?(Axon)
    {:ok, _} = Application.ensure_all_started(:ex_burn)
    model = ExBurn.load(#{inspect(path)})
    x = Nx.divide(Nx.iota({5, 4}, type: :f32), 10)
    model |> ExBurn.predict!(x) |> Nx.to_binary() |> Base.encode16() |> IO.write()
    """

    folders = Path.wildcard(Path.join(Mix.Project.build_path(), "lib/*/ebin"))

    paths =
      for folder <- folders, not (folder =~ ~r"/(axon|polaris)/"), p <- ["-pa", folder], do: p

    {output, 0} = System.cmd("elixir", paths ++ ["-e", script], stderr_to_stdout: true)
    assert output == Base.encode16(Nx.to_binary(ExBurn.predict!(model, input(5))))
  end

  test "reading a file makes no atoms", %{tmp_dir: dir} do
    name = "layer_#{System.unique_integer([:positive])}_of_this_test"

    model =
      Axon.input("x", shape: {nil, 4})
      |> Axon.dense(2, name: name)
      |> ExBurn.compile()

    loaded = dir |> saved(model) |> ExBurn.load()
    assert Map.has_key?(ExBurn.parameters(loaded), name)
    assert_raise ArgumentError, fn -> String.to_existing_atom(name) end
  end

  describe "a bad file" do
    test "that is missing, a folder, or of another kind", %{tmp_dir: dir} do
      path = Path.join(dir, "nothing")
      assert load_error(path) == "load: #{path}: no such file or folder"
      assert load_error(dir) == "load: #{dir}: it is a folder or a device"

      File.write!(path, "PK\x03\x04 and so on, long enough to be a header")
      assert load_error(path) =~ "it is no safetensors file"

      File.write!(path, "")
      assert load_error(path) =~ "it is too short for a safetensors file"
    end

    test "that is a safetensors file of something else, or of a later version", %{tmp_dir: dir} do
      path = Path.join(dir, "other.safetensors")
      header = ~s({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})
      File.write!(path, [<<byte_size(header)::64-little>>, header, 1, 2])
      assert load_error(path) =~ "it is a safetensors file, but not one of an ExBurn model"

      path = saved(dir)
      with_texts(path, &Map.put(&1, "ex_burn_format", "2"))
      assert load_error(path) =~ ~s(it has format "2", this version of ExBurn reads 1)
    end

    test "that is cut off anywhere", %{tmp_dir: dir} do
      path = saved(dir)
      whole = File.read!(path)

      for part <- [3, 8, 100, div(byte_size(whole), 2), byte_size(whole) - 1] do
        File.write!(path, binary_part(whole, 0, part))
        assert load_error(path) =~ ~r/too short|cut off/
      end

      File.write!(path, [whole, 0])
      assert load_error(path) =~ "1 bytes after its end"
    end

    test "whose program or description is damaged", %{tmp_dir: dir} do
      path = saved(dir)
      {:ok, {_tensors, texts}} = ExBurn.NIF.file_read(path)

      damages = [
        {"program", "{", ~r/EOF/},
        {"program", "{\"any\":{}}", ~r/missing field/},
        {"program",
         String.replace(texts["program"], ~s("inputs":[1],), ~s("inputs":[9999],), global: false),
         ~r/reads value 9999/},
        {"program", String.replace(texts["program"], ~s("rsqrt"), ~s("rsqrtx")),
         ~r/unknown variant/},
        {"program", String.replace(texts["program"], ~s("shape":[4,8]), ~s("shape":[4,9])),
         ~r/does not take the model's parameters/},
        {"program",
         String.replace(texts["program"], ~s("shape":[4,8]), ~s("shape":[4,#{2 ** 62}])),
         ~r/larger than memory/},
        {"model", "[]", ~r/invalid/},
        {"model", String.replace(texts["model"], ~s("f32"), ~s("f33")),
         ~r/unknown variant `f33`/},
        {"model", String.replace(texts["model"], ~s({"tensor":0}), ~s({"tensor":5})),
         ~r/the model more/},
        {"model", String.replace(texts["model"], "dense_1", "dense_7"),
         ~r/tensor dense_7.bias is missing/},
        {"model", String.replace(texts["model"], ~s("captures":0), ~s("captures":1)),
         ~r/tensor capture.0 is missing/}
      ]

      for {key, damaged, reason} <- damages do
        assert damaged != texts[key]
        with_texts(path, fn _ -> Map.put(texts, key, damaged) end)
        assert load_error(path) =~ reason
      end
    end
  end

  describe "a file that cannot be written" do
    test "says path and reason, and leaves the old file", %{tmp_dir: dir} do
      below_a_file = Path.join(saved(dir), "model.safetensors")
      missing = Path.join([dir, "missing", "model.safetensors"])

      for {path, reason} <- [
            {below_a_file, "not a directory"},
            {missing, "no such file or folder"}
          ] do
        error = assert_raise Error, fn -> ExBurn.save(model(), path) end
        assert Exception.message(error) == "save: #{path}: #{reason}"
      end

      assert %ExBurn.Model{} = ExBurn.load(Path.join(dir, "model.safetensors"))
    end

    test "for want of permission", %{tmp_dir: dir} do
      File.chmod!(dir, 0o500)
      on_exit(fn -> File.chmod!(dir, 0o700) end)
      # Permissions do not stop root, but nobody makes files in /sys.
      path = Path.join(if(root?(), do: "/sys", else: dir), "model.safetensors")
      error = assert_raise Error, fn -> ExBurn.save(model(), path) end

      assert Exception.message(error) =~
               ~r/^save: #{path}: (permission denied|read-only filesystem)/
    end

    defp root?, do: match?({"0\n", 0}, System.cmd("id", ["-u"]))

    test "for a tensor whose memory was given back", %{tmp_dir: dir} do
      model = model()
      [{path, _tensor} | rest] = model.parameters
      freed = Nx.tensor([1.0], backend: ExBurn.Backend)
      Nx.backend_deallocate(freed)
      file = Path.join(dir, "model.safetensors")

      error =
        assert_raise Error, fn ->
          ExBurn.save(%{model | parameters: [{path, freed} | rest]}, file)
        end

      assert {error.op, error.reason} == {:save, :deallocated}
      refute File.exists?(file)
    end

    test "for a name that is no text", %{tmp_dir: dir} do
      path = Path.join(dir, <<255>>)

      assert_raise Error, ~r/^save: path: is .*, expected valid UTF-8$/, fn ->
        ExBurn.save(model(), path)
      end

      assert_raise Error, ~r/^load: path: is .*, expected valid UTF-8$/, fn ->
        ExBurn.load(path)
      end
    end

    test "for a path that is none" do
      assert_raise Error, "save: path: is nil, expected text", fn -> ExBurn.save(model(), nil) end
      assert_raise Error, "load: path: is :model, expected text", fn -> ExBurn.load(:model) end
    end

    test "for an unknown option", %{tmp_dir: dir} do
      assert_raise Error, "save: unknown option :sizes; known options are :batch_sizes", fn ->
        ExBurn.save(model(), Path.join(dir, "x"), sizes: [1])
      end
    end
  end
end
