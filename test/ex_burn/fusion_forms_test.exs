defmodule ExBurn.FusionFormsTest do
  use ExUnit.Case, async: true

  alias ExBurn.Defn.Compiler
  alias ExBurn.Fusion

  defp random(seed, shape) do
    {tensor, _key} = seed |> Nx.Random.key() |> Nx.Random.normal(shape: shape)
    Nx.backend_copy(tensor, Nx.BinaryBackend)
  end

  defp names(fun, args), do: for(found <- Fusion.found(fun, args), do: found.pattern)

  defp assert_same(fun, args) do
    [want, got] =
      for compiler <- [Nx.Defn.Evaluator, Compiler] do
        fun |> Nx.Defn.jit_apply(args, compiler: compiler) |> Nx.backend_copy(Nx.BinaryBackend)
      end

    assert Nx.to_number(Nx.all_close(got, want, atol: 1.0e-4, rtol: 1.0e-4)) == 1,
           inspect({got, want})
  end

  defp mean(x), do: Nx.mean(x, axes: [-1], keep_axes: true)
  defp deviation(x), do: Nx.standard_deviation(x, axes: [-1], keep_axes: true)
  defp log_sum_exp(x), do: Nx.logsumexp(x, axes: [-1], keep_axes: true)

  defp by_means(x) do
    variance = Nx.subtract(mean(Nx.pow(x, 2)), Nx.pow(mean(x), 2))
    Nx.multiply(Nx.subtract(x, mean(x)), Nx.rsqrt(Nx.add(variance, 1.0e-3)))
  end

  test "functions of rows have one name however they are written" do
    x = random(1, {6, 10})

    for {name, fun} <- [
          softmax: &Nx.exp(Nx.subtract(&1, log_sum_exp(&1))),
          softmax: &Nx.exp(Axon.Activations.log_softmax(&1)),
          log_softmax: &Nx.subtract(&1, log_sum_exp(&1)),
          layer_norm: &by_means/1,
          layer_norm: &Nx.divide(Nx.subtract(&1, mean(&1)), Nx.add(deviation(&1), 1.0e-3)),
          layer_norm: &Nx.divide(Nx.subtract(&1, mean(&1)), deviation(&1)),
          relu: &Nx.add(Nx.clip(&1, 0, 6), 1),
          relu: &Axon.Activations.relu6(Nx.add(&1, 1))
        ] do
      assert names(fun, [x]) == [name]
      assert_same(fun, [x])
    end
  end

  test "activations have one name however they are written" do
    x = random(6, {6, 10})
    cubic = fn x -> Nx.add(x, Nx.multiply(0.044715, Nx.pow(x, 3))) end
    exp = &Nx.exp(&1)
    tanh = &Nx.tanh(Nx.multiply(&1, Nx.add(0.8, Nx.multiply(0.0357, Nx.multiply(&1, &1)))))

    for {name, fun} <- [
          gelu: &Nx.multiply(&1, Nx.sigmoid(Nx.multiply(1.6, cubic.(&1)))),
          gelu: &Nx.multiply(0.5, Nx.multiply(&1, Nx.add(1, tanh.(&1)))),
          silu: &Nx.multiply(&1, Nx.sigmoid(Nx.multiply(1.702, &1))),
          silu: &Nx.divide(&1, Nx.add(1, exp.(Nx.multiply(-1.702, &1)))),
          sigmoid: &Nx.divide(1, Nx.add(1, exp.(Nx.multiply(-1, &1)))),
          sigmoid: &Nx.divide(exp.(&1), Nx.add(1, exp.(&1))),
          relu: &Nx.select(Nx.less(&1, 0), 0, &1),
          relu: &Nx.multiply(Nx.greater(&1, 0), &1),
          rms_norm: &Nx.multiply(&1, Nx.pow(Nx.add(mean(Nx.pow(&1, 2)), 1.0e-3), -0.5))
        ] do
      assert {name, [name]} == {name, names(fun, [x])}
      assert_same(fun, [x])
    end
  end

  test "a cross entropy may be a sum of exponentials less the logit of the target" do
    x = random(2, {6, 10})
    targets = Nx.tensor([3, 0, 9, 9, 1, 4], backend: Nx.BinaryBackend)
    one_hot = Nx.equal(Nx.iota({6, 10}, axis: 1), Nx.new_axis(targets, 1))

    by_index = fn x, targets ->
      logit = Nx.take_along_axis(x, Nx.new_axis(targets, 1), axis: 1)
      Nx.sum(Nx.subtract(log_sum_exp(x), logit))
    end

    # The logits are made in the same region, which answers them to be looked up.
    by_made = fn x, targets ->
      x = Nx.multiply(x, Nx.sin(x))
      by_index.(x, targets)
    end

    by_one_hot = fn x, one_hot ->
      logit = Nx.sum(Nx.multiply(x, one_hot), axes: [1])
      Nx.mean(Nx.subtract(Nx.logsumexp(x, axes: [1]), logit))
    end

    by_choice = fn x, one_hot ->
      chosen = Nx.select(one_hot, Axon.Activations.log_softmax(x), 0.0)
      Nx.negate(Nx.mean(Nx.sum(chosen, axes: [1])))
    end

    by_log_of_share = fn x, targets ->
      share = Nx.take_along_axis(Axon.Activations.softmax(x), Nx.new_axis(targets, 1), axis: 1)
      Nx.negate(Nx.mean(Nx.log(Nx.add(share, 1.0e-7))))
    end

    for {loss, args} <- [
          {by_choice, [x, one_hot]},
          {by_log_of_share, [x, targets]},
          {by_index, [x, targets]},
          {by_made, [x, targets]},
          {by_one_hot, [x, one_hot]}
        ] do
      assert :cross_entropy in names(loss, args)
      assert_same(loss, args)
    end

    assert names(fn x, y -> Nx.sum(Nx.subtract(log_sum_exp(x), y)) end, [x, random(3, {6, 1})]) ==
             [:elementwise]
  end

  defp kept(old, share, new), do: Nx.add(Nx.multiply(share, old), Nx.multiply(1 - share, new))

  test "steps of optimizers as PyTorch and Keras write them" do
    [p, g, m, v] = for seed <- 7..10, do: random(seed, {6, 10})
    v = v |> Nx.abs() |> Nx.backend_copy(Nx.BinaryBackend)

    with_decay = fn p, g, _m, _v ->
      Nx.subtract(p, Nx.multiply(0.1, Nx.add(g, Nx.multiply(0.01, p))))
    end

    with_rate_inside = fn p, g, m, _v ->
      m = Nx.subtract(Nx.multiply(0.9, m), Nx.multiply(0.1, g))
      {Nx.add(p, m), m}
    end

    adam = fn root ->
      fn p, g, m, v ->
        {m, v} = {kept(m, 0.9, g), kept(v, 0.999, Nx.multiply(g, g))}
        step = Nx.divide(m, Nx.add(root.(v), 1.0e-4))
        {Nx.subtract(p, Nx.multiply(0.1, step)), m, v}
      end
    end

    for {name, step} <- [
          sgd: with_decay,
          sgd: with_rate_inside,
          adam: adam.(&Nx.divide(Nx.sqrt(&1), 0.05)),
          adam: adam.(&Nx.pow(&1, 0.5))
        ] do
      assert {name, [name]} == {name, names(step, [p, g, m, v])}

      parameter = fn p, g, m, v ->
        result = step.(p, g, m, v)
        if is_tuple(result), do: elem(result, 0), else: result
      end

      assert_same(parameter, [p, g, m, v])
    end

    # A mean that moves, and values that are added to others, are no steps.
    assert names(&kept(&1, 0.9, &2), [p, g]) == [:elementwise]
    residual = fn x, y -> {Nx.add(x, Nx.tanh(y)), Nx.tanh(y)} end
    refute :sgd in names(residual, [p, g])
  end

  test "steps by the root of squares are no SGD" do
    g = random(4, {6, 10})

    for {name, {init, update}} <- [
          rmsprop: Polaris.Optimizers.rmsprop(learning_rate: 0.1),
          adagrad: Polaris.Optimizers.adagrad(learning_rate: 0.1)
        ] do
      step = fn p, g, state ->
        {updates, state} = update.(%{"p" => g}, state, %{"p" => p})
        {Polaris.Updates.apply_updates(%{"p" => p}, updates)["p"], state}
      end

      args = [random(5, {6, 10}), g, init.(%{"p" => random(5, {6, 10})})]
      assert name in names(step, args)
      assert :sgd not in names(step, args)
      assert_same(fn p, g, state -> elem(step.(p, g, state), 0) end, args)
    end
  end

  test "the text of a function names a table that is looked up" do
    embedding = &Axon.Layers.embedding(Nx.tensor([1, 5, 0]), &1)
    table = Nx.template({6, 10}, :f32)
    assert ExBurn.explain(embedding, [table]) =~ ~r/take\(.*patterns: \[embedding\]/
    refute ExBurn.explain(embedding, [table], fusion: [embedding: false]) =~ "embedding"
    refute ExBurn.explain(embedding, [table], passes: [patterns: false]) =~ "embedding"
  end
end
