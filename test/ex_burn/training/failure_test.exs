defmodule ExBurn.Training.FailureTest do
  use ExBurn.Case, async: true

  alias ExBurn.{GradientCases, Model, Training}
  alias ExBurn.Training.{Checkpoint, Failure}

  doctest Failure
  doctest ExBurn.Training.Diagnosis

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

  test "a callback that raises at the end names the last epoch" do
    callback = fn
      {:end, _info}, _state -> raise "oops"
      _event, state -> {:cont, state}
    end

    error = failure({x(), y()}, callbacks: [callback])
    assert Exception.message(error) == "fit: a callback at the end raised RuntimeError: oops"
    assert %{epoch: 3, history: [_, _, _]} = error.details
  end

  test "a schedule that raises is named, in the first epoch and later" do
    for epoch <- [1, 3] do
      schedule = fn
        ^epoch -> raise "oops"
        _epoch -> 0.1
      end

      error = failure({x(), y()}, lr_schedule: schedule)
      message = "fit: lr_schedule: raised for epoch #{epoch}: RuntimeError: oops"
      assert Exception.message(error) == message
      assert error.details.error == %RuntimeError{message: "oops"}
      if epoch > 1, do: assert(%{model: %Model{}, history: [_, _]} = error.details)
    end
  end

  test "a last step that goes too far is taken back, and the parameter named" do
    opts = [epochs: 1, batch_size: 12, verbose: false]
    axon = "x" |> Axon.input(shape: {nil, 3}) |> Axon.dense(1, name: "line")
    model = Model.compile(axon, loss: :mse, optimizer: :sgd, learning_rate: 1.0e308)
    error = assert_raise Error, fn -> Training.fit(model, {x(), y()}, opts) end

    message =
      ~r/^fit: the parameter line.bias is -?inf at epoch 1, step 1; the step went too far$/

    assert Exception.message(error) =~ message
    assert %{parameter: "line.bias", layer: "line", model: left} = error.details
    assert bits(left) == bits(model)
    assert bits(Training.fit(model, {x(), y()}, [nan: :skip] ++ opts)) == bits(model)
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

  # The run has no step behind it: the model is what it was given.
  describe "what raises while a run is prepared leaves the model:" do
    defp assert_left(model, opts, message) do
      run = fn -> Training.fit(model, {x(), y()}, @quiet ++ opts) end
      error = assert_raise Error, run
      assert Exception.message(error) == message
      assert %{model: left, history: [], error: %RuntimeError{message: "oops"}} = error.details
      assert bits(left) == bits(model)

      assert %Model{} =
               Training.fit(
                 %{left | metrics: [], loss: :mse, optimizer: :adam},
                 {x(), y()},
                 @quiet
               )
    end

    test "a metric, and in a batch of a stream" do
      model = %{model() | metrics: [mine: fn _y, _p -> raise "oops" end]}
      assert_left(model, [], "fit: the metric :mine raised RuntimeError: oops")
      error = assert_raise Error, fn -> Training.fit(model, batches(), @quiet) end
      message = "fit: batch 1 of epoch 1: the metric :mine raised RuntimeError: oops"
      assert Exception.message(error) == message
      assert %{model: left, batch: 1, error: %RuntimeError{}} = error.details
      assert bits(left) == bits(model)
    end

    test "a loss function" do
      model = %{model() | loss: fn _y, _p -> raise "oops" end}
      assert_left(model, [], "fit: the loss function raised RuntimeError: oops")
    end

    test "either function of an optimizer" do
      raises = {fn _ -> raise "oops" end, fn g, s, _p -> {g, s} end}
      model = %{model() | optimizer: raises}
      assert_left(model, [], "fit: optimizer: its init raised RuntimeError: oops")
      model = %{model() | optimizer: {fn _ -> %{} end, fn _g, _s, _p -> raise "oops" end}}
      assert_left(model, [], "fit: optimizer: its update raised RuntimeError: oops")
    end

    test "a stream of validation data" do
      stream = Stream.map(batches(), fn _ -> raise "oops" end)
      message = "fit: validation_data raised RuntimeError: oops"
      assert_left(model(), [validation_data: stream], message)
    end

    test "a schedule" do
      schedule = [lr_schedule: fn _ -> raise "oops" end]
      message = "fit: lr_schedule: raised for epoch 1: RuntimeError: oops"
      assert_left(model(), schedule, message)
    end

    @tag :tmp_dir
    test "with what a checkpoint had reached", %{tmp_dir: dir} do
      opts = [epochs: 2, batch_size: 4, shuffle: false, verbose: false]
      keep = [callbacks: [Training.checkpoint_callback(1, dir)]]
      {want, history} = Training.fit_with_progress(model(), {x(), y()}, keep ++ opts)
      model = %{model() | metrics: [mine: fn _y, _p -> raise "oops" end]}

      error =
        assert_raise Error, fn -> Training.fit(model, {x(), y()}, [resume: dir] ++ @quiet) end

      assert %{model: left, history: ^history} = error.details
      assert bits(left) == bits(want)
      assert left.optimizer_state == nil
    end
  end

  test "a batch of validation data that does not fit is named" do
    error = failure({x(), y()}, validation_data: [{x(), y()}, {y(), y()}])

    assert Exception.message(error) =~
             "fit: validation_data: batch 2: input \"x\" has shape {12, 1}"

    assert %Model{} = error.details.model
  end

  test "what is wrong with validation data is said of it" do
    for {data, text} <- [
          {{Nx.iota({3, 3}, type: :f32), Nx.iota({4, 1})}, "x has 3 rows and y has 4"},
          {{Nx.iota({3, 5}, type: :f32), Nx.iota({3, 1})}, "input \"x\" has shape {3, 5}"},
          {{Nx.iota({3, 3}, type: :f32), Nx.iota({3, 2})},
           "targets of :mse have the shape {3, 2}"}
        ] do
      error = failure({x(), y()}, validation_data: data)
      assert Exception.message(error) =~ "fit: validation_data: " <> text
    end
  end

  test "updates that are none are refused" do
    model = %{model() | optimizer: {fn _ -> %{} end, fn _g, _s, _p -> :oops end}}
    error = assert_raise Error, fn -> Training.fit(model, {x(), y()}, @quiet) end

    assert Exception.message(error) ==
             "fit: optimizer: update must answer {updates by parameter, state}, got :oops"
  end

  test "data and callbacks that exit leave the model" do
    slow =
      Task.async_stream(
        [1, 2],
        fn n -> if n == 2, do: Process.sleep(:infinity), else: hd(batches()) end,
        timeout: 200,
        max_concurrency: 1
      )

    error = failure(Stream.map(slow, fn {:ok, batch} -> batch end))
    assert Exception.message(error) =~ ~r/^fit: batch 2 of epoch 1: the data exited: .*time out/
    assert %{exit: {:timeout, _}, model: %Model{}, batch: 2, epoch: 1} = error.details

    {:ok, agent} = Agent.start(fn -> [] end)

    callback = fn
      {:epoch, %{epoch: 2}}, _state -> Agent.stop(agent) && Agent.get(agent, & &1)
      _event, state -> {:cont, state}
    end

    error = failure({x(), y()}, callbacks: [callback])
    {want, history} = trained({x(), y()}, 2)

    assert Exception.message(error) =~
             "fit: a callback after epoch 2 exited: exited in: GenServer"

    assert %{exit: {:noproc, _}, history: ^history, model: left} = error.details
    assert bits(left) == bits(want)

    for quiet <- [:normal, :shutdown, {:shutdown, :stop}] do
      run = fn ->
        Training.fit(model(), {x(), y()}, @quiet ++ [callbacks: [fn _, _ -> exit(quiet) end]])
      end

      assert catch_exit(run.()) == quiet
      refute_received _
    end
  end

  test "what exits before the first step leaves the model, and is named" do
    gone = fn -> exit({:noproc, :somewhere}) end

    {:ok, agent} = Agent.start(fn -> [] end)
    Agent.stop(agent)

    for {opts, named} <- [
          {[validation_data: Stream.map(batches(), fn _ -> gone.() end)],
           "validation_data exited: "},
          {[lr_schedule: fn _ -> gone.() end], "lr_schedule: for epoch 1 it exited: "},
          {[callbacks: [Training.history_callback(agent)]], "a callback at the start exited: "}
        ] do
      error = failure({x(), y()}, opts)
      assert Exception.message(error) =~ "fit: " <> named
      assert %{exit: {:noproc, _}, history: [], model: left} = error.details
      assert bits(left) == bits(model())
    end

    error = failure({x(), y()}, lr_schedule: &if(&1 == 1, do: 0.1, else: gone.()))
    assert Exception.message(error) =~ "fit: lr_schedule: for epoch 2 it exited: "
    assert %{exit: {:noproc, _}, history: [_], epoch: 1} = error.details

    model = %{model() | loss: fn _y, _p -> gone.() end}
    error = assert_raise Error, fn -> Training.fit(model, {x(), y()}, @quiet) end
    assert Exception.message(error) =~ "fit: the loss function exited: "
    error = assert_raise Error, fn -> Training.fit(model, batches(), @quiet) end
    assert Exception.message(error) =~ "fit: batch 1 of epoch 1: the loss function exited: "
    assert %{exit: {:noproc, _}, model: %Model{}, batch: 1} = error.details

    stream = Stream.map(batches(), fn _ -> exit(:shutdown) end)
    run = fn -> Training.fit(model(), {x(), y()}, [validation_data: stream] ++ @quiet) end
    assert catch_exit(run.()) == :shutdown
    refute_received _
  end

  defp calls do
    [
      fit: &Training.fit(&1, &2, @quiet),
      evaluate: &Training.evaluate/2,
      train_step: &Training.train_step/2,
      profile_step: &Training.profile_step/2,
      compute_gradients: &Training.compute_gradients/2
    ]
  end

  test "what exits in a function that was given is an error of ours whoever calls it" do
    gone = fn -> exit({:noproc, :somewhere}) end
    metric = {:mine, fn _y, _p -> gone.() end}

    for {op, call} <- calls(),
        {model, who} <- [
          {%{model() | loss: fn _y, _p -> gone.() end}, "the loss function"},
          {%{model() | metrics: [metric]}, "the metric :mine"}
        ] do
      error = assert_raise Error, fn -> call.(model, {x(), y()}) end
      assert Exception.message(error) =~ "#{op}: #{who} exited: "
      assert %{exit: {:noproc, _}} = error.details
    end

    for op <- [:fit, :train_step, :profile_step] do
      pair = {fn _parameters -> gone.() end, fn gradients, state, _ -> {gradients, state} end}
      error = assert_raise Error, fn -> calls()[op].(%{model() | optimizer: pair}, {x(), y()}) end
      assert Exception.message(error) =~ "#{op}: optimizer: its init exited: "
    end

    error =
      assert_raise Error, fn ->
        Training.evaluate(model(), Stream.map(batches(), fn _ -> gone.() end))
      end

    assert Exception.message(error) =~ "evaluate: the data exited: "

    hooked = "x" |> Axon.input(shape: {nil, 3}) |> Axon.dense(1)
    hooked = Axon.attach_hook(hooked, fn _ -> gone.() end, on: :forward, mode: :inference)

    error =
      assert_raise Error, fn ->
        hooked |> Model.compile(loss: :mse) |> Training.evaluate({x(), y()})
      end

    assert Exception.message(error) =~ "evaluate: the model exited: "
  end

  test "what is thrown there passes, and an exit that says that nothing is wrong" do
    for {_op, call} <- calls(),
        put <- [&%{model() | loss: &1}, &%{model() | metrics: [mine: &1]}] do
      assert catch_throw(call.(put.(fn _y, _p -> throw(:ball) end), {x(), y()})) == :ball
      assert catch_exit(call.(put.(fn _y, _p -> exit(:normal) end), {x(), y()})) == :normal
    end
  end

  test "a hook that raises in a single step is named without an epoch" do
    axon = "x" |> Axon.input(shape: {nil, 1}) |> Axon.dense(1)
    axon = Axon.attach_hook(axon, fn _ -> raise "oops" end, on: :forward, mode: :train)
    model = Model.compile(axon, loss: :mse)
    data = {Nx.tensor([[1.0]]), Nx.tensor([[1.0]])}
    error = assert_raise Error, fn -> Training.train_step(model, data) end
    assert Exception.message(error) == "train_step: a hook raised RuntimeError: oops"
  end

  test "data that raises as it is closed leaves the model" do
    stream =
      Stream.resource(fn -> nil end, fn _ -> {batches(), nil} end, fn _ -> raise "not closed" end)

    halt = fn
      {:batch, _info}, state -> {:halt, state}
      _event, state -> {:cont, state}
    end

    error = failure(stream, callbacks: [halt])

    assert Exception.message(error) =~
             ~r/^fit: batch \d+ of epoch 1: the data raised .*not closed/

    assert %{error: %RuntimeError{message: "not closed"}, model: left} = error.details
    refute bits(left) == bits(model())

    # What went wrong first is told.
    callback = fn _event, _state -> raise "oops" end
    error = failure(stream, callbacks: [callback])
    assert Exception.message(error) =~ "a callback in epoch 1 raised RuntimeError: oops"
    refute_received _
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

  describe "the layer" do
    defp deep(loss \\ :mse) do
      "x"
      |> Axon.input(shape: {nil, 3})
      |> Axon.dense(4, name: "first")
      |> Axon.dropout(rate: 0.1, name: "drop")
      |> Axon.nx(&Nx.exp/1, name: "power")
      |> Axon.batch_norm(name: "norm")
      |> Axon.dense(1, name: "last")
      |> Model.compile(loss: loss, seed: 3)
    end

    defp deep_failure(model, data, opts \\ []),
      do: assert_raise(Error, fn -> Training.fit(model, data, @quiet ++ opts) end)

    for gradients <- [:autodiff, :symbolic] do
      test "whose output is the first that is not finite is named, #{gradients}" do
        opts = [gradients: unquote(gradients)]
        huge = Nx.multiply(x(), 1.0e4)
        error = deep_failure(deep(), [{x(), y()}, {huge, y()}], opts)
        assert %{layer: "power", batch: 2, epoch: 1, what: "loss"} = error.details
        assert Exception.message(error) =~ "the first output that is not finite is that of power"
        assert %Model{} = error.details.model
      end

      test "is the input where that is not finite, #{gradients}" do
        {model, nan} = {deep(), Nx.multiply(x(), Nx.Constants.nan(:f32))}
        error = deep_failure(model, {nan, y()}, gradients: unquote(gradients))
        assert %{layer: "x", batch: 1} = error.details
      end

      test "nearest to the loss with a gradient that is not finite is named, #{gradients}" do
        # The root's slope at 0 has no bound; what is before it has such gradients too.
        model =
          "x"
          |> Axon.input(shape: {nil, 3})
          |> Axon.dense(4, name: "first")
          |> Axon.dense(1, name: "a second", kernel_initializer: :zeros)
          |> Axon.nx(&Nx.sqrt/1)
          |> Model.compile(loss: :mae)

        data = {Nx.abs(x()), Nx.abs(y())}
        error = deep_failure(model, data, gradients: unquote(gradients))
        assert %{layer: "a second", parameter: "a second." <> _, batch: 1} = error.details
        assert Exception.message(error) =~ "the gradient of a second."
      end
    end

    test "is none where the loss function is at fault" do
      loss = fn y, p -> Nx.mean(Nx.divide(Nx.add(p, 1), Nx.multiply(y, 0))) end
      error = deep_failure(deep(loss), {x(), y()})
      assert error.details.batch == 1
      refute is_map_key(error.details, :layer)
      assert Exception.message(error) =~ "; the outputs of all layers are finite"
    end

    test "is found among several in a graph, and hooks of the user are not called again" do
      test = self()
      log = fn x -> Axon.nx(x, &Nx.log/1, name: "log") end
      input = Axon.input("x", shape: {nil, 3})

      left =
        input
        |> Axon.dense(2, name: "left")
        |> Axon.attach_hook(&send(test, {:seen, &1}), mode: :train)

      right =
        input
        |> Axon.nx(&Nx.multiply(&1, 0), name: "nothing")
        |> log.()
        |> Axon.dense(2, name: "right")

      model = left |> Axon.add(right) |> Axon.dense(1) |> Model.compile(loss: :mse)
      error = deep_failure(model, {x(), y()})
      assert error.details.layer == "log"
      assert_received {:seen, _}
      refute_received {:seen, _}
    end
  end

  describe "too little memory" do
    # Each pair of rows is looked at: the square of the rows in numbers.
    defp pairs do
      "x"
      |> Axon.input(shape: {nil, 3})
      |> Axon.dense(2, name: "line")
      |> Axon.nx(fn x -> x |> Nx.dot([1], x, [1]) |> Nx.mean(axes: [1]) |> Nx.new_axis(1) end)
      |> Model.compile(loss: :mse, learning_rate: 0.02)
    end

    # So many that their square takes all but a hundredth of the memory, which the system itself needs more of.
    defp rows_beyond_memory,
      do: (ExBurn.memory_info().total * 0.99 / 4) |> :math.sqrt() |> floor()

    for gradients <- [:autodiff, :symbolic] do
      test "names the batch, leaves the model and the VM as they were, #{gradients}" do
        opts = [gradients: unquote(gradients)] ++ @quiet
        good = [{x(), y()}]

        huge =
          {Nx.broadcast(0.5, {rows_beyond_memory(), 3}),
           Nx.broadcast(0.5, {rows_beyond_memory(), 1})}

        error = assert_raise Error, fn -> Training.fit(pairs(), good ++ [huge], opts) end
        assert Exception.message(error) =~ ~r/may need \d+ MB of memory, \d+ MB are available/
        assert %{epoch: 1, batch: 2, history: [], model: left} = error.details
        want = Training.fit(pairs(), good, Keyword.put(opts, :epochs, 1))
        assert bits(left) == bits(want)
        # It goes on from there.
        assert [_ | _] = bits(Training.fit(left, good, opts))
      end
    end
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
