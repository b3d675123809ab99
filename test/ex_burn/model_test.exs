defmodule ExBurn.ModelTest do
  use ExBurn.Case, async: true

  doctest ExBurn.Model
  doctest ExBurn.Model.InitialKeys
  doctest ExBurn.Model.Input
  doctest ExBurn.Model.Options
  doctest ExBurn.Model.Output
  doctest ExBurn.Model.State

  alias ExBurn.Model

  defp mlp do
    Axon.input("x", shape: {nil, 4})
    |> Axon.dense(8, activation: :relu)
    |> Axon.batch_norm()
    |> Axon.dropout(rate: 0.2)
    |> Axon.dense(3, activation: :softmax)
  end

  defp samples(shape, type \\ :f32),
    do: Nx.iota(shape, type: type, backend: Nx.BinaryBackend) |> Nx.divide(Tuple.product(shape))

  # Axon on Nx.BinaryBackend, with the parameters of our model.
  defp reference(axon, model, input) do
    {_init, predict} = Axon.build(axon, compiler: Nx.Defn.Evaluator)
    state = Model.State.to_axon(model.parameters, model.states)
    predict.(Nx.backend_copy(state, Nx.BinaryBackend), input)
  end

  defp error(fun), do: assert_raise(Error, fun) |> Exception.message()

  test "what is no model is refused by name" do
    data = {samples({2, 4}), samples({2, 3})}

    for other <- [nil, %{}, Nx.tensor(1), Axon.input("x")],
        {op, call} <- [
          fit: &ExBurn.fit(&1, data),
          fit_with_progress: &ExBurn.fit_with_progress(&1, data),
          train_step: &ExBurn.train_step(&1, data),
          evaluate: &ExBurn.evaluate(&1, data),
          compute_gradients: &ExBurn.compute_gradients(&1, data),
          summary: &ExBurn.summary/1,
          info: &ExBurn.info/1,
          parameters: &ExBurn.parameters/1,
          update_params: &ExBurn.update_params(&1, %{}),
          save: &ExBurn.save(&1, "no/such/folder")
        ] do
      assert error(fn -> call.(other) end) =~ ~r/^#{op}: model is /
    end
  end

  defp predict_error(model, input) do
    assert {:error, %Error{} = error} = ExBurn.predict(model, input)
    message = Exception.message(error)
    refute message =~ "\n"
    message
  end

  describe "predict" do
    models = [
      mlp: {quote(do: mlp()), {4}},
      convolution:
        {quote do
           Axon.input("x", shape: {nil, 8, 8, 1})
           |> Axon.conv(4, kernel_size: 3, activation: :relu, padding: :same)
           |> Axon.max_pool(kernel_size: 2)
           |> Axon.conv(6, kernel_size: 3, strides: 2)
           |> Axon.batch_norm()
           |> Axon.avg_pool(kernel_size: 1)
           |> Axon.flatten()
           |> Axon.dense(5, activation: :log_softmax)
         end, {8, 8, 1}},
      residual:
        {quote do
           x = Axon.input("x", shape: {nil, 6})
           y = x |> Axon.dense(6, activation: :gelu) |> Axon.layer_norm()
           Axon.concatenate([Axon.add(x, y), Axon.multiply(x, y)]) |> Axon.reshape({:batch, 3, 4})
         end, {6}}
    ]

    for {name, {axon, sample}} <- models do
      test "#{name} answers what Axon answers, for batch sizes that were not traced" do
        axon = unquote(axon)
        model = ExBurn.compile(axon)

        for batch <- [1, 2, 7] do
          input = samples(List.to_tuple([batch | Tuple.to_list(unquote(Macro.escape(sample)))]))
          assert {:ok, output} = ExBurn.predict(model, input)
          assert %ExBurn.Backend{} = output.data
          assert_close(output, reference(axon, model, input))
        end

        assert ExBurn.info(model).batch_sizes == :any
      end
    end

    test "several inputs and a container of outputs" do
      a = Axon.input("a", shape: {nil, 2})
      b = Axon.input("b", shape: {nil, 3})
      joined = Axon.concatenate([a, b])
      axon = Axon.container(%{sum: Axon.dense(joined, 1), both: {joined, Axon.tanh(a)}})
      model = ExBurn.compile(axon)
      input = %{"a" => samples({4, 2}), "b" => samples({4, 3})}

      assert %{sum: sum, both: {left, right}} = ExBurn.predict!(model, input)
      expected = reference(axon, model, input)
      assert_close(sum, expected.sum)
      assert_close(left, elem(expected.both, 0))
      assert_close(right, elem(expected.both, 1))
    end

    test "an embedding is looked up by integers" do
      axon = Axon.input("tokens", shape: {nil, 3}) |> Axon.embedding(10, 4)
      model = ExBurn.compile(axon)
      tokens = Nx.tensor([[1, 2, 3], [9, 0, 4]])
      assert ExBurn.info(model).inputs == %{"tokens" => {:s64, [nil, 3]}}
      assert_close(ExBurn.predict!(model, tokens), reference(axon, model, tokens))

      assert predict_error(model, samples({2, 3})) ==
               ~s(predict: input "tokens" has type f32, expected s64; see Nx.as_type/2)

      assert predict_error(model, Nx.tensor([[1, 2, 10]])) =~
               "predict: take: index 10 is out of bounds for axis 0"
    end

    test "a recurrent layer" do
      {sequence, _state} = Axon.input("x", shape: {nil, 5, 3}) |> Axon.lstm(4)
      axon = Axon.nx(sequence, & &1[[0..-1//1, -1]])
      model = ExBurn.compile(axon)
      input = samples({3, 5, 3})
      assert_close(ExBurn.predict!(model, input), reference(axon, model, input))
    end

    test "integers and smaller floats are converted" do
      model = ExBurn.compile(mlp())
      floats = samples({2, 4}) |> Nx.multiply(8)
      expected = ExBurn.predict!(model, floats)

      for type <- [:u8, :s64, :f16, :bf16] do
        assert_close(ExBurn.predict!(model, Nx.as_type(floats, type)), expected)
      end
    end

    test "in parts of a batch size" do
      model = ExBurn.compile(mlp())
      input = samples({7, 4})
      assert {:ok, parts} = ExBurn.predict(model, input, batch_size: 3)
      assert_close(parts, ExBurn.predict!(model, input))

      assert {:error, error} = ExBurn.predict(model, input, batch_size: 0)
      assert Exception.message(error) == "predict: batch_size: is 0, expected a positive integer"

      sum = Axon.input("x", shape: {nil, 4}) |> Axon.nx(&Nx.sum/1) |> ExBurn.compile()
      assert {:error, error} = ExBurn.predict(sum, input, batch_size: 3)
      assert Exception.message(error) =~ "one row for each sample, this one answers {} for 3"
    end

    test "an Axon model and parameters" do
      axon = mlp()
      {init, predict} = Axon.build(axon, compiler: Nx.Defn.Evaluator)
      input = samples({3, 4})
      state = init.(input, Axon.ModelState.empty())
      assert {:ok, output} = ExBurn.predict({axon, state}, input)
      assert_close(output, predict.(state, input))

      lacking = %{state | data: Map.delete(state.data, "dense_1")}

      assert predict_error({axon, lacking}, input) ==
               "predict: the parameters lack dense_1.bias, dense_1.kernel"

      lacking = %{state | data: Map.update!(state.data, "batch_norm_0", &Map.delete(&1, "mean"))}

      assert predict_error({axon, lacking}, input) ==
               "predict: the parameters lack batch_norm_0.mean"
    end

    test "an input without a shape is known once it is given" do
      axon = Axon.input("x") |> Axon.dense(2)
      {init, predict} = Axon.build(axon, compiler: Nx.Defn.Evaluator)
      input = samples({3, 5})
      state = init.(input, Axon.ModelState.empty())
      assert_close(ExBurn.predict!({axon, state}, input), predict.(state, input))
    end

    test "a shape without a batch axis takes that shape only" do
      axon = Axon.input("x", shape: {2, 3}) |> Axon.nx(&Nx.sum/1)
      model = ExBurn.compile(axon)
      assert_close(ExBurn.predict!(model, samples({2, 3})), Nx.sum(samples({2, 3})))
      assert predict_error(model, samples({1, 3})) =~ "has shape {1, 3}, expected {2, 3}"
    end
  end

  describe "bad input" do
    setup do
      %{model: ExBurn.compile(mlp())}
    end

    test "of another shape or rank", %{model: model} do
      assert predict_error(model, samples({2, 5})) ==
               ~s(predict: input "x" has shape {2, 5}, expected {batch, 4})

      assert predict_error(model, samples({4})) ==
               ~s(predict: input "x" has shape {4}, expected {batch, 4})

      assert predict_error(model, samples({2, 2, 4})) =~
               "has shape {2, 2, 4}, expected {batch, 4}"
    end

    test "under another name, or missing", %{model: model} do
      assert predict_error(model, %{"y" => samples({2, 4})}) ==
               ~s(predict: unknown input "y"; the model's inputs are "x")

      assert predict_error(model, %{}) == ~s(predict: input "x" is missing)
    end

    test "of another type", %{model: model} do
      assert predict_error(model, samples({2, 4}, :f64)) ==
               ~s(predict: input "x" has type f64, expected f32; see Nx.as_type/2)

      assert predict_error(model, Nx.tensor([[1, 2, 3, Complex.new(1, 2)]])) =~ "has type c64"

      assert predict_error(model, Nx.template({2, 4}, :f32)) =~ "a template, expected a tensor"

      assert predict_error(model, %{"x" => [1, 2]}) ==
               ~s(predict: input "x" is [1, 2], expected a tensor)

      assert predict_error(:model, samples({2, 4})) =~ "got :model"
      assert predict_error(samples({2, 4}), samples({2, 4})) =~ "got #Nx.Tensor< f32[2][4]"

      assert predict_error(model, [1.0, 2.0]) =~
               ~s(expected a tensor or a map of tensors named "x")

      assert predict_error(:model, samples({2, 4})) =~ "got :model, expected an %ExBurn.Model{}"
    end

    test "of several inputs" do
      inputs = [Axon.input("a", shape: {nil, 2}), Axon.input("b", shape: {nil, 2})]
      model = ExBurn.compile(Axon.add(inputs))

      assert predict_error(model, samples({2, 2})) ==
               ~s(predict: got one tensor, expected a map of tensors named "a", "b")

      assert predict_error(model, %{"a" => samples({2, 2}), "b" => samples({3, 2})}) ==
               ~s(predict: inputs have different batch sizes: "a" 2, "b" 3)
    end
  end

  describe "compile" do
    test "starts from the parameters that Axon makes from the same seed" do
      axon = mlp()
      {init, _predict} = Axon.build(axon, seed: 7, compiler: Nx.Defn.Evaluator)
      expected = init.(samples({1, 4}), Axon.ModelState.empty()).data
      model = ExBurn.compile(axon, seed: 7)

      for {path, tensor} <- model.parameters, do: assert_close(tensor, get_in(expected, path))
    end

    test "the seed decides parameters and random keys" do
      leaves = fn seed ->
        model = ExBurn.compile(mlp(), seed: seed)
        for {path, t} <- model.parameters ++ model.states, do: {path, Nx.to_binary(t)}
      end

      assert leaves.(1) == leaves.(1)
      {_, key} = List.keyfind(leaves.(1), ["dropout_0", "key"], 0)
      {_, other} = List.keyfind(leaves.(2), ["dropout_0", "key"], 0)
      assert key != other
    end

    test "starts deep models and blocks from the same parameters too, each time they are made" do
      leaves = fn axon ->
        model = ExBurn.compile(axon.(Axon.input("x", shape: {nil, 3})), seed: 5)
        for {path, t} <- model.parameters ++ model.states, do: {path, Nx.to_binary(t)}
      end

      # A map of more than 32 nodes has no order of its own.
      deep = fn x -> Enum.reduce(1..40, x, fn _, x -> Axon.dense(x, 3) end) end

      blocks = fn x ->
        inner = Axon.block(&Axon.dense(&1, 3, bias_initializer: :normal))
        outer = Axon.block(fn a, b -> Axon.add(inner.(a), Axon.dense(b, 3)) end)
        other = Axon.block(&Axon.dense(&1, 3), name: "other")
        x |> outer.(outer.(x, x)) |> other.()
      end

      for axon <- [deep, blocks] do
        first = leaves.(axon)
        assert leaves.(axon) == first
        kernels = for {path, bits} <- first, List.last(path) == "kernel", do: bits
        assert Enum.uniq(kernels) == kernels
      end

      assert length(leaves.(deep)) == 80
      assert length(leaves.(blocks)) == 6
    end

    test "says what a layer or an initializer raised, or exited with" do
      input = Axon.input("x", shape: {nil, 2})
      layer = fn fun -> Axon.layer(fn _x, _opts -> fun.() end, [input], name: "mine") end
      start = fn fun -> Axon.dense(input, 1, kernel_initializer: fn _, _, _ -> fun.() end) end
      gone = fn -> exit({:noproc, :somewhere}) end

      for {axon, text} <- [
            {layer.(fn -> raise "oops" end), "layer mine: oops"},
            {layer.(gone), "the model exited: "},
            {start.(fn -> raise "oops" end), "the model raised RuntimeError: oops"},
            {start.(gone), "the model exited: "}
          ] do
        error = assert_raise Error, fn -> ExBurn.compile(axon) end
        assert Exception.message(error) =~ "compile: " <> text
      end

      assert catch_throw(ExBurn.compile(start.(fn -> throw(:ball) end))) == :ball
    end

    test "takes given parameters and makes the others" do
      kernel = samples({4, 8})
      state = Axon.ModelState.new(%{"dense_0" => %{"kernel" => kernel}})
      model = ExBurn.compile({mlp(), state})
      assert_close(ExBurn.parameters(model)["dense_0"]["kernel"], kernel)
      assert Nx.shape(ExBurn.parameters(model)["dense_1"]["kernel"]) == {8, 3}
    end

    test "keeps states and parameters apart, and what is frozen" do
      axon = mlp()
      {init, _predict} = Axon.build(axon, mode: :train)

      state =
        samples({1, 4})
        |> init.(Axon.ModelState.empty())
        |> Axon.ModelState.freeze(&match?(["dense_0" | _], &1))

      model = ExBurn.compile({axon, state})
      paths = fn leaves -> Enum.map(leaves, &elem(&1, 0)) end

      assert paths.(model.states) == [
               ["batch_norm_0", "mean"],
               ["batch_norm_0", "var"],
               ["dropout_0", "key"]
             ]

      assert ["dense_0", "kernel"] in paths.(model.parameters)
      assert MapSet.to_list(model.frozen) == [["dense_0", "bias"], ["dense_0", "kernel"]]
      assert ExBurn.info(model).frozen == 40
    end

    test "to an Axon state and back" do
      axon = mlp()
      {init, _predict} = Axon.build(axon, mode: :train, compiler: Nx.Defn.Evaluator)
      state = samples({1, 4}) |> init.(Axon.ModelState.empty())
      state = Axon.ModelState.freeze(state, &match?(["dense_1", "bias"], &1))
      {parameters, states, frozen} = Model.State.from_axon(state)
      again = Model.State.to_axon(parameters, states, frozen)

      assert again.data == state.data

      assert Axon.ModelState.trainable_parameters(again) ==
               Axon.ModelState.trainable_parameters(state)

      assert Axon.ModelState.trainable_state(again) == Axon.ModelState.trainable_state(state)
      assert Axon.ModelState.frozen_parameters(again) == Axon.ModelState.frozen_parameters(state)
    end

    test "refuses unknown options and names" do
      for {opts, message} <- [
            {[optimiser: :adam],
             ~r/^compile: unknown option :optimiser; known options are :device, :inputs/},
            {[loss: :mean], ~r/^compile: loss: is :mean, expected :cross_entropy, :mse/},
            {[optimizer: :adamax],
             ~r/^compile: optimizer: is :adamax, expected one of :adagrad, :adam, .* or a pair/},
            {[optimizer: {:sgd, b1: 0.9}], ~r/^compile: optimizer: is \{:sgd, \[b1: 0.9\]\}/},
            {[metrics: [:f2]], ~r/^compile: metrics: is :f2, expected a list of :accuracy/},
            {[learning_rate: -1],
             ~r/^compile: learning_rate: is -1, expected a number of at least 0/},
            {[seed: -1], ~r/^compile: seed: is -1/},
            {[metrics: :accuracy], ~r/^compile: metrics: is :accuracy, expected a list$/},
            {[device: :tpu], ~r/^device: there is no device :tpu; devices are \[:cpu/},
            {:fast, ~r/^compile: options are :fast, not a keyword list/}
          ] do
        message |> assert_match_error(fn -> ExBurn.compile(mlp(), opts) end)
      end
    end

    test "refuses models that it cannot trace, in one line" do
      no_shape = Axon.input("x") |> Axon.dense(2)
      free_axis = Axon.input("x", shape: {nil, nil, 3}) |> Axon.dense(2)
      wrong = Axon.input("x", shape: {nil, 3}) |> Axon.reshape({:batch, 2, 2})

      assert_match_error(~r/the shape of input "x" is not known beyond the batch; give it/, fn ->
        ExBurn.compile(no_shape)
      end)

      assert_match_error(~r/the shape of input "x" is not known/, fn ->
        ExBurn.compile(free_axis)
      end)

      assert_match_error(~r/^compile: layer reshape_0: /, fn -> ExBurn.compile(wrong) end)

      assert_match_error(~r/^compile: got :axon, expected an %Axon/, fn ->
        ExBurn.compile(:axon)
      end)

      assert_match_error(~r/unknown input "y"; the model's inputs are "x"/, fn ->
        ExBurn.compile(no_shape, inputs: %{"y" => Nx.template({1, 2}, :f32)})
      end)
    end

    test "templates give what the inputs lack" do
      axon = Axon.input("x") |> Axon.dense(2)
      model = ExBurn.compile(axon, inputs: Nx.template({1, 3}, :f64))
      assert ExBurn.info(model).inputs == %{"x" => {:f64, [nil, 3]}}
      assert Nx.type(ExBurn.predict!(model, samples({2, 3}, :f64))) == {:f, 64}
    end

    test "an optional input is used when it is named" do
      mask = Axon.input("mask", shape: {nil, 2}, optional: true)

      axon =
        Axon.layer(
          fn
            x, %Axon.None{}, _opts -> x
            x, mask, _opts -> Nx.multiply(x, mask)
          end,
          [Axon.input("x", shape: {nil, 2}), Axon.optional(mask)]
        )

      without = ExBurn.compile(axon)
      with_mask = ExBurn.compile(axon, inputs: %{"mask" => Nx.template({1, 2}, :f32)})
      x = Nx.tensor([[1.0, 2.0]])

      assert without |> ExBurn.predict!(x) |> Nx.to_list() == [[1.0, 2.0]]
      input = %{"x" => x, "mask" => Nx.tensor([[0.0, 1.0]])}
      assert with_mask |> ExBurn.predict!(input) |> Nx.to_list() == [[0.0, 2.0]]
    end

    defp assert_match_error(pattern, fun) do
      message = error(fun)
      assert message =~ pattern
      refute message =~ "\n"
    end
  end

  describe "update_params" do
    test "checks names and shapes and converts types" do
      model = ExBurn.compile(mlp())

      assert error(fn ->
               ExBurn.update_params(model, %{"dense_9" => %{"bias" => samples({3})}})
             end) ==
               ~s(parameters: the model has no dense_9.bias; its layers are "batch_norm_0", "dense_0", "dense_1", "dropout_0")

      assert error(fn ->
               ExBurn.update_params(model, %{"dense_1" => %{"bias" => samples({4})}})
             end) ==
               "parameters: dense_1.bias has shape {4}, expected {3}"

      assert error(fn -> ExBurn.update_params(model, %{"dense_1" => %{"bias" => 1}}) end) ==
               "parameters: dense_1.bias is 1, expected a tensor or a map of tensors"

      assert error(fn -> ExBurn.update_params(model, 3) end) =~ "got 3, expected a map of tensors"

      bias = Nx.tensor([1, 2, 3])
      updated = ExBurn.update_params(model, %{"dense_1" => %{"bias" => bias}})
      assert ExBurn.parameters(updated)["dense_1"]["bias"] |> Nx.to_list() == [1.0, 2.0, 3.0]
      assert ExBurn.parameters(model)["dense_1"]["bias"] |> Nx.to_list() == [0.0, 0.0, 0.0]
    end

    test "takes all that parameters/1 and another model give" do
      [one, two] = for seed <- [1, 2], do: ExBurn.compile(mlp(), seed: seed)
      input = samples({3, 4})
      expected = ExBurn.predict!(one, input)

      for source <- [one, ExBurn.parameters(one), Model.State.to_axon(one.parameters, one.states)] do
        assert_close(ExBurn.predict!(ExBurn.update_params(two, source), input), expected)
      end
    end
  end
end
