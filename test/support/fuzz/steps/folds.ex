defmodule ExBurn.Fuzz.Steps.Folds do
  @moduledoc """
  Steps along axes: folds, windows, scans and order.
  """

  import ExBurn.Fuzz.Builder

  alias ExBurn.Property.Operand

  @sums ~w(sum mean product variance standard_deviation logsumexp)a
  @extremes ~w(reduce_max reduce_min)a
  @truths ~w(all any)a
  @windows ~w(window_sum window_mean window_product window_max window_min)a
  @scans ~w(cumulative_sum cumulative_product cumulative_max cumulative_min)a

  @doc """
  Makers of steps and their weights.
  """
  def makers do
    [
      {5, &fold(&1, @sums, pick(&1))},
      {3, &fold(&1, @extremes, pick(&1, fn t -> real?(t) end))},
      {2, &fold(&1, @truths, pick(&1, fn t -> real?(t) end))},
      {4, &spread/1},
      {3, &extremum/1},
      {3, &window/1},
      {2, &scatter/1},
      {3, &order/1},
      {3, &scan/1},
      {2, &top/1}
    ]
  end

  defp fold(b, names, ref) do
    options = if chance(4), do: [], else: fold_options(value(b, ref))
    {_, b} = emit(b, one_of(names), [ref, options])
    b
  end

  defp fold_options(t),
    do: [axes: some(axes(t), min(1, rank(t))), keep_axes: chance(2)]

  # A fold, and the elementwise use of its result with what was folded.
  defp spread(b) do
    ref = pick(b, &(rank(&1) > 0 and real?(&1)))
    axes = some(axes(value(b, ref)), 1)

    {folded, b} =
      emit(b, one_of([:sum, :mean, :reduce_max, :reduce_min]), [
        ref,
        [axes: axes, keep_axes: true]
      ])

    {_, b} = emit(b, one_of([:subtract, :multiply, :divide, :equal, :add, :less]), [ref, folded])
    b
  end

  defp extremum(b) do
    ref = pick(b, &real?/1)
    axes = axes(value(b, ref))
    axis = if axes == [] or chance(4), do: [], else: [axis: one_of(axes), keep_axis: chance(2)]

    {_, b} =
      emit(b, one_of([:argmax, :argmin]), [ref, axis ++ [tie_break: one_of([:low, :high])]])

    b
  end

  defp window(b) do
    ref = pick(b, &(rank(&1) in 1..4 and real?(&1)))
    t = value(b, ref)
    {_, b} = emit(b, one_of(@windows), [ref, dimensions(t), window_options(t) ++ dilations(t)])
    b
  end

  @doc """
  Dimensions of a window over a tensor.
  """
  def dimensions(t),
    do: t.shape |> Tuple.to_list() |> Enum.map(&one_of(1..min(&1, 3))) |> List.to_tuple()

  @doc """
  Strides and padding of a window.
  """
  def window_options(t) do
    padding = one_of([:valid, :same, Enum.map(axes(t), fn _ -> {below(2), below(2)} end)])
    [strides: Enum.map(axes(t), fn _ -> 1 + below(2) end), padding: padding]
  end

  defp dilations(t) do
    if chance(2), do: [], else: [window_dilations: Enum.map(axes(t), fn _ -> 1 + below(2) end)]
  end

  # The source has the shape of the windows' results. Nx.BinaryBackend answers in the type of the start, which is
  # therefore the same.
  defp scatter(b) do
    ref = pick(b, &(rank(&1) in 1..3 and real?(&1)))
    t = value(b, ref)
    dimensions = dimensions(t)
    options = [strides: Tuple.to_list(dimensions), padding: :valid]
    {source, b} = emit(b, :window_max, [ref, dimensions, options])

    {zero, b} =
      input(
        b,
        %Operand{type: t.type, shape: {}, numbers: [if(float?(t), do: 0.0, else: 0)]},
        :captured
      )

    {_, b} =
      emit(b, one_of([:window_scatter_max, :window_scatter_min]), [
        ref,
        source,
        zero,
        dimensions,
        options
      ])

    b
  end

  defp order(b) do
    ref = pick(b, &(rank(&1) > 0 and real?(&1)))
    axis = one_of(axes(value(b, ref)))

    {_, b} =
      emit(b, one_of([:sort, :argsort]), [
        ref,
        [axis: axis, direction: one_of([:asc, :desc]), stable: true]
      ])

    b
  end

  defp scan(b) do
    ref = pick(b, &(rank(&1) > 0 and real?(&1)))
    axis = one_of(axes(value(b, ref)))
    {_, b} = emit(b, one_of(@scans), [ref, [axis: axis, reverse: chance(2)]])
    b
  end

  defp top(b) do
    ref = pick(b, &(rank(&1) > 0 and real?(&1)))
    t = value(b, ref)
    {_, b} = emit_many(b, :top_k, [ref, [k: one_of(1..elem(t.shape, rank(t) - 1))]], 2)
    b
  end
end
