defmodule ExBurn.FusionTest do
  use ExUnit.Case, async: false

  alias ExBurn.Defn.{Compiler, Passes}
  alias ExBurn.Fusion

  doctest Fusion

  defp random(seed, shape) do
    {tensor, _key} = seed |> Nx.Random.key() |> Nx.Random.normal(shape: shape)
    Nx.backend_copy(tensor, Nx.BinaryBackend)
  end

  defp names(fun, args, opts \\ []),
    do: for(found <- Fusion.found(fun, args, opts), do: found.pattern)

  # With all patterns, and without each of those that are found.
  defp assert_same(fun, args) do
    want =
      fun
      |> Nx.Defn.jit_apply(args, compiler: Nx.Defn.Evaluator)
      |> Nx.backend_copy(Nx.BinaryBackend)

    for opts <- [[] | Enum.map(names(fun, args), &[fusion: [{&1, false}]])] do
      got = Nx.Defn.jit_apply(fun, args, [compiler: Compiler] ++ opts)
      got = Nx.backend_copy(got, Nx.BinaryBackend)

      assert Nx.to_number(Nx.all_close(got, want, atol: 1.0e-4, rtol: 1.0e-4)) == 1,
             inspect({opts, got, want})
    end
  end

  defp softmax(x) do
    exp = Nx.exp(Nx.subtract(x, Nx.reduce_max(x, axes: [-1], keep_axes: true)))
    Nx.divide(exp, Nx.sum(exp, axes: [-1], keep_axes: true))
  end

  defp cross_entropy(x, targets) do
    Nx.negate(Nx.sum(Nx.multiply(targets, Nx.log(softmax(x)))))
  end

  # {batch, heads, steps, size}, each step sees itself and those before.
  defp causal_attention(q, k, v) do
    scores = Nx.divide(Nx.dot(q, [3], [0, 1], k, [3], [0, 1]), 2.0)
    seen = Nx.less_equal(Nx.iota(Nx.shape(scores), axis: 3), Nx.iota(Nx.shape(scores), axis: 2))
    weights = softmax(Nx.select(seen, scores, -1.0e9))
    Nx.dot(weights, [3], [0, 1], v, [2], [0, 1])
  end

  test "functions written with Nx" do
    x = random(1, {6, 10})

    rows = [
      softmax: &softmax/1,
      softmax: &Nx.divide(Nx.exp(&1), Nx.sum(Nx.exp(&1), axes: [1], keep_axes: true)),
      log_softmax: &Nx.subtract(&1, Nx.log(Nx.sum(Nx.exp(&1), axes: [1], keep_axes: true))),
      gelu: &Nx.multiply(Nx.multiply(0.5, &1), Nx.add(1, Nx.erf(Nx.divide(&1, Nx.sqrt(2.0))))),
      silu: &Nx.multiply(&1, Nx.sigmoid(&1)),
      rms_norm:
        &Nx.divide(
          &1,
          Nx.sqrt(Nx.add(Nx.mean(Nx.pow(&1, 2), axes: [1], keep_axes: true), 1.0e-5))
        ),
      elementwise: &Nx.exp(Nx.sin(&1))
    ]

    for {name, fun} <- rows do
      assert names(fun, [x]) == [name]
      assert names(fun, [x], fusion: [{name, false}]) == []
      refute ExBurn.explain(fun, [x], fusion: [{name, false}]) =~ "fused("
      assert_same(fun, [x])
    end
  end

  test "activations and normalisations of Axon" do
    x = random(2, {6, 10})

    for {name, fun} <- [
          softmax: &Axon.Activations.softmax/1,
          log_softmax: &Axon.Activations.log_softmax/1,
          gelu: &Axon.Activations.gelu/1,
          silu: &Axon.Activations.silu/1
        ] do
      assert name in names(fun, [x])
      assert_same(fun, [x])
    end

    args = [x, random(3, {10}), random(4, {10})]
    assert :layer_norm in names(&Axon.Layers.layer_norm(&1, &2, &3), args)
    assert_same(&Axon.Layers.layer_norm(&1, &2, &3), args)
  end

  test "layers of Axon" do
    model =
      Axon.input("x", shape: {nil, 8})
      |> Axon.dense(16, activation: :relu)
      |> Axon.layer_norm()
      |> Axon.dense(12, activation: :gelu)
      |> Axon.dense(4, activation: :softmax)

    {init, predict} = Axon.build(model)
    state = init.(Nx.template({3, 8}, :f32), Axon.ModelState.empty())
    found = Fusion.found(&predict.(state, &1), [Nx.template({3, 8}, :f32)])
    assert %{count: 3} = Enum.find(found, &(&1.pattern == :linear))
    assert [:softmax, :layer_norm, :linear, :gelu, :relu] -- Enum.map(found, & &1.pattern) == []
    assert_same(&predict.(state, &1), [random(5, {3, 8})])
  end

  test "a convolution with its activation" do
    model =
      Axon.input("x", shape: {nil, 8, 8, 3}) |> Axon.conv(4, kernel_size: 3, activation: :relu)

    {init, predict} = Axon.build(model)
    state = init.(Nx.template({2, 8, 8, 3}, :f32), Axon.ModelState.empty())
    assert names(&predict.(state, &1), [random(6, {2, 8, 8, 3})]) == [:conv, :relu]
    assert_same(&predict.(state, &1), [random(6, {2, 8, 8, 3})])
  end

  test "attention with a causal mask" do
    args = for seed <- 1..3, do: random(seed, {2, 3, 5, 4})
    assert names(&causal_attention/3, args) == [:attention, :softmax]
    assert names(&causal_attention/3, args, fusion: [attention: false]) == [:softmax]
    assert_same(&causal_attention/3, args)
  end

  test "attention and linear layers of many rows run by blocks of rows" do
    args = for seed <- 1..3, do: random(seed, {2, 2, 70, 16})
    assert ExBurn.explain(&causal_attention/3, args) =~ "blocked("
    refute ExBurn.explain(&causal_attention/3, args, fusion: [attention: false]) =~ "blocked("
    assert names(&causal_attention/3, args) == [:attention, :softmax]
    assert_same(&causal_attention/3, args)

    args = [random(4, {600, 8}), random(5, {8, 500}), random(6, {500})]
    dense = fn x, kernel, bias -> Nx.max(Nx.add(Nx.dot(x, kernel), bias), 0) end
    assert ExBurn.explain(dense, args) =~ "blocked("
    assert names(dense, args) == [:linear, :relu]
    assert_same(dense, args)
  end

  test "attention with a single query runs by blocks" do
    [q, k, v] =
      for {seed, steps} <- [{1, 1}, {2, 70}, {3, 70}], do: random(seed, {2, 3, steps, 16})

    attend = fn q, k, v ->
      scores = Nx.divide(Nx.dot(q, [3], [0, 1], k, [3], [0, 1]), 4)
      Nx.dot(softmax(scores), [3], [0, 1], v, [2], [0, 1])
    end

    assert ExBurn.explain(attend, [q, k, v]) =~ "blocked("
    assert names(attend, [q, k, v]) == [:attention, :softmax]
    assert_same(attend, [q, k, v])
  end

  test "convolutions with their normalisation and activation run by blocks of windows" do
    first = [input_permutation: [0, 1, 2, 3], output_permutation: [0, 1, 2, 3]]
    last = [input_permutation: [0, 3, 1, 2], output_permutation: [0, 3, 1, 2]]
    lines = for seed <- 11..14, do: random(seed, {8})

    for {axes, images, line} <- [
          {first, {2, 3, 9, 7}, {1, 8, 1, 1}},
          {last, {2, 9, 7, 3}, {1, 1, 1, 8}}
        ] do
      normalised = fn x, kernel, mean, var, gamma, beta ->
        y = Nx.conv(x, kernel, [padding: :same, strides: [2, 1]] ++ axes)
        [mean, var, gamma, beta] = Enum.map([mean, var, gamma, beta], &Nx.reshape(&1, line))
        scale = Nx.multiply(gamma, Nx.rsqrt(Nx.add(Nx.multiply(var, var), 1.0e-3)))
        Nx.max(Nx.add(Nx.multiply(Nx.subtract(y, mean), scale), beta), 0)
      end

      args = [random(9, images), random(10, {8, 3, 3, 3}) | lines]
      assert ExBurn.explain(normalised, args) =~ "blocked("
      refute ExBurn.explain(normalised, args, fusion: [conv: false]) =~ "blocked("
      assert [:conv, :relu] -- names(normalised, args) == []
      assert_same(normalised, args)
    end
  end

  test "a convolution of Axon with its normalisation" do
    for channels <- [:first, :last] do
      model =
        Axon.input("x", shape: {nil, 12, 12, 12})
        |> Axon.conv(12, kernel_size: 3, channels: channels)
        |> Axon.batch_norm(channel_index: if(channels == :first, do: 1, else: 3))
        |> Axon.silu()

      {init, predict} = Axon.build(model)
      state = init.(Nx.template({2, 12, 12, 12}, :f32), Axon.ModelState.empty())
      fun = &predict.(state, &1)
      assert ExBurn.explain(fun, [random(15, {2, 12, 12, 12})]) =~ "blocked("
      assert [:conv, :silu] -- names(fun, [random(15, {2, 12, 12, 12})]) == []
      assert_same(fun, [random(15, {2, 12, 12, 12})])
    end
  end

  test "losses of integer targets take no memory for the logarithms of all probabilities" do
    targets = Nx.tensor([3, 0, 9, 9, 1, 4], backend: Nx.BinaryBackend)
    opts = [from_logits: true, sparse: true, reduction: :mean]
    loss = &Axon.Losses.categorical_cross_entropy(&2, &1, opts)
    assert ExBurn.explain(loss, [random(16, {6, 10}), targets]) =~ "blocked("
    assert :cross_entropy in names(loss, [random(16, {6, 10}), targets])
    assert_same(loss, [random(16, {6, 10}), targets])

    one_hot = fn x, targets ->
      is_target = Nx.equal(Nx.iota({6, 10}, axis: 1), Nx.new_axis(targets, 1))
      Nx.negate(Nx.sum(Nx.multiply(is_target, Axon.Activations.log_softmax(x)), axes: [1]))
    end

    assert [%{pattern: :cross_entropy, count: 1}] =
             Enum.filter(
               Fusion.found(one_hot, [random(16, {6, 10}), targets]),
               &(&1.pattern == :cross_entropy)
             )

    assert_same(one_hot, [random(16, {6, 10}), targets])
  end

  test "an embedding and what is done to it run by blocks of rows" do
    words = Nx.tensor([[4, 0, 19], [7, 7, 2]], backend: Nx.BinaryBackend)

    embed = fn words, table, places, gamma, beta ->
      Axon.Layers.layer_norm(Nx.add(Nx.take(table, words), places), gamma, beta)
    end

    args = [words, random(17, {20, 8}), random(18, {3, 8}), random(19, {8}), random(20, {8})]
    assert ExBurn.explain(embed, args) =~ "blocked("
    refute ExBurn.explain(embed, args, fusion: [embedding: false]) =~ "blocked("
    assert names(embed, args) == [:layer_norm, :embedding]
    assert_same(embed, args)
  end

  test "losses and tables" do
    x = random(7, {6, 10})
    targets = Nx.eye({6, 10}, backend: Nx.BinaryBackend)
    assert :cross_entropy in names(&cross_entropy/2, [x, targets])
    assert_same(&cross_entropy/2, [x, targets])
    loss = &Axon.Losses.categorical_cross_entropy(&2, &1, from_logits: true, reduction: :mean)
    assert :cross_entropy in names(loss, [x, targets])
    assert_same(loss, [x, targets])
    embedding = &Axon.Layers.embedding(Nx.tensor([1, 5, 0]), &1)
    assert [%{pattern: :embedding, count: 1, shapes: [{3, 10}]}] = Fusion.found(embedding, [x])
    assert names(embedding, [x], fusion: [embedding: false]) == []
    assert_same(embedding, [x])
  end

  test "updates of Polaris" do
    g = random(8, {6, 10})

    for {name, {init, update}} <- [
          adam: Polaris.Optimizers.adam(learning_rate: 0.1),
          adamw: Polaris.Optimizers.adamw(learning_rate: 0.1, decay: 0.01),
          sgd: Polaris.Optimizers.sgd(learning_rate: 0.1)
        ] do
      step = fn p, g ->
        {updates, _state} = update.(%{"p" => g}, init.(%{"p" => p}), %{"p" => p})
        Polaris.Updates.apply_updates(%{"p" => p}, updates)["p"]
      end

      assert name in names(step, [random(9, {6, 10}), g])
      assert_same(step, [random(9, {6, 10}), g])
    end
  end

  test "the configuration switches patterns off, and an option on again" do
    Application.put_env(:ex_burn, :fusion, softmax: false)
    on_exit(fn -> Application.delete_env(:ex_burn, :fusion) end)
    x = Nx.template({2, 3}, :f32)
    assert names(&softmax/1, [x]) == []
    assert names(&softmax/1, [x], fusion: [softmax: true]) == [:softmax]
    assert names(&softmax/1, [x], fusion: true, passes: [patterns: false]) == []
    Application.put_env(:ex_burn, :fusion, false)
    assert Passes.disabled([]) == ["fusion"]
    assert Passes.disabled(fusion: true) == []
  end

  test "what makes no sense is refused" do
    x = [Nx.template({2}, :f32)]

    for {fusion, message} <- [
          {[magic: false], ~r/unknown pattern :magic/},
          {[softmax: 3], ~r/pattern :softmax is 3/},
          {[:softmax], ~r/fusion: is \[:softmax\]/},
          {3, ~r/pass :fusion is 3/}
        ] do
      assert_raise ArgumentError, message, fn -> ExBurn.explain(&Nx.exp/1, x, fusion: fusion) end
    end
  end

  test "the names are those of the engine" do
    x = Nx.template({2}, :f32)
    all = for {name, _sentence} <- Fusion.patterns(), do: {name, false}
    assert ExBurn.explain(&Nx.exp/1, [x], fusion: all) =~ "exp("
  end
end
