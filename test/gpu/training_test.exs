defmodule ExBurn.GPU.TrainingTest do
  @moduledoc """
  Training on a GPU against training on the CPU, with `EX_BURN_TEST_DEVICE=gpu`.
  """

  use ExUnit.Case, async: false

  import ExBurn.TestDevice

  alias ExBurn.{Backend, Error}

  @moduletag skip: skip()

  @moduletag :tmp_dir

  # A GPU of software hands over to and fro between threads: beside other work on two cores loops take minutes.
  @moduletag timeout: 300_000

  setup do
    on_exit(fn -> ExBurn.Fallback.set!(:cpu) end)
  end

  defp random(shape, seed) do
    {t, _key} = Nx.Random.uniform(Nx.Random.key(seed), -1.0, 1.0, shape: shape)
    Nx.backend_transfer(t, Backend)
  end

  defp model(opts) do
    Axon.input("x", shape: {nil, 6})
    |> Axon.dense(12, activation: :tanh)
    |> Axon.batch_norm()
    |> Axon.dense(3, activation: :softmax)
    |> ExBurn.compile(
      Keyword.merge([loss: :cross_entropy, seed: 1, metrics: [:accuracy], device: :cpu], opts)
    )
  end

  defp data do
    x = random({40, 6}, 2)
    labels = x[[.., 0..2]] |> Nx.argmax(axis: 1) |> Nx.new_axis(1)
    {x, Nx.equal(labels, Nx.iota({1, 3})) |> Nx.as_type(:f32) |> Nx.backend_copy(Backend)}
  end

  # Within 1.0e-4 of the largest element of each parameter.
  defp assert_same(left, right) do
    left = left.parameters ++ left.states
    right = right.parameters ++ right.states

    for {{path, a}, {path, b}} <- Enum.zip(left, right) do
      [a, b] = for t <- [a, b], do: Nx.backend_copy(t, Nx.BinaryBackend)
      scale = a |> Nx.abs() |> Nx.reduce_max() |> Nx.to_number() |> max(1.0e-3)
      error = a |> Nx.subtract(b) |> Nx.abs() |> Nx.reduce_max() |> Nx.to_number()
      assert error <= 1.0e-4 * scale, "#{inspect(path)}: #{error} beside #{scale}"
    end
  end

  # 51 steps.
  @options [epochs: 17, batch_size: 16, seed: 4, verbose: false]

  for {name, compile, fit} <- [
        {"adam", [optimizer: :adam, learning_rate: 0.01], []},
        {"sgd with a schedule and clipping", [optimizer: :sgd, learning_rate: 0.1],
         [lr_schedule: {:step, 0.1, 5, 0.5}, clip_norm: 0.5]},
        {"symbolic gradients", [optimizer: :adamw, learning_rate: 0.01], [gradients: :symbolic]},
        {"accumulated gradients", [optimizer: :rmsprop, learning_rate: 0.003],
         [accumulate_gradients: 2, weight_decay: 0.01]},
        {"weights, a scale and rates by steps", [optimizer: :sgd],
         [
           accumulate_gradients: 2,
           class_weights: [0.2, 1, 3],
           clip_norm: 0.5,
           loss_scale: {:dynamic, interval: 5},
           lr_schedule: {:steps, {:warmup, 5, {:cosine, 0.1, 0.01}}}
         ]}
      ] do
    test "fit with #{name}" do
      model = model(unquote(Macro.escape(compile)))
      options = @options ++ unquote(Macro.escape(fit))

      {cpu, expected} = ExBurn.Training.fit_with_progress(model, data(), options)

      {gpu, history} =
        ExBurn.Training.fit_with_progress(model, data(), [device: gpu()] ++ options)

      assert gpu.device == ExBurn.Device.validate!(gpu())
      assert Enum.all?(gpu.parameters, fn {_path, t} -> t.data.device == gpu.device end)
      assert_same(cpu, gpu)

      for {a, b} <- Enum.zip(expected, history) do
        assert_in_delta a.loss, b.loss, 1.0e-3
        assert_in_delta a.accuracy, b.accuracy, 0.051
      end

      a = ExBurn.evaluate(cpu, data())
      b = ExBurn.evaluate(gpu, data())
      assert_in_delta a.loss, b.loss, 1.0e-3
    end
  end

  test "gradients and single steps" do
    cpu = model(optimizer: :adam)
    gpu = ExBurn.to_device(cpu, gpu())

    for options <- [[], [gradients: :symbolic]] do
      a = ExBurn.compute_gradients(cpu, data(), options)
      b = ExBurn.compute_gradients(gpu, data(), options)

      for {layer, gradients} <- a, {name, gradient} <- gradients do
        there = Nx.backend_copy(b[layer][name], Nx.BinaryBackend)
        here = Nx.backend_copy(gradient, Nx.BinaryBackend)
        assert Nx.to_number(Nx.all_close(here, there, atol: 1.0e-5, rtol: 1.0e-4)) == 1
      end
    end

    {cpu, gpu} =
      Enum.reduce(1..3, {cpu, gpu}, fn _step, {cpu, gpu} ->
        {a, cpu} = ExBurn.train_step(cpu, data())
        {b, gpu} = ExBurn.train_step(gpu, data())
        assert_in_delta a, b, 1.0e-4
        {cpu, gpu}
      end)

    assert_same(cpu, gpu)
  end

  test "each part of a step is told its time" do
    times = ExBurn.profile_step(model(optimizer: :adam, device: gpu()), data(), repeat: 5)
    # One program makes loss and gradients, which may take no longer than the forward pass alone.
    assert times.backward >= 0.0

    for part <- [:forward, :optimizer],
        do: assert(times[part] > 0, "#{part} takes #{times[part]}")
  end

  test "convolutions and pools" do
    model =
      Axon.input("x", shape: {nil, 6, 6, 1})
      |> Axon.conv(3, kernel_size: 3, activation: :relu)
      |> Axon.max_pool(kernel_size: 2)
      |> Axon.flatten()
      |> Axon.dense(2)
      |> ExBurn.compile(loss: :mse, optimizer: :adam, learning_rate: 0.01, seed: 1, device: :cpu)

    data = {random({40, 6, 6, 1}, 3), random({40, 2}, 4)}

    for gradients <- [:autodiff, :symbolic] do
      options = [gradients: gradients] ++ @options

      assert_same(
        ExBurn.fit(model, data, options),
        ExBurn.fit(model, data, [device: gpu()] ++ options)
      )
    end
  end

  # By both kinds of gradients as on the CPU, with nothing left to that.
  defp assert_without_cpu(model, data) do
    for gradients <- [:autodiff, :symbolic] do
      options = [gradients: gradients] ++ @options
      expected = ExBurn.fit(model, data, options)
      ExBurn.Fallback.set!(:raise)
      there = ExBurn.fit(model, data, [device: gpu()] ++ options)
      ExBurn.Fallback.set!(:cpu)
      assert_same(expected, there)
    end
  end

  test "depthwise convolutions need no CPU" do
    model =
      Axon.input("x", shape: {nil, 6, 6, 2})
      |> Axon.separable_conv2d(2, kernel_size: 3, activation: :relu)
      |> Axon.depthwise_conv(2, kernel_size: 2, strides: 2)
      |> Axon.flatten()
      |> Axon.dense(2)
      |> ExBurn.compile(loss: :mse, optimizer: :adam, learning_rate: 0.01, seed: 1, device: :cpu)

    data = {random({40, 6, 6, 2}, 3), random({40, 2}, 4)}

    assert_without_cpu(model, data)
  end

  test "embeddings need no CPU, of indices of 64 bits too" do
    for type <- [:s64, :s32] do
      model =
        Axon.input("x", shape: {nil, 5})
        |> Axon.embedding(10, 4)
        |> Axon.flatten()
        |> Axon.dense(2)
        |> ExBurn.compile(
          loss: :mse,
          optimizer: :adam,
          learning_rate: 0.01,
          seed: 1,
          device: :cpu
        )

      words = Nx.iota({40, 5}, type: type) |> Nx.multiply(7) |> Nx.remainder(10)
      data = {words, random({40, 2}, 4)}

      assert_without_cpu(model, data)
    end
  end

  test "the loop of a recurrent layer" do
    {states, _last} = Axon.input("x", shape: {nil, 4, 3}) |> Axon.lstm(5, unroll: :dynamic)

    model =
      Axon.flatten(states)
      |> Axon.dense(2)
      |> ExBurn.compile(loss: :mse, optimizer: :adam, learning_rate: 0.01, seed: 1, device: :cpu)

    data = {random({40, 4, 3}, 3), random({40, 2}, 4)}
    ExBurn.Fallback.set!(:raise)
    there = ExBurn.fit(model, data, [device: :gpu] ++ @options)
    ExBurn.Fallback.set!(:cpu)
    assert_same(ExBurn.fit(model, data, @options), there)
  end

  test "what only a tape can follow runs on the CPU, and is told or refused" do
    model =
      Axon.input("x", shape: {nil, 4, 3})
      |> Axon.dense(5)
      |> Axon.nx(&Nx.product(&1, axes: [1]))
      |> Axon.dense(2)
      |> ExBurn.compile(loss: :mse, optimizer: :adam, learning_rate: 0.01, seed: 1, device: :cpu)

    data = {random({40, 4, 3}, 3), random({40, 2}, 4)}
    me = self()
    tell = fn _event, %{count: count}, %{op: op}, _ -> send(me, {:fallback, op, count}) end
    :telemetry.attach(__MODULE__, [:ex_burn, :fallback], tell, nil)
    there = ExBurn.fit(model, data, [device: gpu()] ++ @options)
    :telemetry.detach(__MODULE__)
    assert_received {:fallback, "grad", 51}
    assert_same(ExBurn.fit(model, data, @options), there)

    ExBurn.Fallback.set!(:raise)

    assert_raise Error, ~r/^grad: has no kernel for f32 on .* may not run on the CPU/, fn ->
      ExBurn.compute_gradients(there, data)
    end
  end

  test "the optimizer's memory goes with a model from device to device" do
    for optimizer <- [:adam, Polaris.Optimizers.adam(learning_rate: 0.01)] do
      cpu = model(optimizer: optimizer, learning_rate: 0.01)
      step = fn model -> model |> ExBurn.train_step(data()) |> elem(1) end
      moved = cpu |> ExBurn.to_device(gpu()) |> step.() |> ExBurn.to_device(:cpu) |> step.()
      assert moved.device == :cpu
      assert_same(cpu |> step.() |> step.(), moved)
    end
  end

  test "what a GPU is not there for is refused before a step" do
    model = model(optimizer: :adam)

    assert_raise Error, ~r/^device: there is no device {:vulkan, 99}; devices are \[:cpu, /, fn ->
      ExBurn.fit(model, data(), [device: {:vulkan, 99}] ++ @options)
    end

    options = [device: gpu(), gradient_checkpointing: true] ++ @options

    assert_raise Error,
                 ~r/^fit: gradient_checkpointing is of models on the CPU, this one is on [a-z]+$/,
                 fn ->
                   ExBurn.fit(model, data(), options)
                 end
  end

  test "a checkpoint of a GPU goes on there", %{tmp_dir: dir} do
    model = model(optimizer: :adam, learning_rate: 0.01)
    whole = ExBurn.fit(model, data(), [device: gpu()] ++ @options)
    save = ExBurn.Training.checkpoint_callback(1, dir)

    stop = fn event, state ->
      if match?({:epoch, %{epoch: 9}}, event), do: {:halt, state}, else: {:cont, state}
    end

    options = [device: gpu()] ++ @options
    ExBurn.fit(model, data(), [callbacks: [save, stop]] ++ options)
    resumed = ExBurn.fit(model, data(), [resume: dir] ++ options)
    assert bits(whole) == bits(resumed)
    assert_same(whole, ExBurn.fit(model, data(), [resume: dir] ++ @options))
  end

  defp bits(model), do: for({_path, t} <- model.parameters ++ model.states, do: Nx.to_binary(t))

  test "what is not finite is skipped or told" do
    {x, y} = data()
    bad = Nx.put_slice(x, [7, 0], Nx.tensor([[:nan]], type: :f32)) |> Nx.backend_copy(Backend)
    model = model(optimizer: :adam, learning_rate: 0.01)
    cpu = ExBurn.fit(model, {bad, y}, [nan: :skip] ++ @options)
    gpu = ExBurn.fit(model, {bad, y}, [nan: :skip, device: gpu()] ++ @options)
    assert_same(cpu, gpu)

    assert_raise Error, ~r/loss is nan/i, fn ->
      ExBurn.fit(model, {bad, y}, [device: gpu()] ++ @options)
    end
  end

  test "a gradient that is not finite is that of a parameter" do
    model =
      Axon.input("x", shape: {nil, 6})
      |> Axon.dense(4, name: "first", use_bias: false)
      |> Axon.nx(fn t -> Nx.sqrt(Nx.multiply(t, t)) end)
      |> Axon.dense(3)
      |> ExBurn.compile(loss: :mse, optimizer: :sgd, learning_rate: 0.01, seed: 1, device: :cpu)

    {x, y} = data()
    zero = Nx.put_slice(x, [7, 0], Nx.broadcast(Nx.tensor(0.0, type: :f32), {1, 6}))
    options = [nan: :skip] ++ @options
    cpu = ExBurn.fit(model, {zero, y}, options)
    assert_same(cpu, ExBurn.fit(model, {zero, y}, [device: gpu()] ++ options))

    assert_raise Error, ~r/^fit: the gradient of first.kernel is NaN/, fn ->
      ExBurn.fit(model, {zero, y}, [device: gpu()] ++ @options)
    end
  end
end
