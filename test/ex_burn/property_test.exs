defmodule ExBurn.PropertyTest do
  # Windows, orders, indices and bounds of random tensors, against Nx.BinaryBackend.
  use ExBurn.Case, async: true
  use ExUnitProperties

  import ExBurn.Generators

  @runs 500

  # Results are equal, floats to rounding; a call that raises ArgumentError raises the same.
  defp agree(fun, args) do
    reference = answer(fn -> Nx.with_default_backend(Nx.BinaryBackend, fn -> fun.(args) end) end)
    ours = Enum.map(args, &Nx.backend_copy(&1, ExBurn.Backend))
    result = answer(fn -> Nx.with_default_backend(ExBurn.Backend, fn -> fun.(ours) end) end)

    case reference do
      {:ok, want} ->
        assert {:ok, got} = result
        assert_close(got, want, 1.0e-6)

      {:raised, message} ->
        assert result == {:raised, message}
    end
  end

  defp answer(fun) do
    {:ok, fun.()}
  rescue
    error in ArgumentError -> {:raised, Exception.message(error)}
  end

  defp windows(shape) do
    axis = fn length ->
      gen all size <- integer(1..min(length, 3)),
              dilation <- integer(1..2),
              stride <- integer(1..2),
              low <- integer(-1..2),
              high <- integer(-1..2) do
        # Nx declares a result for windows that do not fit, and BinaryBackend fails.
        high = max(high, (size - 1) * dilation + 1 - length - low)
        {size, dilation, stride, {low, high}}
      end
    end

    gen all axes <- shape |> Tuple.to_list() |> Enum.map(axis) |> fixed_list(),
            padded? <- boolean() do
      padding = if padded?, do: Enum.map(axes, &elem(&1, 3)), else: :same

      opts = [
        window_dilations: Enum.map(axes, &elem(&1, 1)),
        strides: Enum.map(axes, &elem(&1, 2))
      ]

      {axes |> Enum.map(&elem(&1, 0)) |> List.to_tuple(), [padding: padding] ++ opts}
    end
  end

  property "folds over windows" do
    check all shape <- shape(),
              type <- type(),
              t <- one_of([tensor(shape, type), small_tensor(shape, type)]),
              {dimensions, opts} <- windows(shape),
              name <- member_of(~w(window_sum window_product window_max window_min window_mean)a),
              max_runs: @runs do
      agree(fn [t] -> apply(Nx, name, [t, dimensions, opts]) end, [t])
    end
  end

  property "folds over windows by functions" do
    check all shape <- shape(),
              type <- type(),
              t <- small_tensor(shape, type),
              {dimensions, opts} <- windows(shape),
              max_runs: @runs do
      fun = fn x, acc -> Nx.subtract(x, Nx.max(acc, 0)) |> Nx.as_type(type) end

      agree(fn [t] -> Nx.window_reduce(t, Nx.tensor(1, type: type), dimensions, opts, fun) end, [
        t
      ])
    end
  end

  property "reductions by functions" do
    check all shape <- shape(),
              type <- type(),
              t <- small_tensor(shape, type),
              axes <- axes(shape),
              keep <- boolean(),
              max_runs: @runs do
      fun = fn x, acc -> Nx.subtract(x, Nx.max(acc, 0)) |> Nx.as_type(type) end
      opts = [axes: axes, keep_axes: keep]
      agree(fn [t] -> Nx.reduce(t, Nx.tensor(1, type: type), opts, fun) end, [t])
    end
  end

  property "sums at the extrema of windows" do
    check all shape <- shape(),
              type <- type(),
              t <- small_tensor(shape, type),
              {dimensions, opts} <- windows(shape),
              opts = Keyword.delete(opts, :window_dilations),
              name <- member_of([:window_scatter_max, :window_scatter_min]),
              sources = t |> Nx.window_max(dimensions, opts) |> Nx.shape(),
              source <- small_tensor(sources, type),
              max_runs: @runs do
      init = Nx.tensor(1, type: type)

      agree(fn [t, source] -> apply(Nx, name, [t, source, init, dimensions, opts]) end, [
        t,
        source
      ])
    end
  end

  defp axes(shape) do
    axes = Enum.to_list(0..(tuple_size(shape) - 1))
    axes |> Enum.map(&constant/1) |> one_of() |> list_of(min_length: 1) |> map(&Enum.uniq/1)
  end

  property "orders, extrema and running folds, with NaN and ties" do
    check all shape <- shape(),
              type <- type(),
              t <- tensor(shape, type),
              axis <- integer(0..(tuple_size(shape) - 1)),
              flag <- boolean(),
              max_runs: @runs do
      tie = if flag, do: :low, else: :high
      direction = if flag, do: :asc, else: :desc

      for fun <- [
            &Nx.argmax(&1, axis: axis, tie_break: tie),
            &Nx.argmin(&1, axis: axis, tie_break: tie, keep_axis: true),
            &Nx.argmax(&1, tie_break: tie),
            &Nx.sort(&1, axis: axis, direction: direction),
            &Nx.argsort(&1, axis: axis, direction: direction, stable: true),
            &Nx.top_k(&1, k: elem(shape, tuple_size(shape) - 1)),
            &Nx.reduce_max(&1, axes: [axis]),
            &Nx.reduce_min(&1, axes: [axis], keep_axes: true),
            &Nx.cumulative_sum(&1, axis: axis, reverse: flag),
            &Nx.cumulative_product(&1, axis: axis, reverse: flag),
            &Nx.cumulative_max(&1, axis: axis, reverse: flag),
            &Nx.cumulative_min(&1, axis: axis, reverse: flag)
          ] do
        agree(fn [t] -> fun.(t) end, [t])
      end
    end
  end

  property "reading and writing at indices, some of them out of bounds" do
    check all shape <- shape(),
              {type, other} <- {type(), type()},
              t <- small_tensor(shape, type),
              axis <- integer(0..(tuple_size(shape) - 1)),
              length = elem(shape, axis),
              beyond <- frequency([{4, constant(0)}, {1, integer(1..2)}]),
              places <- indices({4, 1}, length + beyond),
              updates <- small_tensor(put_elem(shape, axis, 4), other),
              max_runs: @runs do
      along = places |> Nx.reshape({4}) |> Nx.broadcast(put_elem(shape, axis, 4), axes: [axis])

      front =
        Nx.transpose(updates, axes: [axis | Enum.to_list(0..(tuple_size(shape) - 1)) -- [axis]])

      agree(fn [t, i] -> Nx.take(t, Nx.squeeze(i, axes: [1]), axis: axis) end, [t, places])
      agree(fn [t, i] -> Nx.take_along_axis(t, i, axis: axis) end, [t, along])
      agree(fn [t, i] -> Nx.gather(t, i, axes: [axis]) end, [t, places])
      agree(fn [t, i, u] -> Nx.indexed_add(t, i, u, axes: [axis]) end, [t, places, front])
      agree(fn [t, i, u] -> Nx.indexed_put(t, i, u, axes: [axis]) end, [t, places, front])
    end
  end

  property "slices whose starts are moved into range" do
    check all shape <- shape(),
              {type, other} <- {type(), type()},
              t <- tensor(shape, type),
              part_shape <- shape |> Tuple.to_list() |> Enum.map(&integer(1..&1)) |> fixed_list(),
              part <- tensor(List.to_tuple(part_shape), other),
              starts <- list_of(integer(-3..6), length: tuple_size(shape)),
              stride <- integer(1..2),
              max_runs: @runs do
      starts = Enum.map(starts, &Nx.tensor/1)

      agree(
        fn [t | starts] ->
          Nx.slice(t, starts, part_shape, strides: List.duplicate(stride, length(starts)))
        end,
        [t | starts]
      )

      agree(fn [t, part | starts] -> Nx.put_slice(t, starts, part) end, [t, part | starts])
    end
  end

  property "choices and comparisons of any two types" do
    check all shape <- shape(),
              {left, right} <- {type(), type()},
              a <- tensor(shape, left),
              b <- tensor(shape, right),
              low <- scalar(right),
              high <- scalar(left),
              max_runs: @runs do
      for name <-
            ~w(equal not_equal greater greater_equal less less_equal logical_and logical_or logical_xor max min)a do
        agree(fn [a, b] -> apply(Nx, name, [a, b]) end, [a, b])
      end

      agree(fn [a, b] -> Nx.select(b, a, b) end, [a, b])
      agree(fn [a, b, choice] -> Nx.select(choice, a, b) end, [a, b, low])

      # BinaryBackend answers a bound for NaN, which stays NaN here as it does in XLA.
      ordered = for t <- [a, low, high], do: Nx.select(Nx.is_nan(t), 0, t)
      agree(fn [a, low, high] -> Nx.clip(a, low, high) end, ordered)
    end
  end
end
