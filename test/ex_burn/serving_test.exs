defmodule ExBurn.ServingTest do
  use ExBurn.Case, async: true
  doctest ExBurn.Serving

  alias ExBurn.Serving

  defp model do
    Axon.input("x", shape: {nil, 4})
    |> Axon.dense(8, activation: :tanh)
    |> Axon.dense(3, activation: :softmax)
    |> ExBurn.compile()
  end

  defp rows(start, count) do
    Nx.iota({count, 4}, type: :f32, backend: Nx.BinaryBackend) |> Nx.add(start) |> Nx.divide(100)
  end

  test "runs on the device that is named" do
    model = model()
    expected = ExBurn.predict!(model, rows(0, 3))

    for device <- ExBurn.devices() do
      answer = model |> Serving.build(batch_size: 4, device: device) |> Serving.run(rows(0, 3))
      assert %ExBurn.Backend{device: ^device} = answer.data
      assert_close(answer, expected, 1.0e-6)
    end

    error = assert_raise ExBurn.Error, fn -> Serving.build(model, device: :abacus) end
    assert error.op == :device
  end

  test "runs inline, padding to the compiled sizes and splitting what is larger" do
    model = model()
    serving = Serving.build(model, batch_size: [1, 4])

    for count <- [1, 2, 4, 11] do
      assert_close(
        Serving.run(serving, rows(0, count)),
        ExBurn.predict!(model, rows(0, count)),
        1.0e-6
      )
    end
  end

  test "many callers at once get their own rows" do
    model = model()
    {:ok, supervisor} = start_supervised({DynamicSupervisor, strategy: :one_for_one})
    opts = [name: __MODULE__.Many, supervisor: supervisor, batch_size: [1, 8], batch_timeout: 5]
    assert {:ok, pid} = Serving.supervise(model, opts)
    assert Process.alive?(pid)

    1..200
    |> Task.async_stream(
      fn i ->
        input = rows(i, 1 + rem(i, 3))
        {Nx.Serving.batched_run(__MODULE__.Many, input), ExBurn.predict!(model, input)}
      end,
      max_concurrency: 50,
      timeout: 30_000
    )
    |> Enum.each(fn {:ok, {served, direct}} -> assert_close(served, direct, 1.0e-6) end)
  end

  test "a child of an ordinary supervisor" do
    model = model()
    serving = Serving.build(model, batch_size: 2, batch_timeout: 0)
    start_supervised!({Nx.Serving, serving: serving, name: __MODULE__.Child})

    assert_close(
      Nx.Serving.batched_run(__MODULE__.Child, rows(1, 2)),
      ExBurn.predict!(model, rows(1, 2)),
      1.0e-6
    )
  end

  test "without a supervisor it is linked to the caller" do
    assert {:ok, pid} = Serving.supervise(model(), name: __MODULE__.Linked)
    assert pid in Process.info(self())[:links]
  end

  @tag :tmp_dir
  test "a loaded model with several inputs and a map of outputs", %{tmp_dir: dir} do
    a = Axon.input("a", shape: {nil, 2})
    b = Axon.input("b", shape: {nil, 3})

    axon =
      Axon.container(%{joined: Axon.concatenate([a, b]), sum: Axon.nx(b, &Nx.sum(&1, axes: [1]))})

    path = Path.join(dir, "model.safetensors")
    axon |> ExBurn.compile() |> ExBurn.save(path)
    loaded = ExBurn.load(path)

    start_supervised!(
      {Nx.Serving, serving: Serving.build(loaded, batch_size: 4), name: __MODULE__.Loaded}
    )

    input = %{"a" => Nx.tensor([[1.0, 2.0]]), "b" => Nx.tensor([[3, 4, 5]])}
    output = Nx.Serving.batched_run(__MODULE__.Loaded, input)
    assert Nx.to_list(output["joined"]) == [[1.0, 2.0, 3.0, 4.0, 5.0]]
    assert Nx.to_list(output["sum"]) == [12.0]
  end

  test "bad input is an error of the caller, and the serving lives on" do
    model = model()

    start_supervised!(
      {Nx.Serving, serving: Serving.build(model, batch_size: 4), name: __MODULE__.Bad}
    )

    assert_raise Error, ~s(serving: input "x" has shape {2, 5}, expected {batch, 4}), fn ->
      Nx.Serving.batched_run(__MODULE__.Bad, Nx.iota({2, 5}))
    end

    assert_close(
      Nx.Serving.batched_run(__MODULE__.Bad, rows(0, 1)),
      ExBurn.predict!(model, rows(0, 1)),
      1.0e-6
    )
  end

  test "takes an Nx.Batch as it is" do
    model = model()
    batch = Nx.Batch.stack([rows(0, 1)[0], rows(5, 1)[0]])
    expected = ExBurn.predict!(model, Nx.concatenate([rows(0, 1), rows(5, 1)]))
    assert_close(model |> Serving.build(batch_size: 2) |> Serving.run(batch), expected, 1.0e-6)
  end

  test "bad options are refused" do
    model = model()

    for {opts, message} <- [
          {[batch_size: 0],
           ~r/^serving: batch_size: is 0, expected a positive integer or a list of them$/},
          {[batch_size: []], ~r/^serving: batch_size: is \[\]/},
          {[batch_timeout: -1], ~r/^serving: batch_timeout: is -1/},
          {[size: 1],
           ~r/^serving: unknown option :size; known options are :batch_size, :batch_timeout, :device$/}
        ] do
      assert_raise Error, message, fn -> Serving.build(model, opts) end
    end

    assert_raise Error, "serving: name: is nil, expected an atom", fn ->
      Serving.supervise(model, [])
    end

    assert_raise Error, ~r/^serving: got :model, expected/, fn ->
      Serving.supervise(:model, name: X)
    end
  end
end
