defmodule ExBurn.Cost do
  @moduledoc """
  How long an instruction takes: an estimate from above, which decides on whose scheduler it runs.

  Work of less than a millisecond stays on the scheduler of the caller. The way to a dirty scheduler and back costs 20 to
  60 microseconds on an idle machine, which is as long as it takes to add 100,000 numbers.
  """

  alias ExBurn.{Instruction, NIF}

  @type tensor_type :: {atom(), [non_neg_integer()]}

  # Nanoseconds of one core. Loops are shared by two cores and more where there are any, and then end within half of it:
  # not the whole millisecond that the VM allows, because other processes use the machine too.
  @brief 1_200_000
  @brief_alone 600_000

  # How much less time fused loops take than one after the other, at least: what is between them stays in the first cache.
  @fused 1 / 3
  @fused_kinds ~w(unary binary reduce select clip cast)a

  # Nanoseconds for each element read or written on one core: by loops over vectors, by folds of long rows at the end and
  # of others, whose elements may lie apart, by joining of short rows, by spreading operands over short rows, and by any
  # other operation on elements of any type.
  @swift 0.25
  @long_fold 0.25
  @short_fold 8
  @joining 8
  @spread 1
  @any 25

  # Elements of a long row.
  @long 32

  @swift_types ~w(u8 u16 u32 u64 s8 s16 s32 s64 f32 f64)a
  # Operations whose cost is that of touching their elements.
  @plain_kinds ~w(unary binary reduce broadcast transpose slice concatenate stack iota pad reverse constant)a
  @copying ~w(reshape broadcast transpose slice concatenate stack eye iota)a
  @swift_unary ~w(abs ceil floor negate round sign sqrt bitwise_not)a
  @single_unary ~w(cos erf exp expm1 log log1p rsqrt sigmoid sin tan tanh)a
  @swift_binary ~w(add subtract multiply divide min max equal not_equal greater greater_equal less less_equal
                   bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor)a

  @doc """
  Whether work of this cost may stay on the caller's scheduler.

  ## Examples

      iex> add = {:binary, :add}
      iex> few = {:f32, [4]}
      iex> ExBurn.Cost.brief?(ExBurn.Cost.of(add, [few, few], [few]))
      true
      iex> many = {:f32, [10_000_000]}
      iex> ExBurn.Cost.brief?(ExBurn.Cost.of(add, [many, many], [many]))
      false

  """
  @spec brief?(number() | :infinity) :: boolean()
  def brief?(cost) when cost <= @brief_alone, do: true
  def brief?(cost), do: cost <= @brief and NIF.threads() > 1

  @doc """
  Nanoseconds that loops take which are fused, from the sum of their costs and the largest of these.

  ## Examples

      iex> ExBurn.Cost.fused(900, 100)
      300.0
      iex> ExBurn.Cost.fused(900, 900)
      900

  """
  @spec fused(number(), number()) :: number()
  def fused(sum, largest), do: max(sum * @fused, largest)

  @doc """
  Whether the compiler fuses an instruction with its neighbours: a loop over vectors, or a fold of long rows at the end.

  ## Examples

      iex> few = {:f32, [4]}
      iex> ExBurn.Cost.fuses?({:unary, :exp}, [few], [few])
      true
      iex> ExBurn.Cost.fuses?({:unary, :acos}, [few], [few])
      false

  """
  @spec fuses?(Instruction.op(), [tensor_type()], [tensor_type()]) :: boolean()
  def fuses?(op, operands, outputs) do
    kind = if is_tuple(op), do: elem(op, 0), else: op
    kind in @fused_kinds and rate(op, operands, outputs) <= 2 * max(@swift, @long_fold)
  end

  @doc """
  Nanoseconds that an instruction with these operands and results takes, or `:infinity`, which compares as larger than
  any number.

  ## Examples

      iex> matrix = {:f64, [64, 64]}
      iex> small = ExBurn.Cost.of({:linalg, :determinant}, [{:f64, [3, 3]}], [{:f64, []}])
      iex> small < ExBurn.Cost.of({:linalg, :determinant}, [matrix], [{:f64, []}])
      true

  """
  @spec of(Instruction.op(), [tensor_type()], [tensor_type()]) :: number() | :infinity
  def of(op, operands, outputs)

  def of({nested, _}, _, _)
      when nested in [:while, :cond, :custom_reduce, :custom_window_reduce],
      do: :infinity

  def of({:dot, %{lhs_contract: axes}}, [{type, lhs} | _] = operands, outputs) do
    contracted = axes |> Enum.map(&Enum.at(lhs, &1)) |> Enum.product()

    @swift * width([type]) * touched(operands, outputs) +
      product(type) * size(outputs) * contracted
  end

  def of({:conv, _}, [{type, _}, {_, kernel}] = operands, outputs),
    do: @any * touched(operands, outputs) + product(type) * size(outputs) * Enum.product(kernel)

  def of({windowed, %{windows: %{dimensions: dimensions}}}, operands, outputs)
      when windowed in [:window_reduce, :window_scatter],
      do: @any * (size(operands) + size(outputs) * Enum.product(dimensions))

  # Elements of the matrices, each as often as the longest of all sides; iterations come to ten such passes and more.
  def of({decomposition, _}, operands, outputs)
      when decomposition in [:linalg, :triangular_solve],
      do: 16 * @any * touched(operands, outputs) * longest(operands)

  def of({slow, _}, operands, outputs)
      when slow in [:sort, :argsort, :top_k, :fft, :fft2],
      do: 16 * @any * touched(operands, outputs)

  def of(op, operands, outputs),
    do: touched(operands, outputs) * rate(op, operands, outputs)

  @doc """
  `of/3` for a single instruction: a rougher estimate where it is brief in any case, since most tensors are small and even
  looking at the types takes time.

  ## Examples

      iex> few = {:f32, [4]}
      iex> ExBurn.Cost.brief?(ExBurn.Cost.alone({:unary, :acos}, [few], [few]))
      true

  """
  @spec alone(Instruction.op(), [tensor_type()], [tensor_type()]) :: number() | :infinity
  def alone(op, operands, outputs) do
    case op do
      {name, _} when name in @plain_kinds -> rough(op, operands, outputs)
      name when is_atom(name) -> rough(op, operands, outputs)
      _ -> of(op, operands, outputs)
    end
  end

  defp rough(op, operands, outputs) do
    highest = touched(operands, outputs) * @any
    if highest <= @brief, do: highest, else: of(op, operands, outputs)
  end

  # Nanoseconds for a product of two numbers and its sum.
  defp product(:f32), do: 1 / 80
  defp product(:f64), do: 1 / 40
  defp product(_), do: @any

  defp rate(op, operands, outputs) do
    types = Enum.map(operands ++ outputs, &elem(&1, 0))

    cond do
      not Enum.all?(types, &(&1 in @swift_types)) -> @any
      spreads?(op, operands, outputs) -> @spread * width(types)
      swift?(op, types) -> @swift * width(types)
      match?({:reduce, _}, op) -> fold(op, operands, outputs) * width(types)
      match?({join, _} when join in [:concatenate, :stack], op) -> @joining
      true -> @any
    end
  end

  defp fold({:reduce, %{axes: axes}}, [{_, shape}] = operands, outputs) do
    rank = length(shape)
    last? = axes in [nil, Enum.to_list((rank - length(axes || []))..(rank - 1)//1)]

    if last? and size(operands) >= @long * size(outputs), do: @long_fold, else: @short_fold
  end

  defp swift?({:unary, name}, _) when name in @swift_unary, do: true
  defp swift?({:unary, name}, [:f32, :f32]) when name in @single_unary, do: true
  defp swift?({:binary, name}, _), do: name in @swift_binary
  defp swift?({join, %{axis: axis}}, _) when join in [:concatenate, :stack], do: axis == 0
  defp swift?({name, _}, _), do: name in @copying
  defp swift?(name, _), do: name in @copying or name in [:select, :clip, :cast]

  # Whether an operand is spread over short rows, each of which starts a loop.
  defp spreads?({:binary, name}, operands, [{_, shape}]) when name in @swift_binary do
    short? = List.last(shape, 1) < @long
    short? and Enum.any?(operands, fn {_, other} -> other not in [shape, []] end)
  end

  defp spreads?(_op, _operands, _outputs), do: false

  defp width(types),
    do: if(Enum.any?(types, &(&1 in [:u64, :s64, :f64])), do: 2, else: 1)

  defp longest(types),
    do: types |> Enum.flat_map(fn {_, shape} -> Enum.take(shape, -2) end) |> Enum.max()

  defp touched(operands, outputs), do: size(operands) + size(outputs)

  defp size(types),
    do: Enum.reduce(types, 0, fn {_, shape}, acc -> acc + Enum.product(shape) end)
end
