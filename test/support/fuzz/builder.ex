defmodule ExBurn.Fuzz.Builder do
  @moduledoc """
  A program under construction, together with what its values are.

  A step is added by `emit/3`, which runs it: what raises, has too many elements or can't be told for sure is not added.
  So makers of steps need not know all rules of Nx. They draw from `:rand`, which is seeded for each step.
  """

  alias ExBurn.Fuzz.{Compare, Known, Oracle, Ties}
  alias ExBurn.Property.Number
  alias Nx.Tensor, as: T

  defstruct next: 1,
            inputs: [],
            steps: [],
            lanes: [%{}, %{}, %{}],
            seen: [],
            finite?: true,
            depth: 0

  @most_elements 160
  @largest %{{:f, 16} => 2000, {:bf, 16} => 1.0e4, {:f, 8} => 2000, {:f8_e4m3fn, 8} => 200}

  @doc """
  Adds an input and answers its reference.
  """
  def input(b, operand, kind) do
    t = Oracle.operand(operand)
    lanes = Enum.map(b.lanes, &Map.put(&1, b.next, t))
    inputs = b.inputs ++ [{b.next, operand, kind}]

    {{:ref, b.next},
     %{b | inputs: inputs, lanes: lanes, seen: [b.next | b.seen], next: b.next + 1}}
  end

  @doc """
  Adds a step of one result and answers its reference; throws `:skip` where it is of no use.
  """
  def emit(b, op, args) do
    {[ref], b} = emit_many(b, op, args, 1)
    {ref, b}
  end

  @doc """
  Adds a step of `count` results.
  """
  def emit_many(b, op, args, count) do
    outs = Enum.to_list(b.next..(b.next + count - 1))
    step = {outs, op, args}
    if Ties.near?(op, args, b.lanes), do: throw(:skip)
    lanes = attempt(step, b.lanes)
    for out <- outs, do: accept!(b, Enum.map(lanes, &Map.fetch!(&1, out)))

    b = %{
      b
      | steps: [step | b.steps],
        lanes: lanes,
        seen: Enum.reverse(outs) ++ b.seen,
        next: b.next + count
    }

    {Enum.map(outs, &{:ref, &1}), b}
  end

  # Nx.BinaryBackend raises for what it can't compute, each time by another exception.
  defp attempt(step, lanes) do
    Oracle.step(step, lanes)
  rescue
    _ -> throw(:skip)
  end

  defp accept!(b, [right | _] = lanes) do
    if Enum.all?(lanes, &sound?/1) and moderate?(right, b.finite?) and Compare.sure?(lanes),
      do: :ok,
      else: throw(:skip)
  end

  defp sound?(%T{data: %{state: bits}} = t),
    do:
      Nx.flat_size(t) in 1..@most_elements and bit_size(bits) == Nx.flat_size(t) * elem(t.type, 1)

  defp moderate?(%T{type: {kind, _}}, _finite?) when kind in [:u, :s], do: true

  defp moderate?(t, finite?) do
    largest = Map.get(@largest, t.type, 1.0e5)
    Enum.all?(Number.list(t), &(small?(&1, largest, finite?) and not Known.misread?(t.type, &1)))
  end

  defp small?(%Complex{re: re, im: im}, largest, _finite?),
    do: is_number(re) and is_number(im) and max(abs(re), abs(im)) < largest

  defp small?(x, largest, _finite?) when is_number(x), do: abs(x) < largest
  defp small?(_x, _largest, finite?), do: not finite?

  @doc """
  The tensor of a reference.
  """
  def value(b, {:ref, number}), do: b.lanes |> hd() |> Map.fetch!(number)

  @doc """
  A visible value for which `fun` holds, sooner a late one than an early one; throws `:skip` if there is none.
  """
  def pick(b, fun \\ fn _ -> true end) do
    case Enum.filter(b.seen, &(b |> value({:ref, &1}) |> fun.())) do
      [] -> throw(:skip)
      list -> {:ref, Enum.at(list, skewed(length(list)))}
    end
  end

  # Half of all picks are among the last three values.
  defp skewed(count), do: if(chance(2), do: below(min(count, 3)), else: below(count))

  @doc """
  A number from 0 to `n - 1`.
  """
  def below(n), do: :rand.uniform(n) - 1

  @doc """
  True once in `n` times.
  """
  def chance(n), do: :rand.uniform(n) == 1

  @doc """
  One of a list or a range.
  """
  def one_of(list), do: Enum.at(list, below(Enum.count(list)))

  @doc """
  The elements of a list, in any order.
  """
  def shuffled(list), do: Enum.sort_by(list, fn _ -> :rand.uniform() end)

  @doc """
  Some of the elements of a list, in any order, at least `least`.
  """
  def some(list, least) do
    count = if length(list) <= least, do: least, else: least + below(length(list) - least + 1)
    list |> shuffled() |> Enum.take(count)
  end

  @doc """
  Whether a tensor is of floats, which are not complex.
  """
  def float?(%T{type: {kind, _}}), do: kind in [:f, :bf, :f8_e4m3fn]

  @doc """
  Whether a tensor is of integers.
  """
  def integer?(%T{type: type}), do: Number.integer?(type)

  @doc """
  Whether a tensor is not complex.
  """
  def real?(%T{type: {kind, _}}), do: kind != :c

  @doc """
  The axes of a tensor.
  """
  def axes(%T{shape: shape}), do: Enum.to_list(0..(tuple_size(shape) - 1)//1)

  @doc """
  How many axes a tensor has.
  """
  def rank(%T{shape: shape}), do: tuple_size(shape)
end
