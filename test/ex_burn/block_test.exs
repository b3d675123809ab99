defmodule ExBurn.BlockTest do
  # Blocks of Nx and of users, against Nx.BinaryBackend.
  use ExBurn.Case, async: true

  defmodule Doubled do
    defstruct [:offset]
  end

  test "close tensors" do
    a = Nx.tensor([1.0, 2.0, :nan, :infinity])

    for b <- [
          a,
          Nx.tensor([1.0, 2.1, :nan, :infinity]),
          Nx.tensor([1.0, 2.0, 0.0, :neg_infinity])
        ],
        opts <- [
          [],
          [equal_nan: nil],
          [equal_nan: true],
          [rtol: 0.1, equal_nan: true],
          [atol: 1, rtol: 0]
        ] do
      assert_same(&Nx.all_close(&1, &2, opts), [a, b])
    end
  end

  test "close tensors of every type" do
    types = ~w(u2 u4 u8 u16 u32 u64 s2 s4 s8 s16 s32 s64 f8 f8_e4m3fn bf16 f16 f32 f64 c64 c128)a

    for type <- types,
        other <- ~w(u8 s8 s64 f32 f64 c64)a,
        opts <- [[], [atol: 1], [rtol: 1]] do
      close = &Nx.all_close(Nx.as_type(&1, type), Nx.as_type(&2, other), opts)
      a = Nx.tensor([0, 1, 1, 0])
      assert_same(close, [a, a])
      assert_same(close, [a, Nx.tensor([0, 1, 0, 1])])
    end
  end

  test "the differences of integers wrap" do
    for {type, a, b} <- [{:s8, -128, 127}, {:s8, -128, 0}, {:u8, 3, 5}, {:u64, 0, 1}],
        atol <- [0, 1, 2] do
      [a, b] = Enum.map([a, b], &Nx.tensor(&1, type: type))
      assert_same(&Nx.all_close(&1, &2, atol: atol), [a, b])
      assert_same(&Nx.all_close(&1, &2, atol: atol), [b, a])
    end
  end

  test "close tensors of shapes that broadcast, vectorized, empty of axes" do
    assert_same(&Nx.all_close(&1, &2), [Nx.tensor([[1, 1], [1, 1]]), Nx.tensor(1)])
    vectorized = fn a, b -> Nx.all_close(Nx.vectorize(a, :x), b) |> Nx.devectorize() end
    assert_same(vectorized, [Nx.tensor([[1, 2], [1, 3]]), Nx.tensor([1, 2])])
  end

  test "phases" do
    assert_same(&Nx.phase/1, [Nx.tensor([-1.0, 0.0, -0.0, 2.0, :nan, :infinity, :neg_infinity])])
    assert_same(&Nx.phase/1, [Nx.tensor([-3, 0, 3])])

    assert_same(&Nx.phase/1, [
      Nx.tensor([Complex.new(1, 1), Complex.new(-2, 0), Complex.new(0, -3)])
    ])
  end

  test "the largest of complex numbers are refused as Nx refuses them" do
    t = Nx.tensor([Complex.new(1, 2), 3])
    %ArgumentError{message: message} = catch_error(Nx.top_k(t, k: 1))

    for device <- ExBurn.devices() do
      ours = Nx.backend_copy(t, {ExBurn.Backend, device: device})
      assert_raise ArgumentError, message, fn -> Nx.top_k(ours, k: 1) end
    end
  end

  test "blocks that nobody knows run their default function" do
    block = fn t ->
      Nx.block(%Doubled{offset: 3}, [t], t, fn %Doubled{offset: offset}, t ->
        t |> Nx.multiply(2) |> Nx.add(Nx.tensor(offset)) |> Nx.put_slice([0], Nx.iota({1}))
      end)
    end

    assert_same(block, [Nx.tensor([1, 2, 3])])
    ours = Nx.tensor([1, 2, 3], backend: ExBurn.Backend)
    assert %ExBurn.Backend{} = block.(ours).data
  end

  test "blocks with several results and trailing options" do
    t = Nx.tensor([1, 2, 3], backend: ExBurn.Backend)
    templates = {Nx.template({}, :s32), Nx.template({3}, :s32)}

    results =
      Nx.block(%Doubled{}, [t, [times: 2]], templates, fn %Doubled{}, t, opts ->
        {Nx.sum(t), Nx.multiply(t, opts[:times])}
      end)

    assert results |> Tuple.to_list() |> Enum.map(&Nx.to_flat_list/1) == [[6], [2, 4, 6]]
    assert %ExBurn.Backend{} = elem(results, 0).data
  end

  test "blocks inside of loops, branches and functions" do
    double = fn t ->
      Nx.block(%Doubled{offset: 1}, [t], t, fn %Doubled{offset: offset}, t ->
        Nx.add(Nx.multiply(t, 2), offset)
      end)
    end

    assert_same(&Nx.reduce(&1, 0, fn x, acc -> Nx.add(double.(x), acc) end), [
      Nx.tensor([1, 2, 3])
    ])

    assert_same(&double.(double.(&1)), [Nx.tensor([1, 2, 3])])
  end
end
