defmodule ExBurn.Case do
  @moduledoc """
  What tests share: comparison of our results with those of `Nx.BinaryBackend`.
  """

  use ExUnit.CaseTemplate

  import ExUnit.Assertions

  using do
    quote do
      import ExBurn.Case
      alias ExBurn.Error
    end
  end

  @doc """
  A copy on `Nx.BinaryBackend` of every tensor in a container.
  """
  def on_binary(container) do
    [container]
    |> Nx.Defn.Composite.flatten_list()
    |> Enum.map(&Nx.backend_copy(&1, Nx.BinaryBackend))
  end

  @doc """
  Asserts that `fun` of `args` gives the same three ways: on `Nx.BinaryBackend`, op by op on our backend, and compiled
  by our compiler. Integers must be equal; floats may differ by `tolerance` relative to the larger of 1 and the value.
  """
  def assert_same(fun, args, tolerance \\ 1.0e-6) do
    binary =
      Nx.with_default_backend(Nx.BinaryBackend, fn -> apply_with(fun, args, Nx.Defn.Evaluator) end)

    ours = Enum.map(args, &Nx.backend_copy(&1, ExBurn.Backend))

    eager =
      Nx.with_default_backend(ExBurn.Backend, fn -> apply_with(fun, ours, Nx.Defn.Evaluator) end)

    compiled =
      Nx.with_default_backend(ExBurn.Backend, fn ->
        apply_with(fun, ours, ExBurn.Defn.Compiler)
      end)

    assert_close(eager, binary, tolerance)
    assert_close(compiled, binary, tolerance)
  end

  defp apply_with(fun, args, compiler), do: Nx.Defn.jit_apply(fun, args, compiler: compiler)

  @doc """
  Asserts that two containers hold tensors of the same types, shapes, names and, within `tolerance`, values.
  """
  def assert_close(got, want, tolerance \\ 1.0e-6) do
    got = on_binary(got)
    want = on_binary(want)
    assert length(got) == length(want)
    Enum.zip_with(got, want, &assert_close_tensor(&1, &2, tolerance))
  end

  defp assert_close_tensor(got, want, tolerance) do
    assert {got.type, got.shape, got.names} == {want.type, want.shape, want.names}

    for {g, w} <- Enum.zip(Nx.to_flat_list(got), Nx.to_flat_list(want)),
        not close?(g, w, tolerance) do
      flunk(
        "expected #{inspect(want)}, got #{inspect(got)}: #{inspect(g)} is not close to #{inspect(w)}"
      )
    end
  end

  defp close?(same, same, _tolerance), do: true

  defp close?(g, w, tolerance) when is_float(g) and is_float(w),
    do: abs(g - w) <= tolerance * max(1.0, abs(w))

  defp close?(_got, _want, _tolerance), do: false
end
