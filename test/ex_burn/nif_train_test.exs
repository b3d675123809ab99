defmodule ExBurn.NIFTrainTest do
  # The conversation between a run and its owner; the numbers are the engine's tests'.
  use ExUnit.Case, async: true

  alias ExBurn.NIF

  defp tensor(list, type \\ :f32) do
    NIF.tensor_from_binary(shape(list, type), Nx.to_binary(Nx.tensor(list, type: type))) |> ok!()
  end

  defp shape(list, type), do: {type, Nx.tensor(list) |> Nx.shape() |> Tuple.to_list()}

  defp numbers(ref), do: Nx.from_binary(ok!(NIF.tensor_to_binary(ref, 100)), :f32) |> Nx.to_list()

  defp ok!({:ok, result}), do: result

  # loss = sum((w * x - y)^2), metric = sum(w * x - y), and a state that counts steps
  defp program(rows, kind \\ :step) do
    scalar = %{dtype: :f32, shape: []}
    row = %{dtype: :f32, shape: [rows]}
    one = %{dtype: :f32, shape: [1]}
    sum = {:reduce, %{fold: :sum, axes: nil, keep_axes: false}}

    program = %{
      inputs: [scalar, one, row, row],
      instructions: [
        %{op: {:binary, :multiply}, inputs: [0, 2], outputs: [row]},
        %{op: {:binary, :subtract}, inputs: [4, 3], outputs: [row]},
        %{op: {:binary, :multiply}, inputs: [5, 5], outputs: [row]},
        %{op: sum, inputs: [6], outputs: [scalar]},
        %{op: sum, inputs: [5], outputs: [scalar]},
        %{op: {:constant, %{bytes: [0, 0, 128, 63]}}, inputs: [], outputs: [scalar]},
        %{op: {:binary, :add}, inputs: [1, 9], outputs: [one]}
      ],
      outputs: if(kind == :step, do: [7, 8, 10], else: [7, 8])
    }

    ok!(NIF.program_new(program, [], []))
  end

  defp config(changes \\ %{}) do
    Map.merge(
      %{
        epochs: 2,
        first_epoch: 1,
        pause_every: nil,
        batch_size: 2,
        shuffle: false,
        seed: 42,
        learning_rate: 0.125,
        optimizer: {:sgd, %{momentum: nil, nesterov: false}},
        gradients: :autodiff,
        checkpointing: :off,
        clip_value: nil,
        clip_norm: nil,
        weight_decay: 0.0,
        weighted: false,
        accumulate: 1,
        skip_non_finite: false,
        progress: false
      },
      changes
    )
  end

  defp job(changes \\ %{}) do
    Map.merge(
      %{
        steps: [program(2)],
        params: [tensor(0.0)],
        states: [tensor([0.0])],
        data: [tensor([1.0, 0.0]), tensor([2.0, 0.0])],
        validation: [],
        update: nil,
        optimizer_state: nil,
        means: nil,
        rates: [],
        loss_scale: nil
      },
      changes
    )
  end

  defp start(config, job), do: ok!(NIF.train_start(:tag, config, job))

  test "answers outputs and gradients of one pass" do
    inputs = [tensor(3.0), tensor([0.0]), tensor([1.0, 2.0]), tensor([0.0, 0.0])]
    {outputs, [gradient]} = ok!(NIF.train_gradients_dirty(program(2), 1, inputs, :off))
    assert Enum.map(outputs, &numbers/1) == [[45.0], [9.0], [1.0]]
    assert numbers(gradient) == [30.0]

    assert {:error, {:invalid, %{op: "compute_gradients"}}} =
             NIF.train_gradients_dirty(program(2), 9, inputs, :off)
  end

  test "tells each epoch and waits for the answers" do
    validation = [tensor([1.0]), tensor([4.0])]

    handle =
      start(config(), job(%{validation: [{[program(1, :evaluation)], validation}]}))

    # w goes from 0 by 0.125 * 2 * (2 - w) each step
    assert_receive {:ex_burn_train, :tag, {:epoch, epoch}}, 5000

    assert %{epoch: 1, loss: 4.0, metrics: [-2.0], steps: 1, samples: 2, learning_rate: 0.125} =
             epoch

    assert %{val_loss: 12.25, val_metrics: [-3.5]} = epoch
    assert is_float(epoch.seconds)
    assert {[w], [count]} = ok!(NIF.train_parameters(handle))
    assert {numbers(w), numbers(count)} == {[0.5], [1.0]}

    assert {:ok, true} = NIF.train_continue(handle, {:learning_rate, 0.25})

    assert_receive {:ex_burn_train, :tag, {:epoch, %{epoch: 2, loss: 2.25, learning_rate: 0.25}}},
                   5000

    assert {:ok, true} = NIF.train_continue(handle, :continue)
    assert_receive {:ex_burn_train, :tag, {:done, :finished}}, 5000
    assert {:ok, false} = NIF.train_continue(handle, :continue)
    assert {[w], [count]} = ok!(NIF.train_parameters(handle))
    assert {numbers(w), numbers(count)} == {[1.25], [2.0]}
  end

  test "halts and stops" do
    handle = start(config(), job())
    assert_receive {:ex_burn_train, :tag, {:epoch, %{val_loss: nil, val_metrics: nil}}}, 5000
    assert {:ok, true} = NIF.train_continue(handle, :halt)
    assert_receive {:ex_burn_train, :tag, {:done, :halted}}, 5000

    handle = start(config(), job())
    assert {:ok, true} = NIF.train_stop(handle)
    assert_receive {:ex_burn_train, :tag, {:done, :stopped}}, 5000
    assert {:ok, false} = NIF.train_stop(handle)
  end

  test "asks for batches when there is no data" do
    handle = start(config(%{epochs: 1}), job(%{steps: [], data: nil}))
    batch = [tensor([1.0, 0.0]), tensor([2.0, 0.0])]
    short = [tensor([1.0]), tensor([2.0])]
    assert_receive {:ex_burn_train, :tag, {:want_batches, 2}}, 5000
    assert {:ok, true} = NIF.train_feed(handle, program(2), batch)
    assert {:ok, true} = NIF.train_feed(handle, program(1), short)
    assert_receive {:ex_burn_train, :tag, {:want_batches, 1}}, 5000
    assert {:error, {:mismatch, %{op: "fit"}}} = NIF.train_feed(handle, program(2), short)
    assert {:ok, true} = NIF.train_feed_end(handle)
    assert_receive {:ex_burn_train, :tag, {:epoch, %{steps: 2, samples: 3, loss: loss}}}, 5000
    assert_in_delta loss, (2 * 4.0 + 2.25) / 3, 1.0e-12
    assert {:error, {:invalid, %{op: "fit"}}} = NIF.train_feed(handle, program(2), batch)
  end

  test "a call of a program waits for its results" do
    scalar = %{dtype: :f32, shape: []}
    row = %{dtype: :f32, shape: [2]}
    sum = {:reduce, %{fold: :sum, axes: nil, keep_axes: false}}

    instructions = [
      %{op: {:hook, %{id: 7}}, inputs: [1], outputs: []},
      %{op: {:runtime_call, %{id: 8}}, inputs: [1], outputs: [row]},
      %{op: {:binary, :multiply}, inputs: [0, 2], outputs: [row]},
      %{op: sum, inputs: [3], outputs: [scalar]}
    ]

    program = %{inputs: [scalar, row], instructions: instructions, outputs: [4]}
    program = ok!(NIF.program_new(program, [], []))
    job = job(%{steps: [program], states: [], data: [tensor([1.0, 2.0])]})
    handle = start(config(%{epochs: 1}), job)
    assert_receive {:ex_burn_train, :tag, {:call, 7}}, 5000
    assert {:error, {:invalid, %{op: "fit"}}} = NIF.train_resume(handle, [])
    assert [1.0, 2.0] = handle |> NIF.train_arguments() |> ok!() |> hd() |> numbers()
    assert {:error, {:invalid, %{op: "fit"}}} = NIF.train_arguments(handle)
    assert {:ok, true} = NIF.train_resume(handle, [])
    assert_receive {:ex_burn_train, :tag, {:call, 8}}, 5000
    assert [_] = ok!(NIF.train_arguments(handle))
    assert {:ok, nil} = NIF.train_failure(handle)
    assert {:ok, true} = NIF.train_resume(handle, [tensor([10.0, 20.0])])
    assert_receive {:ex_burn_train, :tag, {:epoch, %{loss: loss}}}, 5000
    # The parameter is 0 at first, and goes against its gradient of 30.
    assert loss == 0.0
    assert {[w], []} = ok!(NIF.train_parameters(handle))
    assert numbers(w) == [-3.75]

    handle = start(config(), job)
    assert_receive {:ex_burn_train, :tag, {:call, 7}}, 5000
    assert {:ok, true} = NIF.train_stop(handle)
    assert_receive {:ex_burn_train, :tag, {:done, :stopped}}, 5000
    assert {:ok, false} = NIF.train_resume(handle, [])
  end

  test "a step that fails is told with what it was given" do
    nan = for _ <- 1..2, do: Nx.Constants.nan(:f32)

    data = [
      ok!(NIF.tensor_from_binary({:f32, [2]}, Nx.to_binary(Nx.stack(nan)))),
      tensor([2.0, 0.0])
    ]

    handle = start(config(), job(%{data: data}))
    assert_receive {:ex_burn_train, :tag, {:failed, {:non_finite, %{what: "loss"}}}}, 5000
    assert {1, 1, [w, count, x, y]} = ok!(NIF.train_failure(handle))
    assert {numbers(w), numbers(count), numbers(y)} == {[0.0], [0.0], [2.0, 0.0]}
    assert numbers(x) == [:nan, :nan]
  end

  test "tells progress when asked to" do
    handle = start(config(%{progress: true}), job())

    assert_receive {:ex_burn_train, :tag, {:progress, %{epoch: 1, step: 1, steps: 1} = progress}},
                   5000

    assert %{loss: 4.0, metrics: [-2.0], samples_per_second: speed} = progress
    assert speed > 0
    NIF.train_stop(handle)
  end

  test "gives the optimizer's memory and takes it back" do
    adam = {:adam, %{b1: 0.5, b2: 0.75, eps: 1.0e-8, eps_root: 0.0}}
    handle = start(config(%{optimizer: adam}), job())
    assert_receive {:ex_burn_train, :tag, {:epoch, %{epoch: 1}}}, 5000
    assert {1, [[mu], [nu]]} = state = ok!(NIF.train_optimizer_state(handle))
    # the gradient is -4
    assert {numbers(mu), numbers(nu)} == {[-2.0], [4.0]}
    {params, states} = ok!(NIF.train_parameters(handle))
    job = job(%{params: params, states: states, optimizer_state: state})
    resumed = start(config(%{optimizer: adam, first_epoch: 2}), job)
    assert_receive {:ex_burn_train, :tag, {:epoch, %{epoch: 2}}}, 5000
    assert {2, _slots} = ok!(NIF.train_optimizer_state(resumed))
  end

  test "a loss that is no number ends the run and leaves the last good parameters" do
    data = [tensor([1.0, 0.0, 1.0, 1.0]), tensor([2.0, 0.0, :nan, 1.0])]
    handle = start(config(), job(%{data: data}))
    assert_receive {:ex_burn_train, :tag, {:failed, {:non_finite, details}}}, 5000
    assert %{what: "loss", value: "NaN", epoch: 1, step: 2} = details
    assert details.message == "the loss is NaN at epoch 1, step 2"
    assert {[w], [count]} = ok!(NIF.train_parameters(handle))
    assert {numbers(w), numbers(count)} == {[0.5], [1.0]}
  end

  test "validation may be no number" do
    validation = [tensor([1.0]), tensor([:infinity])]
    start(config(), job(%{validation: [{[program(1, :evaluation)], validation}]}))

    assert_receive {:ex_burn_train, :tag,
                    {:epoch, %{val_loss: :infinity, val_metrics: [:neg_infinity]}}},
                   5000
  end

  test "refuses what makes no sense" do
    for {config, job, text} <- [
          {config(%{batch_size: 0}), job(), "the batch size is 0; it must be at least 1"},
          {config(%{optimizer: {:sgd, %{momentum: 2.0, nesterov: false}}}), job(),
           "momentum is 2"},
          {config(%{optimizer: {:no_such_rule, %{}}}), job(), "no_such_rule"},
          {config(%{no_such_key: 1}), job(), "no_such_key"},
          {Map.delete(config(), :seed), job(), "seed"},
          {config(), job(%{steps: []}), "no program for batches of 2"},
          {config(), job(%{params: [tensor(1, :s32)]}), "only float parameters"},
          {config(), job(%{data: []}), "the data has no tensor"}
        ] do
      assert {:error, {:invalid, %{message: message}}} = NIF.train_start(:tag, config, job)
      assert message =~ text
    end

    handle = start(config(), job())

    assert {:error, {:invalid, %{message: message}}} =
             NIF.train_continue(handle, :no_such_answer)

    assert message =~ "no_such_answer"
    assert_raise ArgumentError, fn -> NIF.train_stop(make_ref()) end
  end

  test "a run whose owner was killed is over" do
    test = self()

    owner =
      spawn(fn ->
        send(test, {:handle, start(config(%{epochs: 1000}), job())})
        Process.sleep(:infinity)
      end)

    assert_receive {:handle, handle}, 5000
    Process.exit(owner, :kill)
    assert eventually(fn -> NIF.train_continue(handle, :continue) == {:ok, false} end)
  end

  test "a run whose handle is garbage stops" do
    start(config(), job())
    assert_receive {:ex_burn_train, :tag, {:epoch, _epoch}}, 5000
    :erlang.garbage_collect()
    assert_receive {:ex_burn_train, :tag, {:done, :stopped}}, 5000
  end

  defp eventually(condition, attempts \\ 1000) do
    condition.() or (attempts > 0 and (Process.sleep(5) && eventually(condition, attempts - 1)))
  end
end
