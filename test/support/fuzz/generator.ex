defmodule ExBurn.Fuzz.Generator do
  @moduledoc """
  Random programs.

  A program grows from genes, one for its inputs and one for each step; each seeds the choices of its part. Genes are what
  StreamData generates and shrinks: any list of genes makes a program.
  """

  import ExBurn.Fuzz.Builder

  alias ExBurn.Fuzz.{Builder, Program, Steps}
  alias ExBurn.Property.{Generators, Number, Operand}

  @makers Enum.map(
            [
              {10, Steps.Elementwise},
              {6, Steps.Shape},
              {6, Steps.Folds},
              {4, Steps.Indexing},
              {4, Steps.Linear},
              {4, Steps.Fragments},
              {2, Steps.Control}
            ],
            & &1
          )

  @usual [
    {:f, 32},
    {:f, 32},
    {:f, 32},
    {:f, 32},
    {:f, 64},
    {:bf, 16},
    {:f, 16},
    {:s, 32},
    {:s, 64},
    {:u, 8}
  ]

  @doc """
  A generator of genes.
  """
  def genes do
    gene = StreamData.unshrinkable(StreamData.integer(0..0x7FFFFFFF))

    steps =
      StreamData.bind(
        StreamData.integer(5..70),
        &StreamData.list_of(gene, max_length: &1, min_length: min(&1, 5))
      )

    StreamData.tuple({gene, StreamData.resize(steps, 70)})
  end

  @doc """
  The genes of a seed.
  """
  def genes(seed), do: genes() |> StreamData.seeded(seed) |> Enum.at(0)

  @doc """
  The program that grows from genes, with what its outputs are: see `ExBurn.Fuzz.Oracle`.
  """
  def program({first, rest}) do
    seed(first)
    b = %Builder{finite?: not chance(10)} |> inputs()
    b = Enum.reduce(rest, b, fn gene, b -> seed(gene) && add(b, 1) end)
    outputs = outputs(b)
    program = %Program{inputs: b.inputs, steps: Enum.reverse(b.steps), outputs: outputs}
    {program, for(number <- outputs, do: Enum.map(b.lanes, &Map.fetch!(&1, number)))}
  end

  defp seed(gene), do: :rand.seed(:exsss, gene)

  @doc """
  The program under construction with some steps more.
  """
  def add(b, count) do
    Enum.reduce(1..count, b, fn _, b ->
      try do
        maker().(b)
      catch
        :skip -> b
      end
    end)
  end

  defp maker do
    {_, module} = weighted(@makers)
    {_, maker} = weighted(module.makers())
    maker
  end

  defp weighted(pairs) do
    at = pairs |> Enum.sum_by(&elem(&1, 0)) |> below()

    Enum.reduce_while(pairs, at, fn {weight, _} = pair, at ->
      if at < weight, do: {:halt, pair}, else: {:cont, at - weight}
    end)
  end

  # What nothing reads, now and then not all of it, and sometimes what something reads.
  defp outputs(b) do
    used = MapSet.new(Enum.flat_map(b.steps, fn {_, _, args} -> Program.refs(args) end))
    made = Enum.flat_map(b.steps, &elem(&1, 0))
    leaves = Enum.reject(made, &(&1 in used))
    extra = if made != [] and chance(3), do: [one_of(made)], else: []
    leaves = if chance(4), do: Enum.take(leaves, 1 + below(3)), else: leaves
    outputs = Enum.uniq(Enum.take(leaves, 12) ++ extra)
    if outputs == [], do: [b.next - 1], else: outputs
  end

  # Shapes are made of few sizes, so that they fit together.
  defp inputs(b) do
    [m, n, k] = for _ <- 1..3, do: one_of([1, 2, 2, 3, 3, 4, 5])

    shapes = [
      {},
      {n},
      {m, n},
      {m, n},
      {m, n},
      {n, k},
      {n, m},
      {m, 1},
      {1, n},
      {m, n, k},
      {m, m},
      {2, m, n}
    ]

    type = one_of(@usual)

    Enum.reduce(1..(2 + below(4)), b, fn _, b ->
      type = if chance(2), do: type, else: any_type()

      {_, b} =
        input(
          b,
          operand(type, one_of(shapes), b.finite?),
          one_of([:parameter, :parameter, :captured])
        )

      b
    end)
  end

  defp any_type, do: if(chance(3), do: one_of(Generators.all_types()), else: one_of(@usual))

  defp operand(type, shape, finite?) do
    {stored, steps} = layout(shape)
    numbers = for _ <- 1..max(Tuple.product(stored), 1), do: number(type, finite?)
    %Operand{type: type, shape: stored, numbers: numbers, steps: steps, elsewhere?: chance(10)}
  end

  # Memory that is not in order.
  defp layout(shape) when tuple_size(shape) == 2 do
    {m, n} = shape

    case below(12) do
      0 -> {{n, m}, [{:transpose, [[axes: [1, 0]]]}]}
      1 -> {shape, [{:reverse, [[axes: [1]]]}]}
      2 -> {{m + 1, n}, [{:slice, [[1, 0], [m, n], []]}]}
      3 -> {{1, n}, [{:broadcast, [shape]}]}
      _ -> {shape, []}
    end
  end

  defp layout(shape), do: {shape, []}

  defp number({:c, _} = type, finite?) do
    real = Number.real(type)
    Complex.new(number(real, true), number(real, finite? or true))
  end

  defp number(type, finite?) do
    cond do
      Number.integer?(type) -> whole(type)
      not finite? and chance(6) -> one_of([:nan, :infinity, :neg_infinity] -- missing(type))
      chance(3) -> Number.round_to(type, one_of([-0.0 | Enum.map(-8..8, &(&1 * 0.5))]))
      true -> Number.round_to(type, 6 * :rand.uniform() - 3) |> normal(type)
    end
  end

  # Nx reads f8 numbers below the smallest normal one wrongly.
  defp normal(x, {:f, 8} = type),
    do: if(abs(x) < elem(Number.smallest(type), 1), do: 0.0, else: x)

  defp normal(x, _type), do: x

  defp missing({:f8_e4m3fn, 8}), do: [:infinity, :neg_infinity]
  defp missing(_type), do: []

  defp whole(type) do
    {least, most} = Number.bounds(type)
    if chance(15), do: one_of([least, most]), else: one_of(max(least, -6)..min(most, 9))
  end
end
