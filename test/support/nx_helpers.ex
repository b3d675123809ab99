defmodule Nx.Helpers do
  @moduledoc """
  What Nx's tests call to compare floats, for tensors of any backend.
  """

  import ExUnit.Assertions

  @doc """
  Asserts that the gradient of `fun` at `x` is the slope of `fun` over a short distance.
  """
  def check_grads!(fun, gradient, x, opts \\ []) do
    half = (opts[:step] || 1.0e-4) / 2
    rise = Nx.subtract(fun.(Nx.add(x, half)), fun.(Nx.subtract(x, half)))
    tolerance = [atol: opts[:atol] || 1.0e-7, rtol: opts[:rtol] || 1.0e-4]
    assert_all_close(gradient.(x), Nx.divide(rise, 2 * half), tolerance)
  end

  @doc """
  Asserts that two tensors are close.
  """
  def assert_all_close(left, right, opts \\ []) do
    opts = Keyword.merge([atol: 1.0e-4, rtol: 1.0e-4], opts)

    assert Nx.to_number(Nx.all_close(left, right, opts)) == 1,
           "expected #{inspect(left)} to be close to #{inspect(right)}"
  end
end
