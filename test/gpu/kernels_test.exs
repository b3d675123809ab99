defmodule ExBurn.GPU.KernelsTest do
  @moduledoc """
  Kernels on a GPU against `Nx.BinaryBackend` over shapes, types and axes at random, with `EX_BURN_TEST_DEVICE=gpu`.
  No operation here may need the CPU.
  """

  use ExUnit.Case, async: false
  use ExUnitProperties

  import ExBurn.TestDevice

  alias ExBurn.Backend

  @moduletag skip: skip()

  setup do
    ExBurn.configure!(fallback: :raise)
    on_exit(fn -> ExBurn.Fallback.set!(:cpu) end)
  end

  @types [f: 32, s: 32, u: 32, s: 8, u: 8, bf: 16]

  defp shape do
    gen all(rank <- integer(1..3), lengths <- list_of(integer(1..9), length: rank)) do
      List.to_tuple(lengths)
    end
  end

  # Few different numbers, so that many are equal; of floats some are none.
  defp tensor(shape, type) do
    plain = map(integer(-4..4), &if(match?({:u, _}, type), do: abs(&1), else: &1))

    element =
      if match?({kind, _} when kind in [:f, :bf], type),
        do: frequency([{8, plain}, {1, member_of([:nan, :infinity, :neg_infinity, -0.0, 0.5])}]),
        else: plain

    gen all(elements <- list_of(element, length: Tuple.product(shape))) do
      elements |> Nx.tensor(type: type, backend: Nx.BinaryBackend) |> Nx.reshape(shape)
    end
  end

  defp axis(shape), do: integer(0..(tuple_size(shape) - 1))

  defp on_gpu(t), do: Nx.backend_copy(t, {Backend, device: gpu()})

  defp assert_same(fun, operands) do
    result = fun |> apply(Enum.map(operands, &on_gpu/1)) |> Nx.backend_copy(Nx.BinaryBackend)
    expected = apply(fun, operands)
    assert Nx.type(result) == Nx.type(expected)
    assert Nx.to_flat_list(result) == Nx.to_flat_list(expected)
  end

  property "argsort" do
    check all(
            shape <- shape(),
            type <- member_of(@types),
            t <- tensor(shape, type),
            axis <- axis(shape),
            direction <- member_of([:asc, :desc])
          ) do
      assert_same(&Nx.argsort(&1, axis: axis, direction: direction, stable: true), [t])
    end
  end

  property "argmax, argmin" do
    check all(
            shape <- shape(),
            type <- member_of(@types),
            t <- tensor(shape, type),
            axis <- one_of([axis(shape), constant(nil)]),
            tie_break <- member_of([:low, :high]),
            fun <- member_of([&Nx.argmax/2, &Nx.argmin/2])
          ) do
      assert_same(&fun.(&1, axis: axis, tie_break: tie_break), [t])
    end
  end

  property "running sums, products and extrema" do
    check all(
            shape <- shape(),
            type <- member_of(s: 32, u: 32, f: 32),
            t <- tensor(shape, type),
            axis <- axis(shape),
            reverse <- boolean(),
            fun <-
              member_of([
                &Nx.cumulative_sum/2,
                &Nx.cumulative_product/2,
                &Nx.cumulative_max/2,
                &Nx.cumulative_min/2
              ])
          ) do
      t = Nx.select(Nx.is_nan(t), 1, t) |> Nx.as_type(type)
      t = if type == {:f, 32}, do: Nx.clip(t, -2, 2), else: t
      assert_same(&fun.(&1, axis: axis, reverse: reverse), [t])
    end
  end

  property "indexed_add, indexed_put" do
    check all(
            shape <- shape(),
            type <- member_of(s: 32, u: 8, f: 32),
            t <- tensor(shape, type),
            axes <- subset(shape),
            count <- integer(1..12),
            seed <- list_of(integer(0..1000), length: count * length(axes)),
            fun <- member_of([&Nx.indexed_add/4, &Nx.indexed_put/4])
          ) do
      t = Nx.select(Nx.is_nan(t), 1, t) |> Nx.clip(-4, 4) |> Nx.as_type(type)

      indices =
        seed
        |> Enum.chunk_every(length(axes))
        |> Enum.map(
          &Enum.zip_with(&1, axes, fn number, axis -> rem(number, elem(shape, axis)) end)
        )
        |> Nx.tensor(backend: Nx.BinaryBackend)

      rest = for axis <- 0..(tuple_size(shape) - 1), axis not in axes, do: elem(shape, axis)
      updates = Nx.iota(List.to_tuple([count | rest]), type: type, backend: Nx.BinaryBackend)
      assert_same(&fun.(&1, &2, &3, axes: axes), [t, indices, updates])
    end
  end

  defp subset(shape) do
    0..(tuple_size(shape) - 1)
    |> Enum.map(fn axis -> map(boolean(), &{axis, &1}) end)
    |> fixed_list()
    |> map(fn chosen ->
      case for({axis, true} <- chosen, do: axis) do
        [] -> [0]
        axes -> axes
      end
    end)
  end

  property "the gradient of a pool" do
    check all(
            rows <- integer(2..7),
            columns <- integer(2..7),
            t <- tensor({rows, columns}, {:s, 32}),
            window <- tuple({integer(1..2), integer(1..2)}),
            strides <- list_of(integer(1..2), length: 2),
            fun <- member_of([&Nx.window_scatter_max/5, &Nx.window_scatter_min/5])
          ) do
      options = [strides: strides, padding: :valid]
      counts = Nx.window_max(t, window, strides: strides) |> Nx.shape()
      source = Nx.iota(counts, backend: Nx.BinaryBackend)
      assert_same(&fun.(&1, &2, 0, window, options), [t, source])
    end
  end

  # Whole numbers with ones on the diagonal have whole solutions, which are the same however they are summed up.
  property "triangular systems" do
    check all(
            n <- integer(1..6),
            sides <- integer(1..5),
            batch <- member_of([[], [2], [3, 2]]),
            seed <- integer(1..1000),
            lower <- boolean(),
            left_side <- boolean(),
            transform_a <- member_of([:none, :transpose])
          ) do
      whole = fn dims, seed ->
        shape = List.to_tuple(batch ++ dims)
        shape |> Nx.iota(backend: Nx.BinaryBackend) |> Nx.multiply(seed) |> Nx.remainder(5)
      end

      a = whole.([n, n], seed) |> Nx.subtract(2)
      eye = Nx.eye(n, backend: Nx.BinaryBackend)
      a = Nx.select(Nx.broadcast(eye, a), 1, a)
      # What is in the other triangle does not count.
      b = whole.(if(left_side, do: [n, sides], else: [sides, n]), seed + 1)
      options = [lower: lower, left_side: left_side, transform_a: transform_a]
      solve = &Nx.LinAlg.triangular_solve(&1, &2, options)
      assert_same(solve, [Nx.as_type(a, :f32), Nx.as_type(b, :f32)])
    end
  end

  property "Fourier transforms and products of spectra" do
    check all(
            shape <- shape(),
            axis <- axis(shape),
            length <- integer(1..30),
            seed <- integer(1..1000)
          ) do
      t = shape |> Nx.iota(type: :f32, backend: Nx.BinaryBackend) |> Nx.multiply(seed) |> Nx.sin()

      convolve = fn t ->
        spectrum = Nx.fft(t, axis: axis, length: length)
        Nx.ifft(Nx.multiply(spectrum, Nx.conjugate(spectrum)), axis: axis) |> Nx.real()
      end

      got = convolve.(on_gpu(t)) |> Nx.backend_copy(Nx.BinaryBackend)
      # Nx.BinaryBackend's own is wrong along the first of three axes.
      expected = t |> Nx.backend_copy(Backend) |> convolve.() |> Nx.backend_copy(Nx.BinaryBackend)
      assert Nx.shape(got) == Nx.shape(expected)
      assert Nx.all_close(got, expected, atol: 1.0e-4, rtol: 1.0e-5) |> Nx.to_number() == 1
    end
  end

  property "elements at places of 64 bits" do
    check all(
            shape <- shape(),
            type <- member_of(@types),
            t <- tensor(shape, type),
            axis <- axis(shape),
            seed <- list_of(integer(0..1000), length: 4),
            places <- member_of([:s64, :u64])
          ) do
      length = elem(shape, axis)
      numbers = for number <- seed, do: rem(number, length)
      chosen = Nx.tensor(numbers, type: places, backend: Nx.BinaryBackend)
      assert_same(&Nx.take(&1, &2, axis: axis), [t, chosen])
      assert_same(&Nx.gather(&1, Nx.new_axis(&2, 1), axes: [axis]), [t, chosen])

      along = Nx.tensor([hd(numbers)], type: places, backend: Nx.BinaryBackend)
      along = Nx.broadcast(along, put_elem(shape, axis, 3))
      assert_same(&Nx.take_along_axis(&1, &2, axis: axis), [t, along])
    end
  end

  property "sums of updates at places of 64 bits" do
    check all(
            rows <- integer(1..5),
            numbers <- list_of(integer(0..1000), min_length: 1, max_length: 9),
            fun <- member_of([&Nx.indexed_add/3, &Nx.indexed_put/3])
          ) do
      t = Nx.iota({rows, 3}, type: :f32, backend: Nx.BinaryBackend)
      places = for number <- numbers, do: [rem(number, rows)]
      indices = Nx.tensor(places, type: :s64, backend: Nx.BinaryBackend)
      updates = Nx.iota({length(places), 3}, type: :f32, backend: Nx.BinaryBackend)
      assert_same(&fun.(&1, &2, &3), [t, indices, updates])
    end
  end

  test "places of 64 bits are held within a tensor" do
    t = Nx.iota({5}, type: :f32, backend: Nx.BinaryBackend)
    part = Nx.tensor([7.0, 8.0], backend: Nx.BinaryBackend)

    for {start, type} <- [{2 ** 32 + 1, :s64}, {-(2 ** 32) + 1, :s64}, {2 ** 63 + 1, :u64}] do
      start = Nx.tensor(start, type: type, backend: Nx.BinaryBackend)
      assert_same(&Nx.slice(&1, [&2], [2]), [t, start])
      assert_same(&Nx.put_slice(&1, [&2], &3), [t, start, part])
    end

    # The CPU raises here.
    far = Nx.tensor([2 ** 32 + 1, -(2 ** 32) + 1, 3], type: :s64)
    assert on_gpu(t) |> Nx.take(on_gpu(far)) |> Nx.to_flat_list() == [4.0, 0.0, 3.0]
  end

  # Sums of whole numbers are the same in any order.
  property "convolutions with groups of the batch or of features" do
    check all(
            {batch, features} <- member_of([{1, 1}, {2, 1}, {3, 1}, {1, 2}, {1, 3}]),
            examples <- integer(1..2),
            channels <- integer(1..2),
            outputs <- member_of([1, 2, 9]),
            size <- tuple({integer(3..6), integer(3..6)}),
            kernel <- tuple({integer(1..3), integer(1..3)}),
            strides <- list_of(integer(1..2), length: 2),
            padding <- member_of([:valid, :same]),
            kernel_dilation <- integer(1..2),
            turned <- boolean()
          ) do
      {height, width} = size
      {rows, columns} = kernel
      x = whole({batch * examples, features * channels, height, width}, 7)
      k = whole({batch * features * outputs, channels, rows, columns}, 5)

      options = [
        batch_group_size: batch,
        feature_group_size: features,
        strides: strides,
        padding: if(kernel_dilation == 2, do: :same, else: padding),
        kernel_dilation: kernel_dilation
      ]

      # As in the gradient of a kernel, which contracts the batch.
      order = if turned, do: [1, 0, 2, 3], else: [0, 1, 2, 3]
      options = [input_permutation: order, output_permutation: order] ++ options
      assert_same(&Nx.conv(&1, &2, options), [Nx.transpose(x, axes: order), k])
    end
  end

  defp whole(shape, modulus) do
    shape
    |> Nx.iota(type: :f32, backend: Nx.BinaryBackend)
    |> Nx.remainder(modulus)
    |> Nx.subtract(2)
  end

  test "random f32 are the same and need no CPU" do
    key = Nx.Random.key(7) |> Nx.backend_copy(Nx.BinaryBackend)

    draws = [
      &elem(Nx.Random.uniform(&1, shape: {33}), 0),
      &elem(Nx.Random.uniform(&1, -3.0, 5.0, shape: {4, 5}), 0),
      &Nx.Random.split/1
    ]

    for draw <- draws, do: assert_same(draw, [key])
  end
end
