defmodule ExBurnTest do
  use ExUnit.Case, async: true

  # The functions of ExBurn, and where their examples are.
  doctest ExBurn
  doctest ExBurn.Benchmark
  doctest ExBurn.Defn.Compiler
  doctest ExBurn.Device.Attempt
  doctest ExBurn.Donation
  doctest ExBurn.Model.Exchange
  doctest ExBurn.Model.Files
  doctest ExBurn.Model.Freeze
  doctest ExBurn.Model.Predict
  doctest ExBurn.Model.Quantize
  doctest ExBurn.Model.Summary
  doctest ExBurn.Training.Batch

  # Application settings are shared by all tests, so the one that changes them runs alone.
  defmodule ConfigTest do
    use ExUnit.Case, async: false

    doctest ExBurn.Config

    setup do
      backend = Nx.default_backend()
      options = Nx.Defn.default_options()

      on_exit(fn ->
        Application.delete_env(:ex_burn, :chosen_device)
        Nx.global_default_backend(backend)
        Nx.Defn.global_default_options(options)
      end)
    end

    test "defaults change only when asked to" do
      assert ExBurn.configure!(device: {:cpu, 0}) == :ok
      assert ExBurn.default_device() == :cpu
      assert in_new_process(&Nx.default_backend/0) == {Nx.BinaryBackend, []}

      assert ExBurn.configure!(backend: true, compiler: true) == :ok
      assert in_new_process(&Nx.default_backend/0) == {ExBurn.Backend, [device: :cpu]}
      assert in_new_process(&Nx.Defn.default_options/0)[:compiler] == ExBurn.Defn.Compiler
    end

    test "bad settings are refused" do
      assert_raise ExBurn.Error, ~r/unknown option :gpu; known options are :backend/, fn ->
        ExBurn.configure!(gpu: true)
      end

      assert_raise ExBurn.Error, "configure!: backend: is 1, expected true or false", fn ->
        ExBurn.configure!(backend: 1)
      end
    end

    defp in_new_process(fun), do: fun |> Task.async() |> Task.await()
  end

  test "benchmark leaves the caller's backend alone and refuses bad sizes" do
    before = Nx.default_backend()
    assert %{gflops: gflops} = ExBurn.benchmark(size: 32, runs: 1)
    assert gflops > 0
    assert Nx.default_backend() == before

    assert_raise ExBurn.Error, "benchmark: size: is 0, expected a positive integer", fn ->
      ExBurn.benchmark(size: 0)
    end
  end
end
