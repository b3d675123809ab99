defmodule ExBurn.Properties.ReductionTest do
  use ExBurn.Property, async: true

  import StreamData

  for name <- [:all, :any] do
    property "#{name}", do: same({Nx, unquote(name)}, reduced(:real, :any))

    # Without axes to reduce, Nx casts, and so drops the imaginary part.
    property "#{name} of complex numbers",
      do: same({Nx, unquote(name)}, reduced(:complex, :any, rank: [1, 2, 3]))
  end

  for name <- [:reduce_max, :reduce_min] do
    property "#{name}", do: same({Nx, unquote(name)}, reduced(:real, :any), :extremum)
  end

  property "sum", do: same({Nx, :sum}, reduced(:any, :moderate), {:sum, 32})
  property "sum of integers", do: same({Nx, :sum}, reduced(:int, :any))
  property "product", do: same({Nx, :product}, reduced(:any, :unit), {:sum, 64})
  property "product of integers", do: same({Nx, :product}, reduced(:int, :any))
  property "mean", do: same({Nx, :mean}, reduced(:any, :moderate), {:sum, 32})

  for name <- [:argmax, :argmin] do
    property "#{name}", do: same({Nx, unquote(name)}, extremes())
  end

  for name <- [:cumulative_sum, :cumulative_product, :cumulative_min, :cumulative_max] do
    property "#{name}" do
      range = if unquote(name) == :cumulative_product, do: :unit, else: :moderate
      kind = if unquote(name) in [:cumulative_min, :cumulative_max], do: :real, else: :any
      same({Nx, unquote(name)}, along(kind, range), {:sum, 32})
    end
  end

  property "cumulative extrema of everything" do
    for name <- [:cumulative_min, :cumulative_max],
        do: same({Nx, name}, along(:real, :any), :extremum)
  end

  for {name, kind, range, fun} <- [
        {"addition", :real, :moderate,
         quote(do: fn t, acc, opts -> Nx.reduce(t, acc, opts, fn a, b -> Nx.add(a, b) end) end)},
        {"a product", :real, :unit,
         quote(
           do: fn t, acc, opts -> Nx.reduce(t, acc, opts, fn a, b -> Nx.multiply(b, a) end) end
         )},
        {"the largest", :real, :moderate,
         quote(do: fn t, acc, opts -> Nx.reduce(t, acc, opts, fn a, b -> Nx.max(a, b) end) end)},
        {"an order", :int, :any,
         quote(
           do: fn t, acc, opts ->
             Nx.reduce(t, acc, opts, fn a, b -> Nx.subtract(a, Nx.multiply(b, 3)) end)
           end
         )}
      ] do
    property "reduce by #{name}" do
      same(
        source(unquote(fun)),
        bind({shape(), types(unquote(kind))}, fn {shape, type} ->
          range = unquote(range)

          map(
            {operand(type, shape, range: range, names: false), operand(type, {}, range: range),
             folds(shape)},
            &Tuple.to_list/1
          )
        end),
        {:sum, 64}
      )
    end
  end

  property "variance, standard_deviation" do
    for name <- [:variance, :standard_deviation] do
      same(
        {Nx, name},
        bind({shape(), types([:int, :wide_float])}, fn {shape, type} ->
          map(
            {operand(type, shape, range: :moderate, names: false), folds(shape)},
            &Tuple.to_list/1
          )
        end),
        {:norm, 64}
      )
    end
  end

  property "median" do
    same(
      {Nx, :median},
      bind({shape(rank: [1, 2, 3]), types([:int, :wide_float]), vector()}, fn {shape, type,
                                                                               vector} ->
        map(
          {operand(type, shape, range: :moderate, vector: vector),
           options(axis: axis(shape), keep_axis: boolean())},
          &Tuple.to_list/1
        )
      end),
      {:ulp, 1}
    )
  end

  property "mode" do
    same(
      {Nx, :mode},
      bind({shape(rank: [1, 2, 3]), types([:int, :wide_float]), vector()}, fn {shape, type,
                                                                               vector} ->
        map(
          {operand(type, shape, range: {-2, 2}, vector: vector),
           options(axis: axis(shape), keep_axis: boolean())},
          &Tuple.to_list/1
        )
      end)
    )
  end

  property "weighted_mean" do
    same(
      {Nx, :weighted_mean},
      bind({shape(), types([:int, :wide_float])}, fn {shape, type} ->
        weights = operand(type, shape, range: :positive, names: false)

        map(
          {operand(type, shape, range: :moderate, names: false), weights,
           options(keep_axes: boolean())},
          &Tuple.to_list/1
        )
      end),
      {:sum, 64}
    )
  end

  property "logsumexp" do
    same(
      {Nx, :logsumexp},
      bind({shape(rank: [1, 2, 3]), types([:int, :wide_float])}, fn {shape, type} ->
        map(
          {operand(type, shape, range: :moderate, names: false), folds(shape)},
          &Tuple.to_list/1
        )
      end),
      {:norm, 64}
    )
  end

  property "covariance" do
    same(
      {Nx, :covariance},
      bind({integer(2..4), integer(1..3), types([:int, :wide_float])}, fn {n, m, type} ->
        map(
          {operand(type, {n, m}, range: :moderate, names: false),
           options(ddof: member_of([0, 1]))},
          &Tuple.to_list/1
        )
      end),
      {:norm, 64}
    )
  end

  property "diff" do
    same(
      {Nx, :diff},
      bind({shape(rank: [1, 2, 3]), types(:real)}, fn {shape, type} ->
        map(
          {operand(type, shape, range: :moderate, names: false),
           options(order: integer(0..2), axis: axis(shape))},
          &Tuple.to_list/1
        )
      end),
      {:norm, 16}
    )
  end

  # Of numbers whose differences do not wrap: Nx takes -1 and 1 of two bits for close.
  property "all_close" do
    same({Nx, :all_close}, two([:int, :wide_float], [:int, :wide_float], range: {0, 1}))
  end

  # Numbers with ties and without. Nx loses its way with an axis to keep of a vectorized tensor when no axis is named.
  defp extremes do
    bind({shape(), types(:real), vector(), member_of([{-2, 2}, :any])}, fn {shape, type, vector,
                                                                            range} ->
      axis =
        if shape == {}, do: constant([]), else: options(axis: axis(shape), keep_axis: boolean())

      rest = options(tie_break: member_of([:low, :high]), type: types(:int))

      map({operand(type, shape, vector: vector, range: range), axis, rest}, fn {t, axis, rest} ->
        [t, if(vector != [] and axis[:axis] == nil, do: rest, else: axis ++ rest)]
      end)
    end)
  end

  defp reduced(kind, range, opts \\ []) do
    bind({shape(opts), types(kind), vector()}, fn {shape, type, vector} ->
      map({operand(type, shape, vector: vector, range: range), folds(shape)}, &Tuple.to_list/1)
    end)
  end

  defp folds(shape), do: options(axes: axes(shape, 1), keep_axes: boolean())

  defp along(kind, range) do
    bind({shape(rank: [1, 2, 3]), types(kind), vector()}, fn {shape, type, vector} ->
      map(
        {operand(type, shape, vector: vector, range: range),
         options(axis: axis(shape), reverse: boolean())},
        &Tuple.to_list/1
      )
    end)
  end
end
