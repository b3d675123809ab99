defmodule ExBurn.Training.LossScaleTest do
  use ExBurn.Case, async: true

  alias ExBurn.{GradientCases, Model, Training}
  alias ExBurn.Training.Checkpoint

  doctest ExBurn.Training.LossScale

  @moduletag :tmp_dir

  defp bits(model),
    do: for({path, t} <- model.parameters ++ model.states, do: {path, Nx.to_binary(t)})

  defp network(opts \\ []) do
    axon =
      "x" |> Axon.input(shape: {nil, 3}) |> Axon.dense(4, activation: :relu) |> Axon.dense(2)

    defaults = [loss: :cross_entropy, optimizer: :adam, metrics: [:accuracy]]
    Model.compile(axon, Keyword.merge(defaults, opts))
  end

  defp data, do: {GradientCases.random({10, 3}, 1), Nx.tensor([0, 1, 1, 0, 1, 0, 0, 1, 1, 1])}

  # A power of two changes no digit of a number in single precision, of its gradients neither.
  test "in single precision a scale changes nothing" do
    opts = [verbose: false, epochs: 3, batch_size: 4, clip_norm: 0.1, validation_data: data()]

    for more <- [
          [],
          [accumulate_gradients: 2],
          [gradients: :symbolic],
          [gradient_checkpointing: true]
        ] do
      {want, history} = Training.fit_with_progress(network(), data(), opts ++ more)

      for scale <- [1024, :dynamic, {:dynamic, interval: 1, initial: 2.0}] do
        {got, all} =
          Training.fit_with_progress(network(), data(), [loss_scale: scale] ++ opts ++ more)

        assert {more, scale, all} == {more, scale, history}
        assert bits(got) == bits(want)
      end
    end
  end

  test "with a Polaris optimizer too" do
    model = network(optimizer: Polaris.Optimizers.adam(learning_rate: 0.01))
    opts = [verbose: false, epochs: 2]
    want = Training.fit(model, data(), opts)
    assert bits(Training.fit(model, data(), [loss_scale: 4096] ++ opts)) == bits(want)
  end

  # One layer that computes in f16, with a loss whose slope is known: the gradient of the bias is `slope`, that of the kernel
  # `slope` times the mean of x.
  defp half(slope, opts \\ []) do
    policy =
      Axon.MixedPrecision.create_policy(params: {:f, 32}, compute: {:f, 16}, output: {:f, 16})

    "x"
    |> Axon.input(shape: {nil, 1})
    |> Axon.dense(1, kernel_initializer: :zeros)
    |> Axon.MixedPrecision.apply_policy(policy)
    |> Model.compile(
      Keyword.merge([loss: sloping(slope), optimizer: :sgd, learning_rate: 1.0], opts)
    )
  end

  defp sloping(slope), do: fn _y, p -> Nx.multiply(Nx.mean(Nx.as_type(p, :f32)), slope) end

  defp ones, do: {Nx.broadcast(1.0, {4, 1}), Nx.broadcast(0.0, {4, 1})}

  defp kernel(model),
    do:
      model.parameters
      |> Map.new()
      |> Map.fetch!(["dense_0", "kernel"])
      |> Nx.to_flat_list()
      |> hd()

  test "gradients that are 0 in half precision are there with a scale" do
    slope = 1.0e-8
    opts = [verbose: false, epochs: 1, batch_size: 4]
    assert kernel(Training.fit(half(slope), ones(), opts)) == 0.0
    got = kernel(Training.fit(half(slope), ones(), [loss_scale: 65_536] ++ opts))
    assert_in_delta got / -slope, 1.0, 0.01
  end

  defp scales(agent) do
    fn
      {:epoch, info}, state ->
        Agent.update(agent, &(&1 ++ [{info.loss_scale, kernel(info.model.()), info.skipped}]))
        {:cont, state}

      _event, state ->
        {:cont, state}
    end
  end

  defp seen(model, opts) do
    {:ok, agent} = Agent.start_link(fn -> [] end)

    opts =
      [verbose: false, batch_size: 4, callbacks: [scales(agent)] ++ (opts[:callbacks] || [])] ++
        Keyword.delete(opts, :callbacks)

    {model, _history} = Training.fit_with_progress(model, ones(), opts)
    {model, Agent.get(agent, & &1)}
  end

  # With a slope of 1 the gradient of four rows is the scale, and f16 ends at 65504. Steps are taken at 2^15, the second one
  # doubles it, the next step fails, and so on.
  test "a dynamic scale is halved by what is too large, whose step is not taken, and grows again" do
    scale = {:dynamic, initial: 262_144, interval: 2}
    {_model, seen} = seen(half(1.0), epochs: 9, loss_scale: scale)

    assert Enum.map(seen, &elem(&1, 0)) ==
             Enum.map([17, 16, 15, 15, 16, 15, 15, 16, 15], &(2.0 ** &1))

    assert Enum.map(seen, &elem(&1, 1)) == [0.0, 0.0, 0.0, -1.0, -2.0, -2.0, -3.0, -4.0, -4.0]
    assert Enum.all?(seen, &(elem(&1, 2) == 0))
  end

  test "a fixed scale leaves what is too large to nan:" do
    assert_raise Error, ~r/the gradient of dense_0/, fn ->
      Training.fit(half(1.0), ones(), epochs: 1, loss_scale: 262_144, verbose: false)
    end
  end

  # The slope of the square root at 0 is infinite, and infinity times 0 no number, whatever the scale.
  test "a gradient that is not finite at a scale of 1 is a failure, and so is a loss" do
    loss = fn _y, p -> Nx.mean(Nx.sqrt(Nx.multiply(p, 0.0))) end
    model = half(1.0, loss: loss)
    opts = [epochs: 5, loss_scale: {:dynamic, initial: 4}, verbose: false]
    error = assert_raise Error, fn -> Training.fit(model, ones(), opts) end
    assert %{epoch: 3, batch: 1, layer: "dense_0"} = error.details

    bad = {Nx.broadcast(Nx.Constants.nan(:f32), {4, 1}), elem(ones(), 1)}

    error =
      assert_raise Error, fn ->
        Training.fit(half(1.0), bad, loss_scale: :dynamic, verbose: false)
      end

    assert %{epoch: 1, batch: 1, what: "loss"} = error.details
  end

  test "a resumed run goes on with its scale", %{tmp_dir: dir} do
    opts = [epochs: 9, loss_scale: {:dynamic, initial: 262_144, interval: 2}]
    {whole, seen} = seen(half(1.0), [callbacks: [Training.checkpoint_callback(1, dir)]] ++ opts)

    for epoch <- 1..8 do
      {resumed, rest} = seen(half(1.0), [resume: Checkpoint.path(dir, epoch)] ++ opts)
      assert {epoch, rest} == {epoch, Enum.drop(seen, epoch)}
      assert bits(resumed) == bits(whole)
    end

    assert_raise Error, ~r/was written with loss_scale: /, fn ->
      Training.fit(half(1.0), ones(),
        resume: dir,
        epochs: 10,
        batch_size: 4,
        loss_scale: 4,
        verbose: false
      )
    end
  end

  test "what callbacks are given predicts and is evaluated" do
    test = self()

    look = fn
      {:epoch, info}, state ->
        send(test, {Training.evaluate(info.model.(), data()).loss, info.val_loss})
        {:cont, state}

      _event, state ->
        {:cont, state}
    end

    opts = [epochs: 1, loss_scale: 8, callbacks: [look], validation_data: data(), verbose: false]
    Training.fit(network(), data(), opts)
    assert_received {loss, loss}
  end

  test "what it can be is checked" do
    wrong = [0, -1, 2.0 ** 25, :static, {:dynamic, start: 1}, {:dynamic, interval: 0}]

    for bad <- wrong ++ [2.0 ** -127, {:dynamic, initial: 1.0e-300}] do
      assert_raise Error, ~r/^fit: loss_scale: is .*expected a number above 0/, fn ->
        Training.fit(network(), data(), loss_scale: bad)
      end
    end
  end

  test "the least and the largest scale leave a loss what it is" do
    opts = [verbose: false, epochs: 1]
    {_model, [want]} = Training.fit_with_progress(network(), data(), opts)

    for scale <- [2.0 ** -126, 2 ** 24] do
      {_model, [got]} = Training.fit_with_progress(network(), data(), [loss_scale: scale] ++ opts)
      assert_in_delta got.loss, want.loss, 1.0e-6
    end
  end
end
