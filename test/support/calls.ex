defmodule ExBurn.Calls do
  @moduledoc """
  What the functions that a `defn` calls see, for tests.
  """

  import ExBurn.Case, only: [on_binary: 1]
  import ExUnit.Assertions

  @doc """
  A function for a hook: it tells the test what it sees.
  """
  def see(tag), do: &send(self(), {:seen, tag, &1})

  @doc """
  What functions have seen so far, in order, on `Nx.BinaryBackend`.
  """
  def seen do
    receive do
      {:seen, tag, value} -> [{tag, on_binary(value)} | seen()]
    after
      0 -> []
    end
  end

  @doc """
  The tags of what functions have seen.
  """
  def tags(calls), do: Enum.map(calls, &elem(&1, 0))

  @doc """
  Asserts that `fun` of `args` calls the same functions in the same order with the same values and answers the same,
  compiled by our compiler and with `Nx.Defn.Evaluator` on `Nx.BinaryBackend`. Answers the calls.
  """
  def assert_same_calls(fun, args, opts \\ []) do
    {calls, _result} = want = trace(fun, args, Nx.Defn.Evaluator, Nx.BinaryBackend, opts)
    assert trace(fun, args, ExBurn.Defn.Compiler, ExBurn.Backend, opts) == want
    calls
  end

  defp trace(fun, args, compiler, backend, opts) do
    Nx.with_default_backend(backend, fn ->
      args = Enum.map(args, &Nx.backend_copy(&1, backend))
      result = Nx.Defn.jit_apply(fun, args, [compiler: compiler] ++ opts)
      {seen(), on_binary(result)}
    end)
  end
end
