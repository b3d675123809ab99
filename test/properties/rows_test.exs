defmodule ExBurn.Properties.RowsTest do
  @moduledoc """
  Loops and chains of products over many rows, of which some keep rows apart, and may run by blocks of them, and others
  mix them, which must not. Compared with Nx's evaluator on `Nx.BinaryBackend`.
  """

  use ExUnit.Case, async: true
  use ExUnitProperties

  import Nx.Defn

  # A row apart from others, but for the second list, where each step reads several rows.
  @apart ~w(product transposed_product bias tanh scaled normalized halves reversed select cumulative sorted reshaped
            largest input own_matrix turned last_axes)a
  @mixing ~w(rows_reversed rows_summed numbered rows_sorted rows_moved rows_taken)a

  @width 64
  @iterations 3

  @tag timeout: :infinity
  property "rows in loops and chains" do
    check all rows <- StreamData.member_of([16, 18, 24, 33, 40]),
              steps <- StreamData.list_of(step(), min_length: 1, max_length: 7),
              loop? <- StreamData.boolean(),
              seed <- StreamData.integer(0..1_000_000),
              max_runs: String.to_integer(System.get_env("PROPERTY_RUNS", "30")) do
      operands = operands(rows, seed)
      run = if loop?, do: &looped(&1, steps: steps), else: &chained(&1, steps: steps)
      want = Nx.with_default_backend(Nx.BinaryBackend, fn -> run.(operands) end)
      ours = Map.new(operands, fn {name, t} -> {name, Nx.backend_copy(t, ExBurn.Backend)} end)
      got = Nx.Defn.jit_apply(run, [ours], compiler: ExBurn.Defn.Compiler, cache: false)

      for {want, got} <- Enum.zip(Tuple.to_list(want), Tuple.to_list(got)) do
        assert far(want, got) < 1.0e-9,
               "#{rows} rows, #{if loop?, do: "looped", else: "chained"}: #{inspect(steps)}"
      end
    end
  end

  defp step,
    do:
      StreamData.frequency([
        {9, StreamData.member_of([:product | @apart])},
        {1, StreamData.member_of(@mixing)}
      ])

  # Relative to the largest number.
  defp far(want, got) do
    [want, got] = for t <- [want, got], do: Nx.backend_copy(t, Nx.BinaryBackend)
    largest = fn t -> t |> Nx.abs() |> Nx.reduce_max() |> Nx.to_number() end
    largest.(Nx.subtract(want, got)) / max(largest.(want), 1)
  end

  defp operands(rows, seed) do
    shapes = [
      state: {rows, @width},
      input: {rows, @iterations, @width},
      matrix: {@width, @width},
      bias: {@width},
      own: {rows, @width, 2}
    ]

    Nx.with_default_backend(Nx.BinaryBackend, fn ->
      for {{name, shape}, at} <- Enum.with_index(shapes), into: %{} do
        key = Nx.Random.key(seed * 8 + at)
        {t, _key} = Nx.Random.uniform(key, -0.5, 0.5, shape: shape, type: :f64)
        {name, t}
      end
    end)
  end

  defn looped(operands, opts \\ []) do
    acc = operands.input * 0

    {_i, state, acc, _operands} =
      while {i = 0, state = operands.state, acc, operands}, i < 3 do
        state = steps(state, i, operands, opts)
        {i + 1, state, Nx.put_slice(acc, [0, i, 0], Nx.new_axis(state, 1)), operands}
      end

    {state, acc}
  end

  defn chained(operands, opts \\ []), do: {steps(operands.state, 0, operands, opts)}

  deftransformp steps(state, i, operands, opts),
    do: Enum.reduce(opts[:steps], state, &apply_step(&1, &2, i, operands))

  defp apply_step(:product, s, _, o), do: Nx.dot(s, o.matrix)
  defp apply_step(:transposed_product, s, _, o), do: Nx.dot(s, [1], o.matrix, [1])
  defp apply_step(:bias, s, _, o), do: Nx.add(s, o.bias)
  defp apply_step(:tanh, s, _, _), do: Nx.tanh(s)

  defp apply_step(:scaled, s, _, o),
    do: Nx.multiply(s, Nx.slice_along_axis(o.state, 3, 1, axis: 1))

  defp apply_step(:normalized, s, _, _) do
    e = Nx.exp(Nx.subtract(s, Nx.reduce_max(s, axes: [1], keep_axes: true)))
    Nx.divide(e, Nx.sum(e, axes: [1], keep_axes: true))
  end

  defp apply_step(:halves, s, _, _),
    do: Nx.concatenate([s[[.., 32..63]], Nx.negate(s[[.., 0..31]])], axis: 1)

  defp apply_step(:reversed, s, _, _), do: Nx.reverse(s, axes: [1])
  defp apply_step(:select, s, _, o), do: Nx.select(Nx.greater(s, o.bias), s, o.state)
  defp apply_step(:cumulative, s, _, _), do: Nx.divide(Nx.cumulative_sum(s, axis: 1), @width)
  defp apply_step(:sorted, s, _, _), do: Nx.sort(s, axis: 1)

  defp apply_step(:reshaped, s, _, _) do
    rows = Nx.axis_size(s, 0)
    s |> Nx.reshape({rows, 8, 8}) |> Nx.transpose(axes: [0, 2, 1]) |> Nx.reshape({rows, @width})
  end

  defp apply_step(:largest, s, _, _),
    do: Nx.add(s, Nx.divide(Nx.argmax(s, axis: 1, keep_axis: true), @width))

  defp apply_step(:input, s, i, o),
    do: Nx.add(s, Nx.squeeze(Nx.slice_along_axis(o.input, i, 1, axis: 1), axes: [1]))

  # The factor is held within 1: otherwise numbers are squared again and again, beyond those that there are.
  defp apply_step(:own_matrix, s, _, o) do
    sum = Nx.sum(Nx.dot(s, [1], [0], o.own, [1], [0]), axes: [1], keep_axes: true)
    Nx.multiply(s, Nx.tanh(sum))
  end

  defp apply_step(:turned, s, _, o),
    do: o.matrix |> Nx.dot([1], Nx.transpose(s), [0]) |> Nx.transpose()

  defp apply_step(:last_axes, s, _, o),
    do: Nx.dot(Nx.new_axis(s, 1), [2], o.matrix, [0]) |> Nx.squeeze(axes: [1])

  defp apply_step(:rows_reversed, s, _, _), do: Nx.reverse(s, axes: [0])
  defp apply_step(:rows_summed, s, _, _), do: Nx.subtract(s, Nx.mean(s, axes: [0]))
  defp apply_step(:numbered, s, _, _), do: Nx.add(s, Nx.divide(Nx.iota(s.shape, axis: 0), 100))
  defp apply_step(:rows_sorted, s, _, _), do: Nx.sort(s, axis: 0)

  defp apply_step(:rows_moved, s, i, _) do
    at = Nx.add(i, 5)
    Nx.concatenate([Nx.slice_along_axis(s, at, 8, axis: 0), s[[8..-1//1]]], axis: 0)
  end

  defp apply_step(:rows_taken, s, _, _),
    do:
      Nx.take(s, Nx.remainder(Nx.multiply(Nx.iota({Nx.axis_size(s, 0)}), 7), Nx.axis_size(s, 0)))
end
