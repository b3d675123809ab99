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

    for {loss, args} <- [
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
