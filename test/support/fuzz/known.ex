defmodule ExBurn.Fuzz.Known do
  @moduledoc """
  Steps that are not generated because `Nx.BinaryBackend` answers them wrongly, in addition to what
  `ExBurn.Property.Known` makes up for.

  Faults of tracing show in programs that are right step by step; `ExBurn.Fuzz.Check` asks `Nx.Defn.Evaluator` about them.
  `Nx.Defn.Expr` merges nodes, and slips where

    * a broadcast is broadcast to a higher rank: the axes of the inner one are taken for those of both
    * a slice of a slice starts at a value: the starts are added without keeping each inside of its tensor
    * `x + (0 - y)`, `x * (1 / y)` or `c + (d + x)` mix types: the inner operation has lost its own
    * an operation of constants alone overflows its type or has no answer on the BEAM
  """

  alias ExBurn.Fuzz.Compare
  alias ExBurn.Property.Number
  alias Nx.Tensor, as: T

  # Types whose numbers stay the same when they are made f32 or s32.
  @narrow [{:f, 32}, {:f, 16}, {:bf, 16}, {:s, 8}, {:s, 16}, {:s, 32}, {:u, 8}, {:u, 16}]

  @f8 {:f8_e4m3fn, 8}

  # Integers beyond have no f32 of their own.
  @whole 2 ** 24

  @doc """
  Why the answer of a step is not to be trusted, or `nil`.
  """
  def reason(op, args), do: mixed(List.flatten(args)) || wrong(op, args)

  defp mixed(args) do
    types = for %T{type: {kind, _} = type} <- args, kind not in [:u, :s], uniq: true, do: type

    cond do
      @f8 not in types ->
        nil

      types != [@f8] ->
        "what this type has in common with others depends on their order, which Nx changes while it traces"

      true ->
        nil
    end
  end

  defp wrong(op, [t, source | _]) when op in [:window_scatter_max, :window_scatter_min] do
    if t.type not in @narrow or source.type not in @narrow,
      do: "Nx.BinaryBackend compares and adds single numbers, which Nx takes for f32 and s32"
  end

  defp wrong(op, [%T{type: {kind, size}} | _])
       when op in [:variance, :standard_deviation, :logsumexp] and kind not in [:u, :s] and
              size < 32,
       do: "lanes don't see the roundings between the steps of which these functions are made"

  defp wrong(op, [%T{} = t | _])
       when op in [:variance, :standard_deviation, :logsumexp] do
    if Number.integer?(t.type) and t |> Number.list() |> Enum.any?(&(abs(&1) > @whole)),
      do: "Nx.BinaryBackend subtracts a mean of f32 from integers with all their digits"
  end

  defp wrong(:window_reduce, [t | _]) do
    if t.type not in [{:f, 32}, {:s, 32}],
      do: "Nx.BinaryBackend gives the function numbers, which Nx takes for f32 and s32"
  end

  defp wrong(:bitcast, [%T{} = t | _]) do
    if not Number.integer?(t.type) and Enum.any?(Number.list(t), &(&1 == :nan)),
      do: "the sign of NaN means nothing"
  end

  defp wrong(op, [t, indices, updates, [axes: axes]]) when op in [:indexed_add, :indexed_put] do
    vectorized? = Enum.any?([t, indices, updates], &(&1.vectorized_axes != []))

    if vectorized? and length(axes) < tuple_size(t.shape),
      do:
        "Nx makes the updates of vectorized tensors flat, also where each is more than one element"
  end

  defp wrong(:conv, [t, kernel | _]) do
    cond do
      {:f8_e4m3fn, 8} in [t.type, kernel.type] ->
        "Nx.BinaryBackend answers zeros where it dilates this type"

      not finite?(t) or not finite?(kernel) ->
        "Nx.BinaryBackend multiplies with the zeros that it dilates by"

      true ->
        nil
    end
  end

  defp wrong(:remainder, [%T{type: type}, %T{type: other}]) when type != other do
    if not Number.integer?(type) or not Number.integer?(other),
      do: "it jumps where a conversion of an operand rounds, which Nx.BinaryBackend truncates"
  end

  defp wrong(:cholesky, [%T{type: {:f, 64}}]),
    do: "Nx.BinaryBackend adds 1.0e-10 to what it divides by"

  defp wrong(op, [t | _]) when op in [:cholesky, :determinant, :solve, :norm] do
    if not finite?(t), do: "what is not finite spreads as the order of steps has it"
  end

  defp wrong(op, [%T{type: {:c, _}} = t])
       when op in [
              :acos,
              :acosh,
              :asin,
              :asinh,
              :atan,
              :atanh,
              :log,
              :log1p,
              :sqrt,
              :rsqrt,
              :cbrt
            ] do
    if Enum.any?(Number.list(t), &(&1.re == 0 or &1.im == 0)),
      do: "the sign of a zero part chooses the branch"
  end

  defp wrong(_op, _args), do: nil

  @doc """
  Whether `Nx.BinaryBackend` reads a number wrongly: those of f8 below the smallest normal one.
  """
  def misread?({:f, 8} = type, x) when is_number(x),
    do: x != 0 and abs(x) < elem(Number.smallest(type), 1)

  def misread?(_type, _x), do: false

  defp finite?(t), do: Enum.all?(Number.list(t), &Compare.finite?/1)
end
