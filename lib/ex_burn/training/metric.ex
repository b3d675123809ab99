defmodule ExBurn.Training.Metric do
  @moduledoc """
  Metrics: numbers that say how good predictions are, reported beside the loss and not trained on.

  | metric | meaning |
  |---|---|
  | `:accuracy` | share of rows predicted right. A prediction whose last axis has length 1, or that has no axis but that of the rows, is a probability and is compared with 0.5; otherwise its largest entry along the last axis is the predicted class. Targets are class numbers or one-hot |
  | `:top_5_accuracy` | share of rows whose class is among the five with the largest entries, of two of the same size the first |
  | `:precision` | of the probabilities above 0.5, the share whose target is 1; 0 when there are none |
  | `:recall` | of the probabilities whose target is 1, the share above 0.5; 0 when there are none |
  | `:f1` | the harmonic mean of these two |
  | `:mae`, `:mse` | mean distance and mean square of the distance of prediction and target, which have the same shape |

  `{name, fun}` is a metric of one's own: `fun` takes `y_true` and `y_pred`, answers a scalar and must be traceable by
  `defn`; `name` is an atom that the history does not use for something else. Over an epoch or an evaluation metrics
  are averaged, weighted by the size of the batches. So those that are no means of rows, `:precision`, `:recall` and `:f1`, depend
  on `batch_size:`; one of as many rows as there are gives those of the whole.
  """

  alias ExBurn.{Error, Options, Type}
  alias ExBurn.Training.{Failure, History}
  alias Nx.Tensor, as: T

  @names [:accuracy, :top_5_accuracy, :precision, :recall, :f1, :mae, :mse]

  @type t :: atom() | {atom(), (Nx.Container.t(), Nx.Container.t() -> Nx.Tensor.t())}

  @doc """
  Names of the metrics.
  """
  @spec names() :: [atom()]
  def names, do: @names

  @doc """
  The metric, if it is one.

  ## Examples

      iex> ExBurn.Training.Metric.fetch!(:accuracy)
      :accuracy
      iex> ExBurn.Training.Metric.fetch!(:f2)
      ** (ExBurn.Error) compile: metrics: is :f2, expected a list of :accuracy, :top_5_accuracy, :precision, :recall, :f1, :mae, :mse or {name, function of targets and predictions}

  """
  @spec fetch!(term(), atom()) :: t()
  def fetch!(metric, op \\ :compile) do
    expected = "a list of #{Options.list(@names)} or {name, function of targets and predictions}"
    Options.check!(metric?(metric), op, :metrics, metric, expected)
    metric
  end

  defp metric?({name, fun}),
    do: is_atom(name) and name not in History.reserved() and is_function(fun, 2)

  defp metric?(name), do: name in @names

  @doc """
  The name under which a metric is reported.

  ## Examples

      iex> ExBurn.Training.Metric.name({:error, fn y, p -> Nx.mean(Nx.subtract(y, p)) end})
      :error

  """
  @spec name(t()) :: atom()
  def name({name, _fun}), do: name
  def name(name), do: name

  @doc """
  The metric of `y_pred`, a scalar.

  ## Examples

      iex> y_pred = Nx.tensor([[0.1, 0.9], [0.8, 0.2]])
      iex> ExBurn.Training.Metric.apply(:accuracy, Nx.tensor([1, 1]), y_pred) |> Nx.to_number()
      0.5
      iex> ExBurn.Training.Metric.apply(:accuracy, Nx.tensor([1, 0]), Nx.tensor([[0.7], [0.4]])) |> Nx.to_number()
      1.0

  """
  @spec apply(t(), Nx.Container.t(), Nx.Container.t()) :: Nx.Tensor.t()
  def apply(metric, y_true, y_pred)

  def apply({name, fun}, y_true, y_pred) do
    who = "the metric #{inspect(name)}"

    case Failure.calling(:metric, who, fn -> fun.(y_true, y_pred) end) do
      %T{shape: {}, type: {kind, _}} = value when kind != :c -> value
      other -> not_scalar!(name, other)
    end
  end

  def apply(name, %T{} = y_true, %T{} = y_pred) when name in @names do
    real!(name, y_true, y_pred)
    built_in(name, y_true, y_pred)
  end

  def apply(name, _y_true, _y_pred) do
    raise Error,
      op: :metric,
      reason:
        "#{inspect(name)} compares one tensor with one; give {name, function of y_true and y_pred}"
  end

  # One probability for each row.
  defp built_in(:accuracy, %T{shape: {rows}} = y_true, %T{shape: {rows}} = y_pred),
    do: built_in(:accuracy, Nx.new_axis(y_true, 1), Nx.new_axis(y_pred, 1))

  defp built_in(name, y_true, y_pred) when name in [:accuracy, :top_5_accuracy] do
    classes!(name, y_true, y_pred)
    right(name, y_true, y_pred)
  end

  defp built_in(:mae, y_true, y_pred),
    do: y_pred |> difference(y_true, :mae) |> Nx.abs() |> Nx.mean()

  defp built_in(:mse, y_true, y_pred),
    do: y_pred |> difference(y_true, :mse) |> Nx.pow(2) |> Nx.mean()

  defp built_in(name, y_true, y_pred) do
    same_shape!(name, y_true, y_pred)
    [positive, wanted] = [Nx.greater(y_pred, 0.5), Nx.greater(y_true, 0.5)]
    right = positive |> Nx.logical_and(wanted) |> Nx.sum()
    [positive, wanted] = Enum.map([positive, wanted], &Nx.sum/1)

    case name do
      :precision -> share(right, positive)
      :recall -> share(right, wanted)
      :f1 -> share(Nx.multiply(2, right), Nx.add(positive, wanted))
    end
  end

  defp right(:accuracy, y_true, y_pred) do
    y_pred
    |> predicted()
    |> Nx.equal(expected(y_true, y_pred))
    |> Nx.mean()
  end

  # How many entries come before that of the class tells its place, without an order of all.
  defp right(:top_5_accuracy, y_true, y_pred) do
    classes = y_true |> expected(y_pred) |> Nx.new_axis(-1)
    own = Nx.take_along_axis(y_pred, classes, axis: -1)

    earlier =
      y_pred.shape
      |> Nx.iota(axis: -1)
      |> Nx.less(classes)
      |> Nx.logical_and(Nx.equal(y_pred, own))

    before = y_pred |> Nx.greater(own) |> Nx.logical_or(earlier) |> Nx.sum(axes: [-1])
    before |> Nx.less(5) |> Nx.mean()
  end

  defp share(part, all), do: Nx.divide(part, Nx.max(all, 1))

  defp difference(y_pred, y_true, name) do
    same_shape!(name, y_true, y_pred)
    Nx.subtract(y_pred, y_true)
  end

  # Class numbers with or without a last axis of length 1, or weights of the classes.
  defp classes!(_name, %T{shape: shape}, %T{shape: shape}) when shape != {}, do: :ok

  defp classes!(name, %T{} = y_true, %T{} = y_pred) do
    last = tuple_size(y_pred.shape) - 1

    shapes =
      if last >= 0,
        do: [Tuple.delete_at(y_pred.shape, last), put_elem(y_pred.shape, last, 1)],
        else: []

    if y_true.shape not in shapes do
      raise Error,
        op: :metric,
        reason:
          "#{inspect(name)} compares classes along the last axis, got targets #{inspect(y_true.shape)} and " <>
            "predictions #{inspect(y_pred.shape)}"
    end
  end

  defp same_shape!(_name, %T{shape: shape}, %T{shape: shape}), do: :ok

  defp same_shape!(name, y_true, y_pred) do
    raise Error,
      op: :metric,
      reason:
        "#{inspect(name)} compares tensors of one shape, got targets #{inspect(y_true.shape)} and " <>
          "predictions #{inspect(y_pred.shape)}"
  end

  defp predicted(y_pred) do
    if binary?(y_pred),
      do: y_pred |> Nx.squeeze(axes: [-1]) |> Nx.greater(0.5),
      else: Nx.argmax(y_pred, axis: -1)
  end

  defp expected(y_true, y_pred) do
    cond do
      Nx.rank(y_true) < Nx.rank(y_pred) -> y_true
      Nx.axis_size(y_true, -1) == 1 -> Nx.squeeze(y_true, axes: [-1])
      true -> Nx.argmax(y_true, axis: -1)
    end
  end

  defp binary?(y_pred), do: Nx.axis_size(y_pred, -1) == 1

  defp real!(name, y_true, y_pred) do
    if Enum.any?([y_true, y_pred], &match?(%T{type: {:c, _}}, &1)) do
      [targets, predictions] = Enum.map([y_true, y_pred], &Type.name(&1.type))

      raise Error,
        op: :metric,
        reason:
          "#{inspect(name)} compares real numbers, got targets of #{targets} and predictions of #{predictions}"
    end
  end

  defp not_scalar!(name, %T{} = got) do
    raise Error,
      op: :metric,
      reason:
        "#{inspect(name)} must answer a scalar of a real type, got #{Type.name(got.type)} of the shape #{inspect(got.shape)}"
  end

  defp not_scalar!(name, got) do
    raise Error,
      op: :metric,
      reason: "#{inspect(name)} must answer a scalar tensor, got #{Options.short(got)}"
  end
end
