defmodule ExBurn.ApplicationTest do
  use ExUnit.Case, async: true

  alias ExBurn.NIF

  # Another VM: how many threads there are is settled with the first operation.
  defp vm(threads), do: vm(:threads, threads)

  defp vm(option, value) do
    paths = Enum.flat_map(:code.get_path(), &["-pa", List.to_string(&1)])

    code = """
    Logger.configure(level: :error)
    Application.put_env(:ex_burn, #{inspect(option)}, #{inspect(value)})

    case Application.ensure_all_started(:ex_burn) do
      {:ok, _} ->
        x = Nx.iota({300_000}, type: :f64, backend: ExBurn.Backend)
        IO.inspect({ExBurn.NIF.threads(), Nx.to_number(Nx.sum(x))})

      {:error, {:ex_burn, {_, {_, {:EXIT, {error, _}}}}}} ->
        IO.puts(Exception.message(error))
    end
    """

    {out, 0} = System.cmd("elixir", paths ++ ["-e", code])
    String.trim(out)
  end

  test "as many threads work on an operation as the configuration says" do
    sum = Enum.sum(0..299_999) * 1.0
    assert vm(1) == inspect({1, sum})
    assert vm(3) == inspect({3, sum})
  end

  test "what is no number of threads is refused" do
    assert vm(:many) =~ "config :ex_burn, threads: is :many, expected a number of threads"
    assert vm(5000) =~ "5000 threads cannot work, 1 to 1024 can"

    for count <- [0, 1_000_000] do
      assert {:error, {:invalid, %{reason: reason}}} = NIF.set_threads(count)
      assert reason == "#{count} threads cannot work, 1 to 1024 can"
    end
  end

  test "what is no number of kept functions is refused" do
    for size <- [-1, "many", nil] do
      message = "config :ex_burn, cache_size: is #{inspect(size)}, expected a number of functions"
      assert vm(:cache_size, size) =~ message
    end

    assert vm(:cache_size, 0) =~ inspect(Enum.sum(0..299_999) * 1.0)
  end

  test "threads that have begun to work stay" do
    Nx.sum(Nx.iota({300_000}, backend: ExBurn.Backend))
    threads = NIF.threads()
    assert {:ok, _} = NIF.set_threads(threads)
    assert {:error, {:invalid, %{reason: reason}}} = NIF.set_threads(threads + 1)
    assert reason =~ "#{threads} threads have begun to work"
  end
end
