defmodule ExBurn.Fuzz.Oracle do
  @moduledoc """
  What the steps of a program should answer, and how sure that is.

  Each step is run on `Nx.BinaryBackend` several times: once as it is, and again in lanes where each operation that
  rounds makes an error of one unit in the last place more, up or down at random. Operations that add up many numbers get
  such errors in their operands too. How far the lanes lie from each other says what rounding may do to a result; where
  nothing rounds, all lanes are the same and so is the bound: exact.

  The sign of a zero is drawn at random in these lanes where it hangs on the order of a sum, or on which of two zeros an
  extremum of many takes, which IEEE 754 leaves open.
  """

  alias ExBurn.Fuzz.{Fun, Interpreter, Noise}
  alias ExBurn.Property.{Known, Number, Operand}
  alias Nx.Tensor, as: T

  @exact ~w(tensor reshape transpose broadcast squeeze slice slice_along_axis put_slice pad reverse concatenate stack gather
            indexed_put take take_along_axis select clip max min abs negate sort argsort reduce_max reduce_min argmax
            argmin window_max window_min cumulative_max cumulative_min top_k bitcast all any equal not_equal less greater
            less_equal greater_equal logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor
            bitwise_not left_shift right_shift real imag conjugate floor ceil round sign while cond stop_grad iota eye
            is_nan is_infinity vectorize devectorize new_axis flatten tile repeat tri triu tril as_type reduce window_reduce
            population_count count_leading_zeros rename outer_copy make_diagonal take_diagonal put_diagonal revectorize
            split all_close hook runtime_call custom_grad grad uniform
            randint)a

  @sums ~w(sum product mean dot outer conv window_sum window_product window_mean cumulative_sum cumulative_product
           indexed_add variance standard_deviation logsumexp window_scatter_max window_scatter_min pow covariance
           weighted_mean determinant cholesky solve norm)a

  @extrema ~w(max min reduce_max reduce_min window_max window_min cumulative_max cumulative_min)a

  # Where Nx.BinaryBackend may be wrong, for any numbers or for special ones.
  @suspect ~w(expm1 log1p erf_inv cbrt count_leading_zeros acos acosh sign clip round ceil floor tanh log atan2 divide
              remainder pow)a

  @doc """
  Lanes: the inputs by number, once for each lane. The first one makes no errors.
  """
  def lanes(inputs, count) do
    right = inputs |> Map.new(fn {number, operand, _} -> {number, operand(operand)} end)
    List.duplicate(right, count)
  end

  @doc """
  An operand on `Nx.BinaryBackend`.
  """
  def operand(operand),
    do:
      Nx.with_default_backend(Nx.BinaryBackend, fn ->
        Operand.build(%{operand | elsewhere?: false})
      end)

  @doc """
  The lanes with what the step makes in each.
  """
  def step(step, [right | noisy]) do
    Nx.with_default_backend(Nx.BinaryBackend, fn ->
      right = Interpreter.step(step, right, %Interpreter{around: &right/3})
      around = %Interpreter{around: &noisy/3}
      [right | Enum.map(noisy, &Interpreter.step(step, &1, around))]
    end)
  end

  @doc """
  What each output of the program is, in `count` lanes.
  """
  def outputs(program, count) do
    lanes = Enum.reduce(program.steps, lanes(program.inputs, count), &step/2)
    for number <- program.outputs, do: Enum.map(lanes, &Map.fetch!(&1, number))
  end

  @doc """
  What each output is of the program as it is after tracing, in `count` lanes. `Nx.Defn.Expr` merges nodes, and what
  follows rounds otherwise than the steps do, or means something else.
  """
  def traced(program, count) do
    [(&right/3) | List.duplicate(&noisy/3, count - 1)]
    |> Enum.map(&(program |> Interpreter.evaluated(&1) |> Tuple.to_list()))
    |> Enum.zip_with(& &1)
  end

  defp right(op, args, call) do
    if ExBurn.Fuzz.Known.reason(op, args), do: throw(:skip)
    args = promote(op, args)

    if op in @suspect,
      do: checked(op, args, call),
      else: call.(args)
  end

  # Nx.BinaryBackend computes with all digits of operands of other types; Nx says that they are converted first.
  defp promote(op, [_, _ | _] = args) do
    tensors = Enum.filter(args, &is_struct(&1, T))

    if Known.elementwise?(op) and Known.promotes?(op) and length(tensors) > 1 do
      type = tensors |> Enum.map(& &1.type) |> Enum.reduce(&Nx.Type.merge(&2, &1))
      if Number.integer?(type), do: args, else: Enum.map(args, &convert(&1, type))
    else
      args
    end
  end

  defp promote(_op, args), do: args

  defp convert(%T{type: type} = t, type), do: t
  defp convert(%T{} = t, type), do: Nx.as_type(t, type)
  defp convert(other, _type), do: other

  defp checked(op, args, call) do
    numbers = Enum.flat_map(args, &if(is_struct(&1, T), do: Number.list(&1), else: [&1]))
    if Known.concerns?(op, numbers), do: by_element(op, args), else: call.(args)
  end

  defp by_element(op, args) do
    case ExBurn.Property.Oracle.answer({{Nx, op}, Enum.map(args, &as_operand/1)}) do
      {:ok, result} -> result
      {:raised, error} -> raise error
      :unknown -> raise ArithmeticError
    end
  end

  @doc """
  A tensor as an operand.
  """
  def as_operand(%T{vectorized_axes: axes} = t) do
    full = Nx.devectorize(t)
    steps = if axes == [], do: [], else: [{:vectorize, [Keyword.keys(axes)]}]
    %Operand{type: t.type, shape: full.shape, numbers: Number.list(t), steps: steps}
  end

  def as_operand(other), do: other

  defp noisy(op, args, call) do
    results = inexact(op, args, call)
    if any_zero?(op, args, results), do: map(results, &zeros/1), else: results
  end

  # The sign of a power is that of its base.
  defp any_zero?(:pow, _args, %T{type: {kind, _}}) when kind != :c, do: false
  defp any_zero?(op, _args, _results) when op in @sums, do: true
  defp any_zero?(op, _args, _results) when op in [:max, :min], do: false
  defp any_zero?(op, _args, _results) when op in @extrema, do: true
  defp any_zero?(op, args, _results) when op in [:reduce, :window_reduce], do: extremum?(args)
  # Formulas of complex numbers are made of sums.
  defp any_zero?(op, _args, %T{type: {:c, _}}), do: op not in @exact
  defp any_zero?(_op, _args, _results), do: false

  defp extremum?(args) do
    Enum.any?(args, fn
      %Fun{steps: steps} -> Enum.any?(steps, fn {_, op, _} -> op in @extrema end)
      _ -> false
    end)
  end

  defp inexact(op, args, call) when op in @sums,
    do: op |> right(map(args, &noise/1), call) |> map(&noise/1)

  defp inexact(:as_type, [t, _] = args, call) do
    result = call.(args)
    if same?(t, result), do: result, else: noise(result)
  end

  # The sign of a complex number is a quotient.
  defp inexact(:sign, [%T{type: {:c, _}}] = args, call),
    do: :sign |> right(args, call) |> map(&noise/1)

  defp inexact(op, args, call) do
    results = right(op, args, call)
    if op in @exact and not rounds?(args, results), do: results, else: map(results, &noise/1)
  end

  # Functions that only move elements convert them too, to the type that tensors of several types have in common, and the
  # size of a complex number is a root.
  defp rounds?(args, %T{type: type} = result) do
    types =
      for %T{type: own} <- List.flatten(args),
          elem(type, 1) <= 16 or not Number.integer?(own),
          do: own

    not Number.integer?(type) and Enum.any?(types, &(&1 != type)) and
      not eager_same?(args, result)
  end

  defp rounds?(_args, _results), do: false
  defp eager_same?([%T{type: {kind, _}} = t], result) when kind != :c, do: same?(t, result)
  defp eager_same?(_args, _result), do: false

  # Conversions that round are right to the last place, but for the types that Nx truncates.
  defp same?(_t, %T{type: type}) when type in [{:f, 32}, {:f, 64}, {:f, 16}], do: true
  defp same?(t, result), do: Number.list(t) == Number.list(result)

  defp map(list, fun) when is_list(list), do: Enum.map(list, &map(&1, fun))
  defp map(%T{} = t, fun), do: fun.(t)

  defp map(tuple, fun) when is_tuple(tuple),
    do: tuple |> Tuple.to_list() |> map(fun) |> List.to_tuple()

  defp map(other, _fun), do: other

  defp noise(%T{data: %Nx.BinaryBackend{}} = t), do: Noise.add(t)
  defp noise(t), do: t

  defp zeros(%T{data: %Nx.BinaryBackend{}} = t), do: Noise.zeros(t)
  defp zeros(t), do: t
end
