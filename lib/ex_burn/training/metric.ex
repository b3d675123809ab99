defmodule ExBurn.Training.Metric do
  @moduledoc """
  Metrics: numbers that say how good predictions are, reported beside the loss and not trained on.

  `:accuracy` is the share of rows predicted right. A prediction whose last axis has length 1 is a probability and is
  compared with 0.5; otherwise its largest entry along the last axis is the predicted class. Targets are class numbers
  or one-hot.

  `{name, fun}` is a metric of one's own: `fun` takes `y_true` and `y_pred`, answers a scalar and must be traceable by
  `defn`; `name` is an atom that the history does not use for something else. Over an epoch metrics are averaged, weighted by the size of the batches.
  """

  alias ExBurn.{Error, Options}
  alias Nx.Tensor, as: T

  @names [:accuracy]

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
      iex> ExBurn.Training.Metric.fetch!(:f1)
      ** (ExBurn.Error) compile: metrics: is :f1, expected a list of :accuracy or {name, function of targets and predictions}

  """
  @spec fetch!(term(), atom()) :: t()
  def fetch!(metric, op \\ :compile) do
    expected = "a list of #{Options.list(@names)} or {name, function of targets and predictions}"
    Options.check!(metric?(metric), op, :metrics, metric, expected)
    metric
  end

  # Other values of a history's entry and of the callbacks' events have these names.
  @taken [:epoch, :epochs, :loss, :val_loss, :learning_rate, :seconds, :samples, :model] ++
           [:step, :steps, :samples_per_second]

  defp metric?({name, fun}), do: is_atom(name) and name not in @taken and is_function(fun, 2)
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
    case fun.(y_true, y_pred) do
      %T{shape: {}} = value -> value
      other -> not_scalar!(name, other)
    end
  end

  def apply(:accuracy, %T{} = y_true, %T{} = y_pred) do
    y_pred
    |> predicted()
    |> Nx.equal(expected(y_true, y_pred))
    |> Nx.mean()
  end

  def apply(name, _y_true, _y_pred) do
    raise Error,
      op: :metric,
      reason:
        "#{inspect(name)} compares one tensor with one; give {name, function of y_true and y_pred}"
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

  defp not_scalar!(name, got) do
    raise Error,
      op: :metric,
      reason: "#{inspect(name)} must answer a scalar tensor, got #{Options.short(got)}"
  end
end
