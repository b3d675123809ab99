defmodule Bench.Measure do
  @moduledoc false

  {seconds, ""} = Float.parse(System.get_env("BENCH_SECONDS", "0.4"))
  @nanoseconds round(seconds * 1.0e9)
  @calls String.to_integer(System.get_env("BENCH_CALLS", "5"))

  # The first elements of the file `name` in `folder`, or those from `start` on, as a tensor.
  def operand(folder, name, type, shape, start \\ 0) do
    {_, bits} = type
    bytes = div(Tuple.product(shape) * bits, 8)
    path = Path.join(folder, name)
    {:ok, binary} = File.open(path, [:read, :binary], &read(&1, div(start * bits, 8), bytes))
    binary |> Nx.from_binary(type) |> Nx.reshape(shape)
  end

  defp read(file, start, bytes) do
    {:ok, binary} = :file.pread(file, start, bytes)
    binary
  end

  # The median time in microseconds of a call of `step`, whose result is the argument of the next call.
  def median(step, state) do
    state = step.(step.(state))
    times = measure(step, state, System.monotonic_time() + @nanoseconds, [])
    Enum.at(Enum.sort(times), div(length(times), 2)) / 1000
  end

  defp measure(step, state, until, times) do
    start = System.monotonic_time()
    state = step.(state)
    now = System.monotonic_time()
    times = [now - start | times]

    if now < until or length(times) < @calls,
      do: measure(step, state, until, times),
      else: times
  end

  def format(time), do: :erlang.float_to_binary(time, decimals: 1)
end
