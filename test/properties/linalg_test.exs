defmodule ExBurn.Properties.LinAlgTest do
  # Decompositions are compared by the identities that define them, since their factors are not unique.
  use ExBurn.Property, async: true

  import StreamData

  @itself quote(do: fn a -> Nx.multiply(a, 1.0) end)

  property "cholesky" do
    fun =
      source(fn a -> a |> Nx.LinAlg.cholesky() |> then(&Nx.dot(&1, Nx.LinAlg.adjoint(&1))) end)

    same_as(fun, source(unquote(@itself)), definite(), {:norm, 64})
  end

  # What is left of a column counts as nothing up to Nx's default `:eps`.
  property "qr" do
    fun = source(fn a -> a |> Nx.LinAlg.qr() |> then(fn {q, r} -> Nx.dot(q, r) end) end)
    same_as(fun, source(unquote(@itself)), tall(), {:near, 1.0e-3})
  end

  property "lu" do
    fun =
      source(fn a ->
        a |> Nx.LinAlg.lu() |> then(fn {p, l, u} -> p |> Nx.dot(l) |> Nx.dot(u) end)
      end)

    same_as(fun, source(unquote(@itself)), square(), {:norm, 64})
  end

  # As near as Nx comes in its default number of steps.
  property "svd" do
    fun =
      source(fn a ->
        a
        |> Nx.LinAlg.svd(full_matrices?: false)
        |> then(fn {u, s, vt} -> u |> Nx.multiply(s) |> Nx.dot(vt) end)
      end)

    same_as(fun, source(unquote(@itself)), matrix([:int, :wide_float]), {:near, 1.0e-3})
  end

  property "eigh" do
    fun =
      source(fn a ->
        a
        |> Nx.LinAlg.eigh()
        |> then(fn {w, v} -> v |> Nx.multiply(w) |> Nx.dot(Nx.LinAlg.adjoint(v)) end)
      end)

    # As near as Nx comes with its default `:eps`.
    same_as(fun, source(unquote(@itself)), symmetric(), {:near, 1.0e-3})
  end

  property "solve" do
    fun = source(fn a, b -> a |> Nx.LinAlg.solve(b) |> then(&Nx.dot(a, &1)) end)

    same_as(
      fun,
      source(fn a, b -> b |> Nx.multiply(1.0) |> Nx.add(Nx.multiply(Nx.sum(a), 0)) end),
      with_right_side(),
      {:norm, 256}
    )
  end

  property "invert" do
    fun = source(fn a -> a |> Nx.LinAlg.invert() |> Nx.dot(a) |> Nx.dot(a) end)
    same_as(fun, source(unquote(@itself)), definite([:wide_float]), {:norm, 512})
  end

  # Through the singular values, as near as Nx comes.
  property "pinv" do
    fun = source(fn a -> a |> Nx.dot(Nx.LinAlg.pinv(a)) |> Nx.dot(a) end)
    same_as(fun, source(unquote(@itself)), definite([:wide_float]), {:near, 1.0e-3})
  end

  property "least_squares" do
    fun = source(fn a, b -> Nx.dot(a, Nx.LinAlg.least_squares(a, b)) end)
    same_as(fun, source(fn _a, b -> Nx.multiply(b, 1.0) end), with_vector(), {:near, 1.0e-3})
  end

  # Of matrices without a singular value near 0, and of the same with a row of zeros below.
  property "matrix_rank" do
    fun =
      source(fn a ->
        lower = Nx.pad(a, 0, [{0, 1, 0}, {0, 1, 0}])
        Nx.stack([Nx.LinAlg.matrix_rank(a), Nx.LinAlg.matrix_rank(lower)]) |> Nx.as_type(:s64)
      end)

    size = source(fn a -> Nx.broadcast(Nx.tensor(Nx.axis_size(a, 0), type: :s64), {2}) end)
    same_as(fun, size, definite([:wide_float]), :exact)
  end

  property "determinant", do: same({Nx.LinAlg, :determinant}, definite(), {:norm, 256})
  property "norm", do: same({Nx.LinAlg, :norm}, norms(), {:norm, 256})
  property "adjoint", do: same({Nx.LinAlg, :adjoint}, matrix(:any))

  property "matrix_power" do
    same(
      {Nx.LinAlg, :matrix_power},
      bind(square([:int, :wide_float]), fn [a] -> map(integer(0..4), &[a, &1]) end),
      {:norm, 256}
    )
  end

  property "triangular_solve" do
    same(
      {Nx.LinAlg, :triangular_solve},
      bind({integer(1..4), integer(1..3), types([:wide_float, :complex])}, fn {n, m, type} ->
        options(
          lower: boolean(),
          left_side: boolean(),
          transform_a: member_of([:none, :transpose])
        )
        |> bind(fn opts ->
          side = if opts[:left_side] == false, do: {m, n}, else: {n, m}

          map({dominant(type, n), operand(type, side, range: :moderate, names: false)}, fn {a, b} ->
            [a, b, opts]
          end)
        end)
      end),
      {:norm, 256}
    )
  end

  defp matrix(kind) do
    bind({integer(1..4), integer(1..4), types(kind)}, fn {n, m, type} ->
      map(operand(type, {n, m}, range: :moderate, names: false), &[&1])
    end)
  end

  # As many rows as columns, or more.
  defp tall do
    bind({integer(1..4), integer(0..2), types([:int, :wide_float, :complex])}, fn {n, more, type} ->
      map(operand(type, {n + more, n}, range: :moderate, names: false), &[&1])
    end)
  end

  defp square(kind \\ [:int, :wide_float, :complex], opts \\ []) do
    bind({integer(1..4), types(kind)}, fn {n, type} ->
      map(operand(type, {n, n}, [range: :moderate, names: false] ++ opts), &[&1])
    end)
  end

  # Symmetric, with a diagonal larger than the rest: positive definite.
  defp definite(kind \\ [:wide_float, :complex]) do
    map(square(kind, plain: true), fn [a] -> [mirrored(a, &(Complex.abs(&1) + 32.0))] end)
  end

  defp symmetric, do: map(square([:wide_float], plain: true), fn [a] -> [mirrored(a, & &1)] end)

  # The lower half is the conjugate of the upper one; `diagonal` makes real numbers of those between.
  defp mirrored(%{shape: {n, n}, numbers: numbers} = a, diagonal) do
    at = fn i, j -> Enum.at(numbers, i * n + j) end

    numbers =
      for i <- 0..(n - 1), j <- 0..(n - 1) do
        cond do
          i == j -> diagonal.(at.(i, i))
          i < j -> at.(i, j)
          true -> conjugate(at.(j, i))
        end
      end

    %{a | numbers: numbers}
  end

  defp conjugate(%Complex{} = z), do: Complex.conjugate(z)
  defp conjugate(x), do: x

  # A matrix whose diagonal is larger than the rest.
  defp dominant(type, n) do
    map(operand(type, {n, n}, range: :moderate, names: false, plain: true), fn a ->
      numbers =
        for {x, i} <- Enum.with_index(a.numbers),
            do: if(rem(i, n + 1) == 0, do: Complex.add(x, 32.0), else: x)

      %{a | numbers: numbers}
    end)
  end

  defp with_right_side do
    bind({integer(1..4), integer(1..3), types([:wide_float, :complex])}, fn {n, m, type} ->
      bind(member_of([{n}, {n, m}]), fn side ->
        map(
          {dominant(type, n), operand(type, side, range: :moderate, names: false)},
          &Tuple.to_list/1
        )
      end)
    end)
  end

  defp with_vector do
    bind(definite([:wide_float]), fn [%{shape: {n, n}, type: type} = a] ->
      map(operand(type, {n}, range: :moderate, names: false), &[a, &1])
    end)
  end

  defp norms do
    bind({shape(rank: [1, 2], largest: 4), types([:int, :wide_float])}, fn {shape, type} ->
      orders =
        if tuple_size(shape) == 1,
          do: [:inf, :neg_inf, 0, 1, 2, 3],
          else: [:frobenius, :inf, :neg_inf, 1, -1]

      map(
        {operand(type, shape, range: :moderate, names: false), options(ord: member_of(orders))},
        &Tuple.to_list/1
      )
    end)
  end
end
