defmodule ExBurn.WindowScatterTest do
  # Sums at the extrema of windows, and the gradients of pools that Nx makes of them.
  use ExBurn.Case, async: true

  @cases [
    {{6}, {2}, strides: [2], padding: :valid},
    {{5}, {3}, strides: [1], padding: :same},
    {{4, 6}, {2, 3}, strides: [2, 3], padding: :valid},
    {{3, 4}, {2, 2}, strides: [1, 2], padding: [{1, 0}, {0, 2}]},
    {{5}, {2}, strides: [1], padding: [{-1, 1}]}
  ]

  test "as Nx.BinaryBackend" do
    for {shape, window, opts} <- @cases,
        type <- ~w(u8 s16 s32 f16 f32 f64)a,
        init <- [0, 2],
        fun <- [&Nx.window_scatter_max/5, &Nx.window_scatter_min/5] do
      t = values(shape, 5, type)
      source = t |> Nx.window_max(window, opts) |> Nx.shape() |> values(3, type)
      assert_same(&fun.(&1, &2, init, window, opts), [t, source])
    end
  end

  test "types are merged as Nx merges them" do
    t = Nx.tensor([3, 1, 2, 2])
    source = Nx.tensor([1, 2], type: :u8)
    assert_same(&Nx.window_scatter_max(&1, &2, 0.5, {2}, strides: 2), [t, source])
    packed = &Nx.window_scatter_max(Nx.as_type(&1, :u4), &2, 0, {2}, strides: 2)
    assert_same(packed, [t, source])
  end

  test "vectorized" do
    fun = fn t, source ->
      [t, source] = Enum.map([t, source], &Nx.vectorize(&1, :x))
      t |> Nx.window_scatter_max(source, 0, {2}, strides: 2) |> Nx.devectorize()
    end

    assert_same(fun, [values({3, 4}, 5, :f32), values({3, 2}, 4, :f32)])
  end

  test "gradients of pools" do
    t = values({2, 6, 6, 3}, 50, :f32)
    weights = values({2, 3, 3, 3}, 9, :f32)

    for pool <- [&Nx.window_max/3, &Nx.window_min/3, &Nx.window_sum/3, &Nx.window_mean/3] do
      loss = fn t, weights ->
        pooled = pool.(t, {1, 2, 2, 1}, strides: [1, 2, 2, 1])
        Nx.sum(Nx.multiply(pooled, weights))
      end

      assert_same(fn t, weights -> Nx.Defn.grad(t, &loss.(&1, weights)) end, [t, weights])
    end
  end

  test "gradients of sums at extrema" do
    t = values({4, 6}, 50, :f32)
    source = values({2, 2}, 9, :f32)

    loss = fn t, source, init ->
      Nx.sum(Nx.sin(Nx.window_scatter_max(t, source, init, {2, 3}, strides: [2, 3])))
    end

    gradient = fn t, source, init ->
      Nx.Defn.grad({t, source, init}, fn {t, s, i} -> loss.(t, s, i) end)
    end

    assert_same(gradient, [t, source, Nx.tensor(0.5)])
  end

  test "Axon.Loop trains a network with a max pool, as on Nx.BinaryBackend" do
    model =
      Axon.input("x", shape: {nil, 6, 6, 1})
      |> Axon.conv(3, kernel_size: 3)
      |> Axon.max_pool(kernel_size: 2)
      |> Axon.flatten()
      |> Axon.dense(2)

    batch = {values({4, 6, 6, 1}, 11, :f32) |> Nx.divide(11), values({4, 2}, 3, :f32)}

    train = fn backend, opts ->
      Nx.with_default_backend(backend, fn ->
        model
        |> Axon.Loop.trainer(:mean_squared_error, Polaris.Optimizers.sgd(learning_rate: 0.05),
          log: 0,
          seed: 1
        )
        |> Axon.Loop.run([batch, batch], Axon.ModelState.empty(), [epochs: 2] ++ opts)
      end)
    end

    ours = train.(ExBurn.Backend, compiler: ExBurn.Defn.Compiler)
    reference = train.(Nx.BinaryBackend, compiler: Nx.Defn.Evaluator)
    assert_close(ours.data, reference.data, 1.0e-4)
  end

  # Numbers around 0 with many ties.
  defp values(shape, range, type) do
    numbers = Nx.iota(shape, type: :s64) |> Nx.multiply(7919) |> Nx.add(3) |> Nx.remainder(range)
    offset = if match?({:u, _}, Nx.Type.normalize!(type)), do: 0, else: div(range, 2)
    numbers |> Nx.subtract(offset) |> Nx.as_type(type)
  end
end
