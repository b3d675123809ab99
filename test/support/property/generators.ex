defmodule ExBurn.Property.Generators do
  @moduledoc """
  Generators of types, shapes, axes and operands.
  """

  import StreamData
  require ExUnitProperties

  alias ExBurn.Property.{Number, Operand}

  @unsigned for size <- [2, 4, 8, 16, 32, 64], do: {:u, size}
  @signed for size <- [2, 4, 8, 16, 32, 64], do: {:s, size}
  @floats [{:f, 8}, {:f8_e4m3fn, 8}, {:bf, 16}, {:f, 16}, {:f, 32}, {:f, 64}]
  @complex [{:c, 64}, {:c, 128}]

  # The sizes never differ between operands, so that vectorized operands always fit together.
  @vectors [[], [], [], [], [], [], [v: 2], [v: 2, w: 3], [w: 3]]

  @doc """
  Types by kind: `:int`, `:bytes` (integers of whole bytes), `:float`, `:wide_float` (f32 and f64), `:complex`, `:real`
  (integers and floats), `:any`, a type itself; or a list of these.
  """
  def types(kind), do: kind |> type_list() |> member_of()

  defp type_list(:int), do: @unsigned ++ @signed
  defp type_list(:bytes), do: Enum.filter(@unsigned ++ @signed, fn {_, size} -> size >= 8 end)
  defp type_list(:float), do: @floats ++ [{:f, 32}, {:f, 64}]
  defp type_list(:wide_float), do: [{:f, 32}, {:f, 64}]
  defp type_list(:complex), do: @complex
  defp type_list(:real), do: type_list(:int) ++ @floats ++ [{:f, 32}, {:s, 32}]
  defp type_list(:any), do: type_list(:real) ++ @complex
  defp type_list(kinds) when is_list(kinds), do: Enum.flat_map(kinds, &type_list/1)
  defp type_list({_, _} = type), do: [type]

  @doc """
  All types that operands have.
  """
  def all_types, do: type_list(:any) |> Enum.uniq()

  @doc """
  Shapes of the given ranks, by default 0 to 4 and now and then more, with axes of up to `:largest` elements.
  """
  def shape(opts \\ []) do
    ranks = Keyword.get(opts, :rank, [0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6])
    largest = Keyword.get(opts, :largest, 5)
    bind(member_of(List.wrap(ranks)), fn rank -> sized_axes(rank, largest) end)
  end

  # High ranks have short axes, so that no tensor has many elements.
  defp sized_axes(rank, largest) do
    largest =
      Enum.at([largest, 2 * largest, largest, min(largest, 4), min(largest, 3), 2, 2], rank)

    1..largest//1 |> member_of() |> list_of(length: rank) |> map(&List.to_tuple/1)
  end

  @doc """
  Shapes that broadcast to `shape`, in as many ways as there are.
  """
  def narrower(shape) do
    rank = tuple_size(shape)

    ExUnitProperties.gen all(
                           ones <- list_of(member_of([false, false, false, true]), length: rank),
                           dropped <- frequency([{3, constant(0)}, {1, integer(0..rank)}])
                         ) do
      shape
      |> Tuple.to_list()
      |> Enum.zip_with(ones, fn size, one? -> if one?, do: 1, else: size end)
      |> Enum.drop(dropped)
      |> List.to_tuple()
    end
  end

  @doc """
  An axis of a shape of rank 1 or more, from the front or from the back.
  """
  def axis(shape), do: integer(-tuple_size(shape)..(tuple_size(shape) - 1)//1)

  @doc """
  Different axes of a shape, at least `least`.
  """
  def axes(shape, least \\ 0) do
    rank = tuple_size(shape)

    ExUnitProperties.gen all(
                           count <- integer(min(least, rank)..rank),
                           order <- order(rank)
                         ) do
      Enum.take(order, count)
    end
  end

  @doc """
  The numbers below `n`, in any order.
  """
  def order(0), do: constant([])
  def order(n), do: 0..(n - 1) |> Enum.to_list() |> shuffle()

  @doc """
  Some of the options of a keyword list of generators, each with even odds.
  """
  def options(generators) do
    generators
    |> Enum.map(fn {key, generator} ->
      one_of([constant([]), map(generator, &[{key, &1}])])
    end)
    |> fixed_list()
    |> map(&Enum.concat/1)
  end

  @doc """
  A number of `type`. Ranges:

    * `:any` - everything the type has, with an eye on the ends, on zeros and on what is not finite
    * `:finite` - the same without what is not finite
    * `:moderate` - from -8 to 8
    * `:positive` - from 1/8 to 8
    * `:unit` - from -1 to 1
    * `:off_axes` - complex numbers whose parts are not zero
    * `{low, high}` - integers from `low` to `high` that the type has
  """
  def number(type, range \\ :any)

  def number({:c, _} = type, :off_axes),
    do: map(number(type, :moderate), &Complex.new(off_zero(&1.re), off_zero(&1.im)))

  def number({:c, _} = type, range) do
    part = number(Number.real(type), range)
    map({part, part}, fn {re, im} -> Complex.new(re, im) end)
  end

  def number(type, range),
    do: if(Number.integer?(type), do: whole(type, range), else: fraction(type, range))

  defp off_zero(x), do: if(abs(x) < 0.125, do: x + 0.25, else: x)

  defp whole(type, {low, high}) do
    {least, most} = Number.bounds(type)
    integer(max(low, least)..min(high, most))
  end

  defp whole(type, range) when range in [:any, :finite] do
    {least, most} = Number.bounds(type)
    ends = Enum.uniq([least, least + 1, most - 1, most])
    frequency([{4, whole(type, {-9, 9})}, {1, member_of(ends)}, {3, integer(least..most)}])
  end

  defp whole(type, :positive), do: whole(type, {1, 8})
  defp whole(type, :unit), do: whole(type, {-1, 1})
  defp whole(type, :moderate), do: whole(type, {-8, 8})

  defp fraction(type, {low, high}), do: map(integer(low..high), &Number.round_to(type, &1 * 1.0))

  defp fraction(type, :any) do
    special = [:nan, :infinity, :neg_infinity]
    special = if type == {:f8_e4m3fn, 8}, do: [:nan], else: special
    frequency([{9, fraction(type, :finite)}, {1, member_of(special)}])
  end

  defp fraction(type, :finite) do
    {smallest, normal} = Number.smallest(type)
    largest = Number.largest(type)

    ends =
      for x <- [0.0, 0.5, 1.0, 1.5, 2.5, smallest, normal, largest], sign <- [1, -1], do: sign * x

    ends = ends |> Enum.map(&representable(type, &1)) |> Enum.uniq()
    frequency([{6, fraction(type, :moderate)}, {2, wide(type)}, {1, member_of(ends)}])
  end

  defp fraction(type, :moderate), do: scaled(type, -8.0, 16.0, -1)
  defp fraction(type, :unit), do: scaled(type, -1.0, 2.0, -1)
  defp fraction(type, :positive), do: scaled(type, 0.125, 8.0, 0)

  # Simple numbers more often than others, since many faults show at halves and whole numbers. Shrinks towards the middle.
  defp scaled(type, low, width, least) do
    steps = 1_000_000_000_000
    middle = if least < 0, do: low + width / 2, else: low
    reach = if least < 0, do: width / 2, else: width
    fine = map(integer((least * steps)..steps), &(middle + reach * &1 / steps))
    coarse = map(integer((least * 32)..32), &(middle + reach * &1 / 32))
    map(frequency([{3, fine}, {2, coarse}]), &representable(type, &1))
  end

  # Nx reads f8 numbers below the smallest normal one wrongly, so they are tested by themselves.
  defp representable({:f, 8} = type, x) do
    {_, normal} = Number.smallest(type)
    if abs(x) < normal, do: x * 0.0, else: Number.round_to(type, x)
  end

  defp representable(type, x), do: Number.round_to(type, x)

  # Numbers of every magnitude.
  defp wide(type) do
    {smallest, _} = Number.smallest(type)
    [low, high] = Enum.map([smallest, Number.largest(type)], &trunc(:math.log2(&1)))

    ExUnitProperties.gen all(
                           power <- integer(low..(high - 1)),
                           fraction <- integer(0..1_000_000),
                           sign <- member_of([1, -1])
                         ) do
      representable(type, sign * :math.pow(2.0, power) * (1 + fraction / 1_000_000))
    end
  end

  @doc """
  An operand of `type` and `shape`.

  Options:

    * `:range` - of its numbers, see `number/2`
    * `:names` - `false` for none. Names belong to axes counted from the last, so that operands fit together
    * `:vector` - a list of vectorized axes and sizes
    * `:plain` - `true` for memory in order
  """
  def operand(type, shape, opts \\ []) do
    vector = Keyword.get(opts, :vector, [])
    full = List.to_tuple(Keyword.values(vector) ++ Tuple.to_list(shape))
    layout = if opts[:plain], do: constant({full, []}), else: layout(full)

    ExUnitProperties.gen all(
                           {stored, steps} <- layout,
                           names <- names(shape, Keyword.get(opts, :names, true)),
                           numbers <-
                             list_of(number(type, opts[:range] || :any),
                               length: Tuple.product(stored)
                             ),
                           elsewhere? <- member_of([false, false, false, false, true])
                         ) do
      finish =
        rename_step(names, vector) ++
          if(vector == [], do: [], else: [{:vectorize, [Keyword.keys(vector)]}])

      %Operand{
        type: type,
        shape: stored,
        numbers: numbers,
        steps: steps ++ finish,
        elsewhere?: elsewhere?
      }
    end
  end

  @doc """
  Vectorized axes: mostly none.
  """
  def vector, do: member_of(@vectors)

  defp names(shape, true) do
    rank = tuple_size(shape)
    frequency([{5, constant(nil)}, {1, constant(Enum.take([:f, :e, :d, :c, :b, :a], -rank))}])
  end

  defp names(_shape, false), do: constant(nil)

  defp rename_step(nil, _vector), do: []
  defp rename_step([], _vector), do: []
  defp rename_step(names, vector), do: [{:rename, [List.duplicate(nil, length(vector)) ++ names]}]

  # A stored shape and steps from it to `shape`.
  defp layout({}), do: constant({{}, []})

  defp layout(shape) do
    frequency([
      {4, constant({shape, []})},
      {1, transposed(shape)},
      {1, sliced(shape)},
      {1, spread(shape)},
      {1, map(axes(shape, 1), &{shape, [{:reverse, [[axes: &1]]}]})}
    ])
  end

  defp transposed(shape) do
    map(order(tuple_size(shape)), fn order ->
      stored =
        for axis <- 0..(tuple_size(shape) - 1),
            do: elem(shape, Enum.find_index(order, &(&1 == axis)))

      {List.to_tuple(stored), [{:transpose, [[axes: order]]}]}
    end)
  end

  defp sliced(shape) do
    sizes = Tuple.to_list(shape)
    rank = length(sizes)

    ExUnitProperties.gen all(
                           starts <- list_of(integer(0..1), length: rank),
                           strides <- list_of(member_of([1, 1, 2]), length: rank)
                         ) do
      lengths = Enum.zip_with(sizes, strides, fn size, stride -> (size - 1) * stride + 1 end)
      stored = Enum.zip_with(starts, lengths, &+/2)
      {List.to_tuple(stored), [{:slice, [starts, lengths, [strides: strides]]}]}
    end
  end

  defp spread(shape) do
    map(narrower(shape), &{&1, [{:broadcast, [shape]}]})
  end

  @doc """
  One operand of a kind of types, of any shape, maybe vectorized: the arguments of a function of one tensor.
  """
  def one(kind, opts \\ []) do
    ExUnitProperties.gen all(
                           type <- types(kind),
                           shape <- shape(opts),
                           vector <- vector(),
                           operand <- operand(type, shape, [vector: vector] ++ opts)
                         ) do
      [operand]
    end
  end

  @doc """
  Two operands that broadcast together, or one and a plain number.
  """
  def two(left, right, opts \\ []) do
    ExUnitProperties.gen all(
                           shape <- shape(opts),
                           vector <- vector(),
                           {left, right} <- {
                             wider(left, shape, [vector: vector] ++ side(opts, :left)),
                             wider(right, shape, [vector: vector] ++ side(opts, :right))
                           },
                           sides <-
                             frequency([
                               {8, constant([left, right])},
                               {1, constant([left, plain(right, left)])},
                               {1, constant([plain(left, right), right])}
                             ])
                         ) do
      sides
    end
  end

  defp side(opts, side), do: Keyword.merge(opts, Keyword.get(opts, side, []))

  defp wider(kind, shape, opts) do
    ExUnitProperties.gen all(
                           type <- types(kind),
                           shape <- narrower(shape),
                           vector <- member_of([opts[:vector], opts[:vector], []]),
                           operand <- operand(type, shape, Keyword.put(opts, :vector, vector))
                         ) do
      operand
    end
  end

  # The first number by itself. Nx makes integers s32, and in programs the others of the type that they meet, so they are
  # numbers that all types have.
  defp plain(%Operand{numbers: [number | _]}, _other) when is_integer(number),
    do: rem(number, 2 ** 24)

  defp plain(_, %Operand{type: {:f8_e4m3fn, 8}}), do: -1.5
  defp plain(%Operand{numbers: [number | _]}, _other), do: short(number)

  defp short(%Complex{re: re, im: im}), do: Complex.new(short(re), short(im))
  defp short(number) when is_atom(number), do: number
  defp short(number), do: max(-16.0, min(16.0, representable({:f, 8}, number)))
end
