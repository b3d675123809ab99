defmodule ExBurn.NxModes do
  @moduledoc """
  The three ways to run a test of Nx: `:backend`, with our backend and the compiler of Nx; `:both`, with our compiler
  too; `:compiler`, with our compiler alone, so that the tensors that functions capture are of `Nx.BinaryBackend`.

  Examples of documentation run with `:backend` only, since `test/nx/doctest_test.exs` runs them with our compiler. With
  `EX_BURN_TEST_DEVICE=gpu` backend and compiler are those of the first GPU.
  """

  @doc """
  Adds each test of the module again for the other modes. It is called before ExUnit looks for the tests.
  """
  defmacro add_tests(env) do
    for test <- Module.get_attribute(env.module, :ex_unit_tests),
        test.tags.test_type == :test,
        mode <- [:both, :compiler] do
      name = :"#{test.name} (#{mode})"
      copy = %{test | name: name, tags: Map.put(test.tags, :mode, mode)}
      Module.put_attribute(env.module, :ex_unit_tests, copy)
      quote do: def(unquote(name)(context), do: unquote(test.name)(context))
    end
  end

  @doc """
  Makes the process run a test as its context says.
  """
  def start(context) do
    mode = Map.get(context, :mode, :backend)
    {backend, compiler} = parts(mode)
    Process.put(__MODULE__, mode)
    Nx.default_backend(backend)
    if compiler, do: compile_with(compiler)
    :ok
  end

  # A test may expect that its function is traced, which it is once only.
  defp compile_with(compiler) do
    ExBurn.Defn.Cache.clear()
    Nx.Defn.default_options([compiler: compiler] ++ device())
  end

  defp parts(:backend), do: {{ExBurn.Backend, device()}, nil}
  defp parts(:both), do: {{ExBurn.Backend, device()}, ExBurn.Defn.Compiler}
  defp parts(:compiler), do: {Nx.BinaryBackend, ExBurn.Defn.Compiler}

  # Asked for when a test runs: this module may have been compiled for the CPU.
  defp device,
    do: if(gpu = ExBurn.TestDevice.gpu(), do: [device: gpu], else: [])

  @doc """
  The mode of this process.
  """
  def current, do: Process.get(__MODULE__, :backend)

  @doc """
  The compiler to use where a test asks for `compiler`.
  """
  def compiler(Nx.Defn.Evaluator) do
    {_backend, compiler} = parts(current())
    compiler || Nx.Defn.Evaluator
  end

  def compiler(other), do: other
end
