defmodule ExBurn.LinAlgTest do
  use ExBurn.Case, async: true

  alias Nx.LinAlg

  setup do
    Nx.default_backend(Nx.BinaryBackend)
    :ok
  end

  defp random(shape, type \\ :f64, seed \\ 7) do
    {t, _key} = Nx.Random.normal(Nx.Random.key(seed), shape: shape, type: type)
    t
  end

  defp symmetric(shape) do
    t = random(shape)
    Nx.add(t, LinAlg.adjoint(t))
  end

  defp positive_definite(shape) do
    t = random(shape)
    n = Nx.axis_size(t, -1)
    axes = Enum.to_list(0..(Nx.rank(t) - 3)//1)
    Nx.add(Nx.dot(t, [-1], axes, t, [-1], axes), Nx.multiply(n, Nx.eye(n)))
  end

  @square [{1, 1}, {2, 2}, {3, 3}, {7, 7}, {2, 4, 4}, {2, 1, 3, 3}]
  @oblong [{4, 2}, {2, 4}, {3, 6, 4}, {2, 2, 3, 5}]

  test "LU, solutions and determinants are those of Nx's definitions" do
    for shape <- @square do
      assert_same(&LinAlg.lu/1, [random(shape)], 1.0e-9)
      assert_same(&LinAlg.determinant/1, [random(shape)], 1.0e-9)
      assert_same(&LinAlg.solve/2, [positive_definite(shape), random(shape, :f64, 8)], 1.0e-9)
      vectors = random(Tuple.delete_at(shape, tuple_size(shape) - 1))
      assert_same(&LinAlg.solve/2, [positive_definite(shape), vectors], 1.0e-9)
      assert_same(&LinAlg.invert/1, [positive_definite(shape)], 1.0e-9)
    end
  end

  test "LU factors of singular matrices, whose pivots are 0" do
    for n <- [3, 33, 70], type <- [:f32, :f64, :c64] do
      zeros = Nx.broadcast(Nx.tensor(0, type: type), {n, n})
      first = Nx.put_slice(random({n, n}, :f64), [0, 0], Nx.broadcast(0.0, {n, 1}))

      for t <- [zeros, Nx.as_type(first, type)] do
        t = Nx.backend_copy(t, ExBurn.Backend)
        {p, l, u} = LinAlg.lu(t)
        off = Nx.subtract(p |> Nx.dot(l) |> Nx.dot(u), t) |> Nx.abs() |> Nx.reduce_max()
        assert Nx.to_number(off) < 1.0e-5
        assert Nx.to_number(Nx.reduce_max(Nx.abs(l))) < 1.5
        assert on_binary(LinAlg.determinant(t)) == on_binary(Nx.tensor(0, type: type))
        assert_raise ArgumentError, fn -> LinAlg.solve(t, t) end
      end
    end
  end

  test "Cholesky factors are those of Nx's definition" do
    for shape <- @square,
        do: assert_same(&LinAlg.cholesky/1, [positive_definite(shape)], 1.0e-8)
  end

  test "QR factors have the signs of Nx's definition" do
    for shape <- @square ++ @oblong, mode <- [:reduced, :complete] do
      assert_same(&LinAlg.qr(&1, mode: mode), [random(shape)], 1.0e-9)
    end
  end

  test "QR factors of triangular matrices without a threshold" do
    for type <- [:f32, :f64], shape <- [{3, 3}, {5, 2}, {40, 7}] do
      t = Nx.add(Nx.triu(Nx.iota(shape, type: type)), Nx.eye(shape, type: type))
      {q, r} = LinAlg.qr(Nx.backend_copy(t, ExBurn.Backend), eps: 0.0)
      assert_close(Nx.dot(q, r), t)
      assert_close(Nx.dot(LinAlg.adjoint(q), q), Nx.eye(Nx.axis_size(q, 1), type: type))
    end
  end

  test "eigenvalues and eigenvectors are those of Nx's definition, but for the signs of vectors" do
    for shape <- @square do
      assert_same(
        fn t ->
          {values, vectors} = LinAlg.eigh(t, eps: 1.0e-9)
          {values, Nx.abs(vectors)}
        end,
        [symmetric(shape)],
        1.0e-5
      )
    end
  end

  @tag skip: ExBurn.NxSuite.newer?() && "they are the digits of Nx 0.13.1"
  test "small matrices of f32 have every digit of Nx's definition" do
    for shape <- [{2, 2}, {4, 4}, {2, 5, 5}],
        fun <- [:cholesky, :determinant, :lu, :qr, :eigh, :svd],
        seed <- 1..5 do
      t = random(shape, :f32, seed)
      t = Nx.add(Nx.add(t, LinAlg.adjoint(t)), Nx.multiply(8, Nx.eye(Nx.axis_size(t, -1))))
      want = LinAlg |> apply(fun, [t]) |> upper(fun)
      got = LinAlg |> apply(fun, [Nx.backend_copy(t, ExBurn.Backend)]) |> upper(fun)
      assert on_binary(got) == on_binary(want), "#{fun} of #{inspect(t)}"
    end
  end

  @tag skip: ExBurn.NxSuite.newer?() && "they are the digits of Nx 0.13.1"
  test "singular vectors of rank-deficient matrices have every digit of Nx's definition" do
    t = Nx.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0], [10.0, 11.0, 12.0]])
    got = LinAlg.svd(Nx.backend_copy(t, ExBurn.Backend))
    assert on_binary(got) == on_binary(LinAlg.svd(t))
  end

  test "the inverse of rank-deficient matrices has no noise" do
    for type <- [:f32, :f64], {m, n} <- [{3, 4}, {4, 3}, {9, 7}], seed <- 1..50 do
      a = Nx.dot(random({m, 2}, type, seed), random({2, n}, type, seed + 1))
      a = Nx.backend_copy(a, ExBurn.Backend)
      inverse = LinAlg.pinv(a)
      close? = Nx.all_close(Nx.dot(Nx.dot(a, inverse), a), a, atol: 1.0e-3)
      assert Nx.to_number(close?) == 1, "#{type}, seed #{seed}"
      assert Nx.to_number(Nx.reduce_max(Nx.abs(inverse))) < 1.0e4
    end
  end

  # Nx leaves what rounding has left below the diagonal.
  defp upper({q, r}, :qr), do: {q, Nx.triu(r)}
  defp upper(result, _fun), do: result

  test "singular values are those of Nx's definition, and the factors make the matrix" do
    for shape <- @square ++ @oblong, full <- [true, false] do
      t = random(shape)

      assert_same(
        fn t ->
          {u, s, vt} = LinAlg.svd(t, full_matrices?: full)
          k = Nx.axis_size(s, -1)
          u = Nx.slice_along_axis(u, 0, k, axis: -1)
          vt = Nx.slice_along_axis(vt, 0, k, axis: -2)
          axes = Enum.to_list(0..(Nx.rank(t) - 3)//1)
          {s, Nx.dot(Nx.multiply(u, Nx.new_axis(s, -2)), [-1], axes, vt, [-2], axes)}
        end,
        [t],
        1.0e-4
      )
    end
  end

  test "triangular systems from both sides, with either triangle and transposed" do
    for lower <- [true, false],
        left_side <- [true, false],
        transform_a <- [:none, :transpose, :conjugate],
        {a, b} <- [
          {{3, 3}, {3}},
          {{3, 3}, {3, 3}},
          {{2, 4, 4}, {2, 4}},
          {{2, 1, 2, 2}, {2, 1, 2, 2}}
        ] do
      opts = [lower: lower, left_side: left_side, transform_a: transform_a]
      args = [positive_definite(a), random(b)]
      assert_same(&LinAlg.triangular_solve(&1, &2, opts), args, 1.0e-9)
    end
  end

  test "integers and small floats" do
    for type <- [:u8, :s32, :s64, :bf16, :f16, :f32] do
      t = Nx.tensor([[4, 2], [2, 5]], type: type)
      tolerance = if type in [:bf16, :f16], do: 1.0e-2, else: 1.0e-6

      for fun <- [:cholesky, :determinant, :lu, :qr, :svd, :eigh] do
        {result, template} =
          {apply(LinAlg, fun, [Nx.backend_copy(t, ExBurn.Backend)]),
           apply(LinAlg, fun, [Nx.as_type(t, :f64)])}

        types =
          if fun == :lu,
            do: [t.type, Nx.Type.to_floating(t.type)],
            else: [Nx.Type.to_floating(t.type)]

        got = on_binary(result)
        assert Enum.all?(got, &(&1.type in types))

        assert_close(
          List.to_tuple(Enum.map(got, &Nx.as_type(&1, :f64))),
          List.to_tuple(Enum.map(on_binary(template), &Nx.as_type(&1, :f64))),
          tolerance
        )
      end
    end
  end

  test "complex matrices" do
    t = Nx.complex(random({2, 3, 3}), random({2, 3, 3}, :f64, 8))
    hermitian = Nx.add(t, LinAlg.adjoint(t))

    definite =
      Nx.add(Nx.dot(t, [2], [0], LinAlg.adjoint(t), [1], [0]), Nx.eye(3))

    assert_complex(&LinAlg.qr/1, [t])
    assert_complex(&LinAlg.lu/1, [t])
    assert_complex(&LinAlg.determinant/1, [t])
    assert_complex(&LinAlg.solve/2, [t, hermitian])
    assert_complex(&LinAlg.cholesky/1, [definite])

    for opts <- [[], [transform_a: :transpose], [transform_a: :conjugate, left_side: false]],
        do: assert_complex(&LinAlg.triangular_solve(&1, &2, opts), [definite, t])

    {values, vectors} = LinAlg.eigh(Nx.backend_copy(hermitian, ExBurn.Backend))
    scaled = Nx.multiply(vectors, Nx.new_axis(values, 1))
    product = Nx.dot(scaled, [2], [0], LinAlg.adjoint(vectors), [1], [0])
    assert_parts(product, hermitian)
  end

  # assert_same compares real numbers.
  defp assert_complex(fun, args),
    do: assert_same(&parts(apply(fun, Tuple.to_list(&1))), [List.to_tuple(args)])

  defp parts(container) do
    [container]
    |> Nx.Defn.Composite.flatten_list()
    |> Enum.flat_map(&[Nx.real(&1), Nx.imag(&1)])
    |> List.to_tuple()
  end

  defp assert_parts(got, want), do: assert_close(parts(got), parts(want), 1.0e-9)

  test "a singular system raises as Nx does" do
    message = "can't solve for singular matrix"
    zeros = Nx.broadcast(Nx.tensor(0.0, backend: ExBurn.Backend), {2, 2})
    b = Nx.tensor([1.0, 2.0])
    assert_raise ArgumentError, message, fn -> LinAlg.solve(zeros, b) end
    assert_raise ArgumentError, message, fn -> LinAlg.triangular_solve(zeros, b) end

    assert_raise ArgumentError, message, fn ->
      Nx.Defn.jit_apply(&LinAlg.solve/2, [zeros, b], compiler: ExBurn.Defn.Compiler)
    end
  end

  test "decompositions inside of loops and branches, and of vectorized tensors" do
    assert_same(&__MODULE__.iterated/1, [positive_definite({3, 3})], 1.0e-7)
    vectorized = fn t -> t |> Nx.vectorize(:x) |> LinAlg.cholesky() |> Nx.devectorize() end
    assert_same(vectorized, [positive_definite({3, 2, 2})], 1.0e-8)
  end

  import Nx.Defn

  defn iterated(t) do
    {t, _} =
      while {t, i = 0}, i < 3 do
        {q, r} = Nx.LinAlg.qr(t)
        {Nx.dot(r, q), i + 1}
      end

    if Nx.LinAlg.determinant(t) > 0, do: Nx.LinAlg.cholesky(t), else: t
  end

  test "gradients are those of Nx" do
    a = positive_definite({3, 3})

    for fun <- [
          &LinAlg.determinant/1,
          &Nx.sum(LinAlg.cholesky(&1)),
          &Nx.sum(LinAlg.invert(&1)),
          &Nx.sum(LinAlg.solve(&1, Nx.iota({3}))),
          &total(LinAlg.qr(&1)),
          &total(Tuple.delete_at(LinAlg.lu(&1), 0))
        ] do
      assert_same(&Nx.Defn.grad(&1, fun), [a], 1.0e-6)
    end
  end

  defp total({a, b}), do: Nx.add(Nx.sum(a), Nx.sum(b))
end
