# What an operation on small tensors costs in all, in microseconds: the median of several rounds of many calls.
#
#     MIX_ENV=prod mix run bench/eager.exs

defmodule Eager do
  @calls 20_000
  @rounds 15

  def row(name, fun) do
    repeat(fun, div(@calls, 10))
    times = for _ <- 1..@rounds, do: elem(:timer.tc(fn -> repeat(fun, @calls) end), 0) / @calls

    IO.puts(
      "#{String.pad_trailing(name, 44)} #{:erlang.float_to_binary(median(times), decimals: 2)}"
    )
  end

  defp repeat(_fun, 0), do: :ok

  defp repeat(fun, count) do
    fun.()
    repeat(fun, count - 1)
  end

  defp median(times), do: times |> Enum.sort() |> Enum.at(div(@rounds, 2))
end

Nx.default_backend(ExBurn.Backend)
a = Nx.tensor([1.0, 2.0, 3.0, 4.0])
b = Nx.tensor([5.0, 6.0, 7.0, 8.0])
bytes = Nx.to_binary(a)
large = :binary.copy(bytes, 1_000_000)
tensor = Nx.from_binary(large, :f32)
add = &Nx.add/2
jit = Nx.Defn.jit(add, compiler: ExBurn.Defn.Compiler)
compiled = Nx.Defn.compile(add, [a, b], compiler: ExBurn.Defn.Compiler)

Eager.row("Nx.add of two f32[4]", fn -> Nx.add(a, b) end)

Eager.row("its native call alone", fn ->
  ExBurn.NIF.instruction_run({:binary, :add}, [a.data.ref, b.data.ref], [{:f32, [4]}])
end)

Eager.row("Nx.sum of f32[4]", fn -> Nx.sum(a) end)
Eager.row("Nx.dot of two f32[4]", fn -> Nx.dot(a, b) end)
Eager.row("Nx.reshape of f32[4]", fn -> Nx.reshape(a, {2, 2}) end)
Eager.row("the sum compiled, by Nx.Defn.compile", fn -> compiled.(a, b) end)
Eager.row("the sum compiled, by Nx.Defn.jit", fn -> jit.(a, b) end)
Eager.row("Nx.to_binary of f32[4]", fn -> Nx.to_binary(a) end)
Eager.row("Nx.from_binary of f32[4]", fn -> Nx.from_binary(bytes, :f32) end)
Eager.row("Nx.to_binary of 16 MB", fn -> Nx.to_binary(tensor) end)
Eager.row("Nx.from_binary of 16 MB", fn -> Nx.from_binary(large, :f32) end)
