# Times eager operations on large tensors for `compare`:
#
#     mix run bench/eager_large.exs FOLDER
#
# reads names of rows from its input and answers each with the median time in microseconds. FOLDER holds the operands
# that `compare` made. Each result is freed at once, as PyTorch and JAX do.

Code.require_file("measure.exs", __DIR__)

defmodule Bench.EagerLarge do
  alias Bench.Measure

  def serve(folder) do
    Nx.global_default_backend(ExBurn.Backend)
    IO.puts("ready")
    IO.stream() |> Enum.each(&IO.puts(answer(String.trim(&1), folder)))
  end

  defp answer(name, folder) do
    {function, operands} = row(name)

    operands =
      for {name, type, shape} <- operands, do: Measure.operand(folder, name, type, shape)

    Measure.format(Measure.median(&run(function, &1), operands))
  end

  defp run(function, operands) do
    function |> apply(operands) |> Nx.backend_deallocate()
    operands
  end

  @million4 [{"a", {:f, 32}, {4_000_000}}, {"b", {:f, 32}, {4_000_000}}]
  @square {"a", {:f, 32}, {1024, 1024}}
  @million {"a", {:f, 32}, {1_000_000}}
  @large {"a", {:f, 32}, {2048, 2048}}

  defp row("add_4M"), do: {&Nx.add/2, @million4}

  defp row("multiply_4M_f64") do
    {&Nx.multiply/2, [{"a64", {:f, 64}, {4_000_000}}, {"b64", {:f, 64}, {4_000_000}}]}
  end

  defp row("chain_4M") do
    {fn x, y ->
       xy = Nx.multiply(x, y)
       shifted = freeing(Nx.add(xy, 1.0), [xy])
       tanh = freeing(Nx.tanh(shifted), [shifted])
       half = freeing(Nx.multiply(tanh, 0.5), [tanh])
       negated = Nx.negate(x)
       squared = freeing(Nx.multiply(negated, x), [negated])
       bell = freeing(Nx.exp(squared), [squared])
       freeing(Nx.add(half, bell), [half, bell])
     end, @million4}
  end

  defp row("exp_4M"), do: {&Nx.exp/1, [hd(@million4)]}
  defp row("tanh_4M"), do: {&Nx.tanh/1, [hd(@million4)]}
  defp row("sigmoid_4M"), do: {&Nx.sigmoid/1, [hd(@million4)]}
  defp row("sin_4M"), do: {&Nx.sin/1, [hd(@million4)]}
  defp row("erf_4M"), do: {&Nx.erf/1, [hd(@million4)]}
  defp row("log_4M"), do: {&Nx.log/1, [{"positive", {:f, 32}, {4_000_000}}]}
  defp row("sum_4M"), do: {&Nx.sum/1, [hd(@million4)]}
  defp row("sum_rows_2048"), do: {&Nx.sum(&1, axes: [1]), [@large]}
  defp row("sum_columns_2048"), do: {&Nx.sum(&1, axes: [0]), [@large]}
  defp row("sum_short_rows"), do: {&Nx.sum(&1, axes: [1]), [{"a", {:f, 32}, {1_000_000, 4}}]}
  defp row("reduce_max_1024"), do: {&Nx.reduce_max(&1, axes: [1], keep_axes: true), [@square]}
  defp row("subtract_column_1024"), do: {&Nx.subtract/2, [@square, {"b", {:f, 32}, {1024, 1}}]}
  defp row("exp_1024"), do: {&Nx.exp/1, [@square]}
  defp row("divide_column_1024"), do: {&Nx.divide/2, [@square, {"positive", {:f, 32}, {1024, 1}}]}

  defp row("softmax_1024") do
    {fn m ->
       max = Nx.reduce_max(m, axes: [1], keep_axes: true)
       shifted = freeing(Nx.subtract(m, max), [max])
       exp = freeing(Nx.exp(shifted), [shifted])
       sum = Nx.sum(exp, axes: [1], keep_axes: true)
       freeing(Nx.divide(exp, sum), [exp, sum])
     end, [@square]}
  end

  defp row("sort_1M" <> type), do: {&Nx.sort/1, [million(type)]}
  defp row("argsort_1M" <> type), do: {&Nx.argsort(&1, type: {:s, 64}), [million(type)]}
  defp row("sort_rows_1024"), do: {&Nx.sort(&1, axis: 1), [@square]}
  defp row("cumulative_sum_1M"), do: {&Nx.cumulative_sum/1, [@million]}
  defp row("cumulative_sum_rows_1024"), do: {&Nx.cumulative_sum(&1, axis: 1), [@square]}
  defp row("cumulative_sum_columns_1024"), do: {&Nx.cumulative_sum(&1, axis: 0), [@square]}

  defp row("take_rows") do
    {&Nx.take/2, [{"a", {:f, 32}, {50_000, 64}}, {"rows", {:s, 64}, {65_536}}]}
  end

  defp row("gather_1M"), do: {&Nx.take/2, [@million, {"places", {:s, 64}, {1_000_000}}]}

  # A transposed tensor is a view; giving it another shape copies it.
  defp row("transpose_copy_2048") do
    {&(&1 |> Nx.transpose() |> Nx.reshape({2048 * 2048})), [@large]}
  end

  defp row("concatenate_4M") do
    {&Nx.concatenate([&1, &2]), [{"a", {:f, 32}, {2_000_000}}, {"b", {:f, 32}, {2_000_000}}]}
  end

  defp row("select_4M"), do: {&Nx.select/3, [{"flags", {:u, 8}, {4_000_000}} | @million4]}

  defp row("matmul_transposed_1024") do
    {&Nx.dot(&1, [1], &2, [1]), [@square, {"b", {:f, 32}, {1024, 1024}}]}
  end

  defp row("matmul_batched_64x128") do
    shape = {64, 128, 128}
    {&Nx.dot(&1, [2], [0], &2, [1], [0]), [{"a", {:f, 32}, shape}, {"b", {:f, 32}, shape}]}
  end

  defp row("matmul_" <> size) do
    case String.split(size, "_") do
      [n, "f64"] -> {&Nx.dot/2, square_matrices("64", {:f, 64}, n)}
      [n] -> {&Nx.dot/2, square_matrices("", {:f, 32}, n)}
    end
  end

  defp row("conv3x3_64_56_b8") do
    {&Nx.conv(&1, &2, padding: :same),
     [{"a", {:f, 32}, {8, 64, 56, 56}}, {"b", {:f, 32}, {64, 64, 3, 3}}]}
  end

  defp million(""), do: @million
  defp million("_f64"), do: {"a64", {:f, 64}, {1_000_000}}
  defp million("_s32"), do: {"ints", {:s, 32}, {1_000_000}}

  defp square_matrices(suffix, type, n) do
    n = String.to_integer(n)
    [{"a" <> suffix, type, {n, n}}, {"b" <> suffix, type, {n, n}}]
  end

  defp freeing(result, used) do
    Enum.each(used, &Nx.backend_deallocate/1)
    result
  end
end

[folder] = System.argv()
Bench.EagerLarge.serve(folder)
