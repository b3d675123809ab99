defmodule ExBurn.FftTest do
  use ExBurn.Case, async: true

  setup do
    Nx.default_backend(Nx.BinaryBackend)
    :ok
  end

  defp random(shape, type \\ :f64, seed \\ 3) do
    {t, _key} = Nx.Random.normal(Nx.Random.key(seed), shape: shape, type: type)
    t
  end

  defp complex(shape), do: Nx.complex(random(shape), random(shape, :f64, 4))

  # assert_same compares real numbers.
  defp assert_parts(fun, args) do
    parts = fn args ->
      result = apply(fun, Tuple.to_list(args))
      {Nx.real(result), Nx.imag(result)}
    end

    assert_same(parts, [List.to_tuple(args)], 1.0e-6)
  end

  # Nx.BinaryBackend moves an axis to the end and back rightly when it is one of the last two, and makes nothing of a
  # single real number.
  test "transforms of any length along any axis" do
    for shape <- [{4}, {6}, {7}, {3, 5}, {2, 3, 5}],
        axis <- [-1, -2],
        -axis <= tuple_size(shape) do
      for fun <- [&Nx.fft/2, &Nx.ifft/2] do
        assert_parts(&fun.(&1, axis: axis), [complex(shape)])
        assert_parts(&fun.(&1, axis: axis, length: 3), [random(shape)])
        assert_parts(&fun.(&1, axis: axis, length: :power_of_two), [random(shape)])
      end
    end
  end

  test "transforms of two axes" do
    for {shape, axes} <- [{{3, 4}, [0, 1]}, {{2, 3, 4}, [-2, -1]}] do
      for fun <- [&Nx.fft2/2, &Nx.ifft2/2] do
        assert_parts(&fun.(&1, axes: axes), [complex(shape)])
        assert_parts(&fun.(&1, axes: axes, lengths: [2, 5]), [random(shape)])
      end
    end
  end

  test "an axis in front is transformed as if it were the last" do
    first = fn t -> Nx.fft(t, axis: 0) end

    last = fn t ->
      t |> Nx.transpose(axes: [1, 2, 0]) |> Nx.fft() |> Nx.transpose(axes: [2, 0, 1])
    end

    t = complex({2, 3, 4})
    [got, want] = [first.(Nx.backend_copy(t, ExBurn.Backend)), last.(t)]
    assert_close({Nx.real(got), Nx.imag(got)}, {Nx.real(want), Nx.imag(want)})
  end

  test "transforms of real numbers" do
    for shape <- [{5}, {8}, {2, 6}], length <- [nil, 4, 7] do
      assert_parts(&Nx.rfft(&1, length: length), [random(shape)])
      assert_parts(&Nx.rfft(&1, length: length, axis: 0), [random(shape)])
    end

    for shape <- [{5}, {4}, {2, 6}],
        length <- [nil, 4, 7, 15],
        do: assert_same(&Nx.irfft(&1, length: length), [complex(shape)])
  end

  test "numbers of every type" do
    for type <- [:u8, :s16, :s64, :bf16, :f16, :f32, :f64] do
      t = Nx.tensor([1, 2, 3, 4, 5], type: type)
      assert_parts(&Nx.fft/1, [t])
      assert_parts(&Nx.rfft/1, [t])
    end
  end

  test "vectorized tensors" do
    assert_parts(&(&1 |> Nx.vectorize(:x) |> Nx.fft() |> Nx.devectorize()), [complex({3, 4})])
  end

  test "gradients are those of Nx" do
    loss = fn t -> t |> Nx.fft() |> Nx.abs() |> Nx.sum() end
    assert_parts(&Nx.Defn.grad(&1, loss), [random({5})])
  end
end
