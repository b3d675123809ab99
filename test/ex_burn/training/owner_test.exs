defmodule ExBurn.Training.OwnerTest do
  # Looks at the memory of the whole VM.
  use ExUnit.Case, async: false

  alias ExBurn.{Memory, Model, Training}

  @rows 200_000
  @columns 100
  @data_bytes 4 * @rows * @columns

  # What other tests left behind goes before memory is compared.
  setup do
    Enum.each(Process.list(), &:erlang.garbage_collect/1)
  end

  # The data is made natively, so only this process and its run hold it.
  defp train(callback) do
    Nx.default_backend(ExBurn.Backend)
    axon = "x" |> Axon.input(shape: {nil, @columns}) |> Axon.dense(1)
    model = Model.compile(axon, loss: :mse, optimizer: :sgd, learning_rate: 0.0)
    data = {Nx.iota({@rows, @columns}, type: :f32), Nx.iota({@rows, 1}, type: :f32)}
    opts = [epochs: 1_000_000, batch_size: 4, verbose: false, callbacks: [callback]]
    Training.fit(model, data, opts)
  end

  defp on_first_batch(fun) do
    fn
      {:batch, _info}, nil -> {:cont, fun.()}
      _event, state -> {:cont, state}
    end
  end

  defp assert_given_back(before) do
    eventually(fn -> Memory.resident() - before < @data_bytes / 2 end)
  end

  defp eventually(check, tries \\ 1000) do
    cond do
      check.() ->
        :ok

      tries == 0 ->
        flunk("the run still holds its memory")

      true ->
        Process.sleep(10)
        eventually(check, tries - 1)
    end
  end

  # The thread holds the data for as long as it runs.
  test "when the process that called fit is killed in an epoch, the thread ends" do
    test = self()
    before = Memory.resident()
    started = on_first_batch(fn -> send(test, :started) end)
    {pid, monitor} = spawn_monitor(fn -> train(started) end)
    assert_receive :started, 60_000
    assert Memory.resident() - before > @data_bytes / 2

    Process.exit(pid, :kill)
    assert_receive {:DOWN, ^monitor, :process, ^pid, :killed}, 60_000
    assert_given_back(before)
  end

  test "when a callback raises, the thread ends though the process lives on" do
    test = self()
    before = Memory.resident()
    raising = on_first_batch(fn -> raise "no" end)

    pid =
      spawn_link(fn ->
        assert_raise ExBurn.Error, ~r/raised RuntimeError: no/, fn -> train(raising) end
        :erlang.garbage_collect()
        send(test, {:raised, Process.info(self(), :message_queue_len)})
        receive do: (:stop -> :ok)
      end)

    assert_receive {:raised, {:message_queue_len, 0}}, 60_000
    assert_given_back(before)
    send(pid, :stop)
  end
end
