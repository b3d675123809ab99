defmodule ExBurn.Training.GradientCheckpointingTest do
  # The memory that the system counts is that of the whole VM.
  use ExBurn.Case, async: false

  import ExBurn.Oracle

  alias ExBurn.{GradientCases, Model, Training}

  @ways [true, {:every, 1}, {:every, 5}, {:every, 10_000}]

  defp input(shape), do: Axon.input("x", shape: put_elem(shape, 0, nil))

  defp cases do
    [
      mlp:
        {input({6, 4})
         |> Axon.dense(5, activation: :relu)
         |> Axon.layer_norm()
         |> Axon.dropout(rate: 0.3)
         |> Axon.dense(5, activation: :gelu), {6, 4}},
      cnn:
        {input({3, 6, 6, 2})
         # A bias before the norm has a gradient that is rounding alone.
         |> Axon.conv(3, kernel_size: 3, padding: :same, use_bias: false)
         |> Axon.batch_norm()
         |> Axon.relu()
         |> Axon.max_pool(kernel_size: 2), {3, 6, 6, 2}},
      lstm: {input({3, 4, 2}) |> Axon.lstm(3) |> elem(0), {3, 4, 2}},
      # Of 11 iterations those are kept that lie between segments of 4.
      recurrent:
        {input({2, 11, 2}) |> Axon.lstm(3) |> elem(0) |> Axon.gru(2) |> elem(0), {2, 11, 2}},
      attention: {attention(input({2, 4, 3})), {2, 4, 3}},
      residual:
        {input({4, 3})
         |> then(fn x ->
           Enum.reduce(1..6, x, &Axon.add(&2, Axon.dense(&2, 3, name: "l#{&1}")))
         end), {4, 3}}
    ]
  end

  defp attention(x) do
    [q, k, v] = for name <- ~w(q k v), do: Axon.dense(x, 3, name: name)
    dot = fn a, b, axes -> Nx.dot(a, axes, [0], b, [2], [0]) end
    scores = Axon.layer(fn q, k, _ -> dot.(q, k, [2]) end, [q, k])
    Axon.layer(fn s, v, _ -> Nx.dot(s, [2], [0], v, [1], [0]) end, [Axon.softmax(scores), v])
  end

  defp model(axon, opts \\ []) do
    axon
    |> Axon.flatten()
    |> Axon.dense(2, name: "out")
    |> Model.compile([loss: :mse, optimizer: :adam, learning_rate: 0.02, seed: 3] ++ opts)
  end

  for name <- [:mlp, :cnn, :lstm, :recurrent, :attention, :residual] do
    test "#{name}: gradients are those of the whole" do
      {axon, shape} = cases()[unquote(name)]
      {model, x} = {model(axon), GradientCases.random(shape, 1)}
      data = {x, GradientCases.random({elem(shape, 0), 2}, 2)}
      want = Training.compute_gradients(model, data)

      for way <- @ways do
        got = Training.compute_gradients(model, data, gradient_checkpointing: way)
        assert_relative(got, want, 1.0e-5, [unquote(name), inspect(way)])
      end
    end
  end

  test "a run, a step and a profile take it too" do
    {axon, shape} = cases()[:cnn]
    model = model(axon)
    data = {GradientCases.random(shape, 1), GradientCases.random({3, 2}, 2)}
    opts = [epochs: 4, batch_size: 2, verbose: false]
    {want, wanted_history} = Training.fit_with_progress(model, data, opts)

    {got, history} =
      Training.fit_with_progress(model, data, [gradient_checkpointing: true] ++ opts)

    assert_relative(parameters(got), parameters(want), 1.0e-4)
    for {a, b} <- Enum.zip(history, wanted_history), do: assert_in_delta(a.loss, b.loss, 1.0e-5)

    {loss, _model} = Training.train_step(model, data)
    assert {^loss, _} = Training.train_step(model, data, gradient_checkpointing: {:every, 3})
    times = Training.profile_step(model, data, gradient_checkpointing: true, repeat: 1)
    assert times.backward > 0.0
  end

  @tag skip: not File.exists?("/proc/self/clear_refs") && "the system does not count"
  test "a deep model needs a fraction of the memory" do
    x = Axon.input("x", shape: {nil, 64})
    deep = Enum.reduce(1..60, x, fn _, x -> x |> Axon.dense(64) |> Axon.tanh() end)
    model = model(deep)
    waves = &Nx.sin(Nx.iota(&1, type: :f32, backend: ExBurn.Backend))
    data = {waves.({32_768, 64}), waves.({32_768, 2})}
    :erlang.garbage_collect()
    before = status("VmRSS")
    # Both programs are made before anything is measured.
    for way <- [false, true], do: peak(model, data, way)
    [part, all] = for way <- [true, false], do: peak(model, data, way) - before

    # 60 layers with a tensor of 8 MB each: slopes are computed from these. Up to 64 MB were kept from other tests, and what
    # those left free may go back meanwhile.
    assert all > 300_000
    assert part < all / 2, "#{part} kB of #{all} kB"
  end

  # The most resident memory in kB.
  defp peak(model, data, way) do
    :erlang.garbage_collect()
    File.write!("/proc/self/clear_refs", "5")
    Training.compute_gradients(model, data, gradient_checkpointing: way)
    status("VmHWM")
  end

  defp status(name) do
    [_, number] = Regex.run(~r/^#{name}:\s*(\d+) kB$/m, File.read!("/proc/self/status"))
    String.to_integer(number)
  end
end
