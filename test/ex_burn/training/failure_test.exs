defmodule ExBurn.Training.FailureTest do
  use ExBurn.Case, async: true

  alias ExBurn.{GradientCases, Model, Training}
  alias ExBurn.Training.{Checkpoint, Failure}

  doctest Failure

  @quiet [epochs: 3, batch_size: 4, shuffle: false, verbose: false]

  defp model do
    "x"
    |> Axon.input(shape: {nil, 3})
    |> Axon.dense(1, name: "line")
    |> Model.compile(loss: :mse, optimizer: :adam, learning_rate: 0.02)
  end

  defp x, do: GradientCases.random({12, 3}, 1)
  defp y, do: GradientCases.random({12, 1}, 2)
  defp batches, do: for(at <- [0, 4, 8], do: {rows(x(), at), rows(y(), at)})
  defp rows(t, at), do: Nx.slice_along_axis(t, at, 4)

  defp bits(model),
    do: for({path, t} <- model.parameters ++ model.states, do: {path, Nx.to_binary(t)})

  defp failure(data, opts \\ []),
    do: assert_raise(Error, fn -> Training.fit(model(), data, @quiet ++ opts) end)

  defp trained(data, epochs),
    do: Training.fit_with_progress(model(), data, Keyword.put(@quiet, :epochs, epochs))

  test "a callback that raises leaves the model and the history of the epochs so far" do
    callback = fn
      {:epoch, %{epoch: 2}}, _state -> raise KeyError, key: :oops
      _event, state -> {:cont, state}
    end

    error = failure({x(), y()}, callbacks: [callback])
    {want, history} = trained({x(), y()}, 2)
    assert Exception.message(error) =~ "fit: a callback after epoch 2 raised KeyError: key :oops"
    assert %{epoch: 2, error: %KeyError{key: :oops}, history: ^history} = error.details
    assert bits(error.details.model) == bits(want)
  end

  test "an error of ours in a callback keeps its text" do
    callback = fn _event, _state -> raise Error, op: :save, reason: "disk full" end
    error = failure({x(), y()}, callbacks: [callback])
    assert Exception.message(error) == "save: disk full"
    assert %Model{} = error.details.model
  end

  # The run has done what it was given before it is stopped.
  test "data that raises leaves the model, and the batch is named" do
    {:ok, epochs} = Agent.start_link(fn -> 0 end)

    stream =
      Stream.resource(
        fn -> {Agent.get_and_update(epochs, &{&1 + 1, &1 + 1}), batches()} end,
        fn
          {2, [_, _]} -> raise File.Error, path: "rows", action: "read", reason: :enoent
          {_epoch, []} -> {:halt, nil}
          {epoch, [batch | rest]} -> {[batch], {epoch, rest}}
        end,
        fn _ -> :ok end
      )

    error = failure(stream)
    assert Exception.message(error) =~ "fit: batch 2 of epoch 2: the data raised File.Error: "
    {_model, history} = trained(batches(), 1)
    assert %{epoch: 2, batch: 2, history: ^history, error: %File.Error{}} = error.details
    refute bits(error.details.model) == bits(model())
    assert %{loss: loss} = Training.evaluate(error.details.model, {x(), y()})
    assert is_float(loss)
  end

  test "a batch that does not fit the model is named" do
    [first, second, _] = batches()
    error = failure([first, second, {GradientCases.random({4, 2}, 3), rows(y(), 0)}])
    assert Exception.message(error) =~ ~r/^fit: batch 3 of epoch 1: .*x/
    assert %{epoch: 1, batch: 3, history: [], model: %Model{}} = error.details
  end

  test "a loss that is not finite names step and batch" do
    [first, second, third] = batches()
    bad = {Nx.multiply(elem(second, 0), Nx.Constants.nan(:f32)), elem(second, 1)}
    error = failure([first, bad, third])
    assert %{epoch: 1, step: 2, batch: 2, history: [], model: left} = error.details
    {want, _history} = trained([first], 1)
    assert bits(left) == bits(want)
  end

  test "a gradient that is not finite names the layer" do
    # The root's slope at 0 has no bound.
    model =
      "x"
      |> Axon.input(shape: {nil, 3})
      |> Axon.dense(1, name: "line", kernel_initializer: :zeros)
      |> Axon.nx(&Nx.sqrt/1)
      |> Model.compile(loss: :mae)

    error =
      assert_raise Error, fn -> Training.fit(model, {Nx.abs(x()), Nx.abs(y())}, @quiet) end

    assert %{layer: "line", step: 1, batch: 1, parameter: "line." <> _} = error.details
  end

  @tag :tmp_dir
  test "when its owner is killed, the newest checkpoint has the model", %{tmp_dir: dir} do
    test = self()

    stop = fn
      {:epoch, %{epoch: 2}}, _state ->
        send(test, :there)
        Process.sleep(:infinity)

      _event, state ->
        {:cont, state}
    end

    callbacks = [Training.checkpoint_callback(1, dir), stop]
    run = fn -> Training.fit(model(), {x(), y()}, @quiet ++ [callbacks: callbacks]) end
    {pid, monitor} = spawn_monitor(run)
    assert_receive :there, 60_000
    Process.exit(pid, :kill)
    assert_receive {:DOWN, ^monitor, :process, ^pid, :killed}, 60_000

    {want, history} = trained({x(), y()}, 2)
    assert {model, ^history} = Training.restore(model(), dir)
    assert bits(model) == bits(want)
    assert {model, [_]} = Training.restore(model(), Checkpoint.path(dir, 1))
    refute bits(model) == bits(want)

    assert_raise Error, ~r/^restore: .*none has no checkpoint that is whole/, fn ->
      Training.restore(model, Path.join(dir, "none"))
    end
  end
end
