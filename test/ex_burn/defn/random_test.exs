defmodule ExBurn.Defn.RandomTest do
  @moduledoc """
  `Nx.Random`, whose rounds are loops, compiled.
  """

  use ExUnit.Case, async: true

  alias ExBurn.Defn.Compiler

  # Whole numbers and multiples of powers of two, which are the same everywhere.
  @draws [
    split: quote(do: &Nx.Random.split(&1, parts: 5)),
    fold_in: quote(do: &Nx.Random.fold_in(&1, Nx.tensor([3, 2_000_000]))),
    randint: quote(do: &Nx.Random.randint(&1, -7, 90, shape: {3, 5})),
    randint_u8: quote(do: &Nx.Random.randint(&1, 0, 200, shape: {7}, type: :u8)),
    uniform: quote(do: &Nx.Random.uniform(&1, shape: {4, 6})),
    uniform_scalar: quote(do: &Nx.Random.uniform/1),
    uniform_odd: quote(do: &Nx.Random.uniform(&1, shape: {1001})),
    uniform_f16: quote(do: &Nx.Random.uniform(&1, shape: {33}, type: :f16)),
    uniform_bf16: quote(do: &Nx.Random.uniform(&1, shape: {33}, type: :bf16)),
    uniform_f64: quote(do: &Nx.Random.uniform(&1, shape: {33}, type: :f64)),
    choice: quote(do: &Nx.Random.choice(&1, Nx.iota({20}), samples: 8)),
    shuffle: quote(do: &Nx.Random.shuffle(&1, Nx.iota({40})))
  ]

  for {name, fun} <- @draws do
    test "#{name} draws what Nx.BinaryBackend does" do
      fun = unquote(fun)

      for seed <- [0, 1701, 2 ** 63 - 1] do
        key = Nx.with_default_backend(Nx.BinaryBackend, fn -> Nx.Random.key(seed) end)
        expected = Nx.Defn.jit_apply(fun, [key], compiler: Nx.Defn.Evaluator)
        assert bytes(Nx.Defn.jit_apply(fun, [key], compiler: Compiler)) == bytes(expected)
      end
    end
  end

  test "the rounds of the generator are no loop, unless that is left out" do
    fun = &elem(Nx.Random.normal(&1, shape: {16}), 0)
    key = Nx.template({2}, :u32)
    refute ExBurn.explain(fun, [key]) =~ "while"
    assert ExBurn.explain(fun, [key], passes: [unrolling: false]) =~ "while"
  end

  defp bytes(%Nx.Tensor{} = t),
    do: {Nx.type(t), Nx.shape(t), t |> Nx.backend_copy(Nx.BinaryBackend) |> Nx.to_binary()}

  defp bytes(draw), do: draw |> Tuple.to_list() |> Enum.map(&bytes/1)
end
