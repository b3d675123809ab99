defmodule ExBurn.Property.Oracle do
  @moduledoc """
  What a call should answer.

  `Nx.BinaryBackend` says it, but for single elements that `ExBurn.Property.Known` lists and for those where the BEAM
  raises because it has no infinities.
  """

  alias ExBurn.Property.{Call, Known, Number, Operand}

  @doc """
  `{:ok, result}`, `{:raised, exception}`, or `:unknown` where nobody can say.
  """
  def answer(call) do
    {fun, args} = Known.rewritten(call)
    promoted = if Known.promotes?(name(fun)), do: promote(fun, args), else: args

    if promoted != args or Known.concerns?(name(fun), numbers(args)),
      do: by_element({fun, promoted}, call),
      else: whole({fun, args})
  end

  defp name({module, name}) when is_atom(module), do: name
  defp name(_), do: nil

  defp numbers(args),
    do: Enum.filter(args, &plain?/1) ++ (args |> Call.operands() |> Enum.flat_map(& &1.numbers))

  defp plain?(arg), do: is_number(arg) or arg in [:nan, :infinity, :neg_infinity]

  # Operands are converted to the merged type first, where Nx.BinaryBackend computes with all their digits.
  defp promote(fun, args) do
    case computed(args, Call.traced({fun, args}).type) do
      nil ->
        args

      type ->
        args |> Call.map(&rounded(&1, type)) |> Enum.map(&literal(&1, type))
    end
  rescue
    _ -> args
  end

  # The float type in which a call is computed, if there is one. Types of 8 bits are computed in f32.
  defp computed(args, out) do
    merged = args |> Call.operands() |> Enum.map(& &1.type) |> Enum.reduce(&Nx.Type.merge/2)
    type = Number.real(if Number.integer?(out), do: merged, else: out)

    cond do
      Number.integer?(type) -> nil
      match?({_, 8}, type) -> if merged?(args, {:f, 64}), do: nil, else: {:f, 32}
      true -> type
    end
  end

  defp literal(number, type) when is_integer(number) do
    rounded = Number.round_to(type, number)
    if is_float(rounded), do: trunc(rounded), else: rounded
  end

  defp literal(other, _type), do: other

  defp merged?(args, type), do: Enum.any?(Call.operands(args), &(&1.type == type))

  defp rounded(%{type: {:c, _}} = operand, _type), do: operand

  defp rounded(operand, type) do
    numbers = Enum.map(operand.numbers, &Number.round_to(type, &1))

    if Enum.all?(Enum.zip(numbers, operand.numbers), fn {a, b} -> a == b end),
      do: operand,
      else: %{operand | type: type, numbers: numbers}
  end

  defp whole({fun, _} = call) do
    result = Call.eager(call, Nx.BinaryBackend)

    if [result] |> Nx.Defn.Composite.flatten_list() |> Enum.all?(&sound?/1),
      do: {:ok, result},
      else: :unknown
  rescue
    error ->
      cond do
        checked?(error) -> {:raised, error}
        Known.elementwise?(name(fun)) -> by_element(call, call)
        true -> :unknown
      end
  end

  # Where Nx.BinaryBackend slips, it may answer tensors of less data than their shape says. Nx has no empty tensors.
  defp sound?(%{data: %{state: bits}} = t),
    do: Nx.size(t) > 0 and bit_size(bits) == Nx.flat_size(t) * elem(t.type, 1)

  # Whether Nx refuses the arguments, as opposed to arithmetic of the BEAM that has no answer or a slip of Nx's.
  defp checked?(%ArgumentError{message: "construction of binary failed" <> _}), do: false

  defp checked?(%ArgumentError{message: "errors were found at the given arguments" <> _}),
    do: false

  defp checked?(%ArgumentError{message: "expected a number or a scalar tensor of type" <> _}),
    do: false

  defp checked?(%ArgumentError{}), do: true
  defp checked?(_), do: false

  defp by_element({fun, args}, original) do
    template = Call.traced(original)
    operands = Call.operands(args)

    elements =
      operands
      |> Enum.with_index()
      |> Enum.map(&numbers_like(&1, operands))
      |> Enum.zip_with(& &1)

    answers = Enum.map(elements, &element(fun, args, operands, &1, template.type))
    {:ok, fill(template, answers)}
  rescue
    error -> {:raised, error}
  catch
    answer -> answer
  end

  # The numbers of an operand, as often as it repeats when all operands are broadcast together.
  defp numbers_like({operand, at}, operands) do
    Nx.with_default_backend(Nx.BinaryBackend, fn ->
      numbers = operand |> Operand.build() |> Number.list() |> List.to_tuple()

      operands
      |> Enum.with_index(fn other, i ->
        if i == at, do: places(other), else: Nx.multiply(places(other), 0)
      end)
      |> Enum.reduce(&Nx.add/2)
      |> Nx.devectorize()
      |> Nx.to_flat_list()
      |> Enum.map(&elem(numbers, &1))
    end)
  end

  defp places(operand) do
    t = Operand.build(operand)
    full = Nx.devectorize(t)
    Nx.iota(full.shape, type: :s64) |> Nx.vectorize(Keyword.keys(t.vectorized_axes))
  end

  defp element(fun, args, operands, numbers, type) do
    types = Enum.map(operands, & &1.type)

    case Known.answer(name(fun), type, types, argument_numbers(args, numbers)) do
      {:ok, number} -> round_to(type, number)
      :as_nx -> scalar(fun, args, types, numbers, type)
    end
  end

  # Plain numbers among the arguments, in their places.
  defp argument_numbers(args, numbers), do: Call.fill(args, numbers)

  defp scalar(fun, args, types, numbers, type) do
    round_to(type, run(fun, args, types, numbers))
  rescue
    # An integer has no infinity: Nx's exception is the answer.
    error ->
      if Number.integer?(type),
        do: throw({:raised, error}),
        else: wide(fun, args, types, numbers, type)
  end

  # In f64, since a result may be too large for the type only.
  defp wide(fun, args, types, numbers, type) do
    wide = Enum.map(types, fn {kind, _} -> if kind == :c, do: {:c, 128}, else: {:f, 64} end)
    round_to(type, run(fun, args, wide, numbers))
  rescue
    _ ->
      case Known.limit(name(fun), argument_numbers(args, numbers)) do
        {:ok, number} -> round_to(type, number)
        :unknown -> throw(:unknown)
      end
  end

  defp run(fun, args, types, numbers) do
    scalars = Enum.zip_with(types, numbers, &%Operand{type: &1, shape: {}, numbers: [&2]})
    {fun, Call.fill(args, scalars)} |> Call.eager(Nx.BinaryBackend) |> Number.list() |> hd()
  end

  defp round_to({:c, _} = type, %Complex{re: re, im: im}) do
    real = Number.real(type)
    Complex.new(Number.round_to(real, re), Number.round_to(real, im))
  end

  defp round_to(type, x), do: if(Number.integer?(type), do: x, else: Number.round_to(type, x))

  defp fill(template, answers) do
    Nx.with_default_backend(Nx.BinaryBackend, fn ->
      full = Nx.devectorize(template)
      data = answers |> Nx.tensor(type: template.type) |> Nx.reshape(full.shape)
      %{template | data: data.data}
    end)
  end
end
