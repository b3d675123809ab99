defmodule ExBurn.Model.ForwardTest do
  use ExBurn.Case, async: true

  alias ExBurn.Model.Forward

  # One number for the whole batch: the program depends on the batch in a way that no rule describes.
  defp squared do
    Axon.input("x", shape: {nil, 2})
    |> Axon.nx(fn x ->
      batch = Nx.axis_size(x, 0)
      Nx.add(x, Nx.sum(Nx.iota({batch * batch}, type: :f32)))
    end)
  end

  # Fewer or more instructions for other batch sizes.
  defp branching do
    Axon.input("x", shape: {nil, 2})
    |> Axon.nx(fn x -> if Nx.axis_size(x, 0) > 2, do: Nx.exp(x), else: x end)
  end

  defp rows(batch), do: Nx.iota({batch, 2}, type: :f32, backend: Nx.BinaryBackend)

  test "a program that depends on the batch by rules needs no Axon for other sizes" do
    model =
      Axon.input("x", shape: {nil, 2}) |> Axon.flatten() |> Axon.dense(3) |> ExBurn.compile()

    assert model.forward.template =~ ~s({"$batch":[1,0]})
    assert ExBurn.info(model).batch_sizes == :any
    without = %{model | axon: nil}
    assert Nx.shape(ExBurn.predict!(without, rows(100))) == {100, 3}
  end

  test "another one is traced for each size, while Axon is there" do
    for axon <- [squared(), branching()] do
      model = ExBurn.compile(axon)
      assert model.forward.template == nil
      assert model.forward.reason =~ "depends on the batch size"
      assert ExBurn.info(model).batch_sizes == :any
      {_init, predict} = Axon.build(axon, compiler: Nx.Defn.Evaluator)

      for batch <- [1, 2, 4] do
        expected = predict.(Axon.ModelState.empty(), rows(batch))
        assert_close(ExBurn.predict!(model, rows(batch)), expected, 1.0e-5)
      end
    end
  end

  test "a captured tensor is brought along" do
    table = Nx.tensor([10.0, 20.0], backend: Nx.BinaryBackend)
    axon = Axon.input("x", shape: {nil, 2}) |> Axon.nx(&Nx.multiply(&1, table))
    model = ExBurn.compile(axon)
    assert [_table] = model.forward.captures
    assert ExBurn.predict!(model, rows(2)) |> Nx.to_list() == [[0.0, 20.0], [20.0, 60.0]]
  end

  test "a captured tensor that depends on the batch size is noticed" do
    axon =
      Axon.input("x", shape: {nil, 2})
      |> Axon.nx(fn x ->
        batch = Nx.axis_size(x, 0)
        Nx.multiply(x, Nx.tensor([batch, 1], type: :f32, backend: Nx.BinaryBackend))
      end)

    model = ExBurn.compile(axon)
    assert model.forward.template == nil
    assert model.forward.reason == "a tensor that it captures depends on the batch size"

    assert ExBurn.predict!(model, rows(3)) |> Nx.to_list() == [
             [0.0, 1.0],
             [6.0, 3.0],
             [12.0, 5.0]
           ]
  end

  test "a captured tensor of one number is a constant, of any shape" do
    axon =
      Axon.input("x", shape: {nil, 2})
      |> Axon.nx(
        &Nx.add(
          &1,
          Nx.broadcast(Nx.tensor(0.5, backend: Nx.BinaryBackend), {Nx.axis_size(&1, 0), 2})
        )
      )

    model = ExBurn.compile(axon)
    assert model.forward.captures == []
    assert %{model | axon: nil} |> ExBurn.predict!(rows(1)) |> Nx.to_list() == [[0.5, 1.5]]
  end

  test "recurrent layers serve any batch when their initial state is zeros" do
    input = Nx.iota({4, 5, 3}, type: :f32, backend: Nx.BinaryBackend) |> Nx.divide(60)

    for layer <- [&Axon.gru/3, &Axon.lstm/3] do
      {axon, _state} =
        Axon.input("x", shape: {nil, 5, 3}) |> layer.(3, recurrent_initializer: :zeros)

      model = ExBurn.compile(axon)
      {_init, predict} = Axon.build(axon, compiler: Nx.Defn.Evaluator)
      state = ExBurn.Model.State.to_axon(model.parameters, model.states)
      expected = predict.(Nx.backend_copy(state, Nx.BinaryBackend), input)
      assert_close(ExBurn.predict!(%{model | axon: nil}, input), expected, 1.0e-5)
    end
  end

  test "programs are prepared once for each batch size" do
    model = Axon.input("x", shape: {nil, 2}) |> Axon.dense(3) |> ExBurn.compile()
    {first, _types} = Forward.executable(model, 4)
    assert {^first, [{:f32, [4, 3]}]} = Forward.executable(model, 4)
    {other, _types} = Forward.executable(model, 5)
    assert other != first
  end

  test "answers that are no tensors, tuples or maps are refused" do
    state = fn x, _opts -> {x, Axon.ModelState.new(%{"x" => x})} end
    axon = Axon.layer(state, [Axon.input("x", shape: {nil, 2})])

    assert_raise Error,
                 ~r/^compile: the model answers .*, expected tensors in tuples and maps$/,
                 fn ->
                   ExBurn.compile(axon)
                 end
  end
end
