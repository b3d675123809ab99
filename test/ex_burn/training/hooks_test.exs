defmodule ExBurn.Training.HooksTest do
  use ExBurn.Case, async: true

  import ExUnit.CaptureIO
  import ExBurn.Oracle, only: [parameters: 1]

  alias ExBurn.{GradientCases, Model, Training}

  @quiet [epochs: 1, batch_size: 2, shuffle: false, verbose: false]

  defp x, do: GradientCases.random({4, 3}, 1)
  defp y, do: GradientCases.random({4, 1}, 2)

  defp model(wrap \\ &Function.identity/1) do
    "x"
    |> Axon.input(shape: {nil, 3})
    |> Axon.dense(2, name: "first")
    |> wrap.()
    |> Axon.dense(1, name: "last")
    |> Model.compile(loss: :mse, learning_rate: 0.05, seed: 5)
  end

  defp hooked(opts) do
    test = self()
    hook = fn output -> send(test, {:output, self(), Nx.to_list(output)}) end
    model(&Axon.attach_hook(&1, hook, opts))
  end

  defp outputs do
    receive do
      {:output, pid, list} when pid == self() -> [list | outputs()]
    after
      0 -> []
    end
  end

  defp assert_near(got, want) do
    got = got |> Nx.backend_copy(Nx.BinaryBackend) |> Nx.as_type(:f32)
    want = Nx.backend_copy(want, Nx.BinaryBackend)
    assert got.shape == want.shape
    assert got |> Nx.subtract(want) |> Nx.abs() |> Nx.reduce_max() |> Nx.to_number() < 1.0e-5
  end

  defp first(model, x) do
    %{"first" => %{"kernel" => kernel, "bias" => bias}} = parameters(model)
    x |> Nx.backend_copy(Nx.BinaryBackend) |> Nx.dot(kernel) |> Nx.add(bias)
  end

  for gradients <- [:autodiff, :symbolic] do
    test "forward hooks see each batch in training, #{gradients}" do
      model = hooked(on: :forward, mode: :train)
      opts = [gradients: unquote(gradients)] ++ @quiet
      trained = Training.fit(model, {x(), y()}, opts)
      assert [batch, _second] = outputs()
      assert_near(Nx.tensor(batch), first(model, x()[0..1]))
      assert parameters(trained) == parameters(Training.fit(model(), {x(), y()}, opts))
    end

    test "backward hooks see gradients, #{gradients}" do
      model = hooked(on: :backward, mode: :train)
      {_loss, _model} = Training.train_step(model, {x(), y()}, gradients: unquote(gradients))
      assert [gradient] = outputs()

      # The bias is added to each row, so its gradient is the sum of theirs.
      want = Training.compute_gradients(model(), {x(), y()})["first"]["bias"]
      assert_near(gradient |> Nx.tensor() |> Nx.sum(axes: [0]), want)
    end
  end

  test "hooks of an evaluation see validation data, and are not called for training" do
    model = hooked(on: :forward, mode: :inference)
    trained = Training.fit(model, {x(), y()}, [validation_data: {x(), y()}] ++ @quiet)
    assert [first, _second] = outputs()
    assert_near(Nx.tensor(first), first(trained, x()[0..1]))
    Training.evaluate(model, {x(), y()}, batch_size: 4)
    assert [all] = outputs()
    assert_near(Nx.tensor(all), first(model, x()))
  end

  test "with gradient checkpointing they see each batch once" do
    model = hooked(on: :forward, mode: :train)
    opts = [gradient_checkpointing: {:every, 1}] ++ @quiet
    Training.fit(model, {x(), y()}, opts)
    assert length(outputs()) == 2
  end

  test "batches that are fed are seen too" do
    model = hooked(on: :forward, mode: :train)
    batches = [{x()[0..1], y()[0..1]}, {x()[0..2], y()[0..2]}]
    Training.fit(model, batches, @quiet)
    assert [2, 3] = Enum.map(outputs(), &length/1)
  end

  test "values are printed by the process that trains" do
    model = model(fn axon -> Axon.nx(axon, &Nx.Defn.Kernel.print_value(&1, label: "seen")) end)
    fit = fn -> Training.fit(model, {x(), y()}, Keyword.put(@quiet, :batch_size, 4)) end
    assert capture_io(fit) =~ ~r/seen: #Nx.Tensor</
  end

  test "predictions, gradients and profiles pass over them" do
    model = hooked(on: :both, mode: :both)
    assert {:ok, _} = ExBurn.predict(model, x())

    for opts <- [[], [gradients: :symbolic]] do
      want = Training.compute_gradients(model(), {x(), y()}, opts)["last"]["bias"]
      got = Training.compute_gradients(model, {x(), y()}, opts)["last"]["bias"]
      assert Nx.to_list(got) == Nx.to_list(want)
      Training.profile_step(model, {x(), y()}, [repeat: 1] ++ opts)
    end

    assert outputs() == []
  end

  test "a hook that raises ends the run and leaves the model" do
    model = model(&Axon.attach_hook(&1, fn _ -> raise KeyError, key: :oops end, mode: :train))
    error = assert_raise Error, fn -> Training.fit(model, {x(), y()}, @quiet) end
    assert Exception.message(error) =~ "fit: a hook in epoch 1 raised KeyError: key :oops"
    assert %KeyError{} = error.details.error
    assert parameters(error.details.model) == parameters(model)
    refute_received _
  end

  test "a run that is stopped while a hook is due ends well" do
    test = self()

    axon =
      "x"
      |> Axon.input(shape: {nil, 3})
      |> Axon.dense(1)
      |> Axon.attach_hook(fn _ -> send(test, :hook) end, mode: :train)

    halt = fn
      {:start, _info}, state -> {:cont, state}
      {:epoch, _info}, state -> {:halt, state}
      _event, state -> {:cont, state}
    end

    model = Model.compile(axon, loss: :mse)
    opts = [callbacks: [halt]] ++ Keyword.merge(@quiet, epochs: 3, batch_size: 4)
    assert {_model, [_one]} = Training.fit_with_progress(model, {x(), y()}, opts)
    assert_received :hook
    refute_received _
  end
end
