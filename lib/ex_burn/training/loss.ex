defmodule ExBurn.Training.Loss do
  @moduledoc """
  Losses: from targets and predictions to the scalar that training makes small.

  | loss | formula, as a mean over all rows | targets |
  |---|---|---|
  | `:cross_entropy` | `-sum(y * log_softmax(z))` over the last axis `z` of the prediction | class numbers `0..C-1`, or weights of the `C` classes such as one-hot |
  | `:binary_cross_entropy` | `-(y * log(p) + (1 - y) * log(1 - p))` | shaped as the prediction, in `0..1` |
  | `:mse` | `(y - p)^2` | shaped as the prediction |

  `:cross_entropy` takes logits. When the model ends in Axon's `softmax` the logits before it are used, which Axon
  notes in the prediction's metadata, so both kinds of model give the same loss. `log_softmax` at the end changes nothing
  either, because the function is idempotent. Class numbers are integers shaped as the prediction without its last axis;
  a last axis of length 1 may stay.

  `:binary_cross_entropy` takes probabilities and clamps them to `1.0e-7..1 - 1.0e-7`. When the model ends in
  `sigmoid`, the loss is computed from the logits before it, without clamping:
  `max(z, 0) - z * y + log(1 + exp(-|z|))`.

  Predictions of 16 bits are widened to `f32` first. Any function `fn y_true, y_pred -> scalar end` that `defn` can trace
  is a loss too; it sees containers if the model answers or the data holds them.

  Sources: Goodfellow, Bengio and Courville, Deep Learning (2016), sections 5.5 and 6.2.2, which derives both cross
  entropies as negative log-likelihoods and explains why they are computed from logits.
  """

  import Nx.Defn

  alias ExBurn.{Error, Options}
  alias Nx.Tensor, as: T

  @names [:cross_entropy, :mse, :binary_cross_entropy]
  @clamp 1.0e-7

  @type t :: atom() | (Nx.Container.t(), Nx.Container.t() -> Nx.Tensor.t())

  @doc """
  Names of the losses.

  ## Examples

      iex> ExBurn.Training.Loss.names()
      [:cross_entropy, :mse, :binary_cross_entropy]

  """
  @spec names() :: [atom()]
  def names, do: @names

  @doc """
  The loss, if it is one.

  ## Examples

      iex> ExBurn.Training.Loss.fetch!(:mse)
      :mse
      iex> ExBurn.Training.Loss.fetch!(:mean)
      ** (ExBurn.Error) compile: loss: is :mean, expected :cross_entropy, :mse, :binary_cross_entropy or a function of targets and predictions

  """
  @spec fetch!(term(), atom()) :: t()
  def fetch!(loss, op \\ :compile) do
    expected = "#{Options.list(@names)} or a function of targets and predictions"
    Options.check!(loss in @names or is_function(loss, 2), op, :loss, loss, expected)
    loss
  end

  @doc """
  The loss of `y_pred`, a scalar.

  ## Examples

      iex> ExBurn.Training.Loss.apply(:mse, Nx.tensor([[1.0], [3.0]]), Nx.tensor([[1.0], [1.0]])) |> Nx.to_number()
      2.0
      iex> logits = Nx.tensor([[0.0, 0.0], [0.0, 0.0]])
      iex> ExBurn.Training.Loss.apply(:cross_entropy, Nx.tensor([0, 1]), logits) |> Nx.to_number() |> Float.round(4)
      0.6931

  """
  @spec apply(t(), Nx.Container.t(), Nx.Container.t()) :: Nx.Tensor.t()
  def apply(loss, y_true, y_pred)

  def apply(loss, y_true, y_pred) when is_function(loss, 2),
    do: loss.(y_true, y_pred) |> check_scalar!()

  def apply(loss, y_true, %T{} = y_pred) do
    check_shapes!(loss, y_true, y_pred)
    named(loss, y_true, y_pred)
  end

  def apply(loss, _y_true, y_pred), do: one_tensor!(loss, "the model answers", y_pred)

  defp named(:mse, y_true, y_pred), do: mean_square(y_true, widen(y_pred))

  defp named(:cross_entropy, y_true, y_pred) do
    {_kind, logits} = logits(y_pred)

    if class_numbers?(y_true, y_pred),
      do: y_true |> column(logits) |> cross_entropy_of_classes(widen(logits)),
      else: cross_entropy(y_true, widen(logits))
  end

  defp named(:binary_cross_entropy, y_true, y_pred) do
    case logits(y_pred) do
      {:sigmoid, logits} -> sigmoid_cross_entropy(y_true, widen(logits))
      _other -> binary_cross_entropy(y_true, widen(y_pred))
    end
  end

  defnp mean_square(y, p), do: Nx.mean((p - y) * (p - y))

  defnp cross_entropy(y, z), do: -Nx.mean(Nx.sum(y * log_softmax(z), axes: [-1]))

  defnp cross_entropy_of_classes(y, z),
    do: -Nx.mean(Nx.take_along_axis(log_softmax(z), y, axis: -1))

  # The largest logit is subtracted first, so no exponential overflows.
  defnp log_softmax(z) do
    z = z - stop_grad(Nx.reduce_max(z, axes: [-1], keep_axes: true))
    z - Nx.log(Nx.sum(Nx.exp(z), axes: [-1], keep_axes: true))
  end

  defnp sigmoid_cross_entropy(y, z),
    do: Nx.mean(Nx.max(z, 0) - z * y + Nx.log1p(Nx.exp(-Nx.abs(z))))

  defnp binary_cross_entropy(y, p) do
    p = Nx.clip(p, @clamp, 1 - @clamp)
    -Nx.mean(y * Nx.log(p) + (1 - y) * Nx.log(1 - p))
  end

  defp column(classes, logits),
    do: if(Nx.rank(classes) < Nx.rank(logits), do: Nx.new_axis(classes, -1), else: classes)

  # Axon wraps what `softmax` and `sigmoid` answer in metadata that holds their operand.
  defp logits(%T{data: %{op: :metadata, args: [%T{data: %{op: op}}, %{logits: logits}]}}),
    do: {op, logits}

  defp logits(y_pred), do: {:none, y_pred}

  defp widen(%T{type: {kind, size}} = t) when kind in [:f, :bf] and size < 32,
    do: Nx.as_type(t, :f32)

  defp widen(t), do: t

  defp class_numbers?(%T{} = y_true, %T{} = y_pred),
    do: Nx.Type.integer?(y_true.type) and y_true.shape in class_shapes(y_pred)

  defp class_shapes(%T{shape: shape}) do
    last = tuple_size(shape) - 1
    [Tuple.delete_at(shape, last), put_elem(shape, last, 1)]
  end

  ## Checks

  @doc """
  Refuses targets whose values the loss has no meaning for: class numbers that are no class of the prediction,
  probabilities outside of `0..1`.

  `y_pred` is a template of the prediction, of any number of rows.

  ## Examples

      iex> ExBurn.Training.Loss.check_targets!(:cross_entropy, Nx.tensor([0, 3]), Nx.template({2, 3}, :f32), :fit)
      ** (ExBurn.Error) fit: labels of :cross_entropy must lie in 0..2 because the model answers 3 classes, got 0..3

  """
  @spec check_targets!(t(), Nx.Container.t(), Nx.Container.t(), atom()) :: :ok
  def check_targets!(loss, y_true, y_pred, op)

  def check_targets!(:cross_entropy, %T{} = y_true, %T{} = y_pred, op) do
    if class_numbers?(y_true, with_rows_of(y_pred, y_true)) do
      classes = elem(y_pred.shape, tuple_size(y_pred.shape) - 1)
      why = " because the model answers #{classes} classes"
      check_range!("labels of :cross_entropy", y_true, classes - 1, why, op)
    else
      check_range!("targets of :cross_entropy", y_true, 1, "", op)
    end
  end

  def check_targets!(:binary_cross_entropy, %T{} = y_true, _y_pred, op),
    do: check_range!("targets of :binary_cross_entropy", y_true, 1, "", op)

  def check_targets!(_loss, _y_true, _y_pred, _op), do: :ok

  defp with_rows_of(%T{} = t, %T{shape: shape}),
    do: %{t | shape: put_elem(t.shape, 0, elem(shape, 0))}

  defp check_range!(what, t, last, why, op) do
    low = t |> Nx.reduce_min() |> Nx.to_number()
    high = t |> Nx.reduce_max() |> Nx.to_number()

    unless is_number(low) and is_number(high) and low >= 0 and high <= last do
      raise Error, op: op, reason: "#{what} must lie in 0..#{last}#{why}, got #{low}..#{high}"
    end

    :ok
  end

  defp check_shapes!(:cross_entropy, %T{} = y_true, %T{shape: shape} = y_pred) do
    cond do
      shape == {} or elem(shape, tuple_size(shape) - 1) < 2 -> too_few_classes!(shape)
      class_numbers?(y_true, y_pred) or y_true.shape == shape -> :ok
      y_true.shape in class_shapes(y_pred) -> float_labels!(y_true)
      true -> wrong_targets!(:cross_entropy, y_true, [shape | class_shapes(y_pred)])
    end
  end

  defp check_shapes!(_loss, %T{shape: shape}, %T{shape: shape}), do: :ok

  defp check_shapes!(loss, %T{} = y_true, y_pred),
    do: wrong_targets!(loss, y_true, [y_pred.shape])

  defp check_shapes!(loss, y_true, _y_pred), do: one_tensor!(loss, "the data holds", y_true)

  defp wrong_targets!(loss, y_true, shapes) do
    raise Error,
      op: :loss,
      reason:
        "targets of #{inspect(loss)} have the shape #{inspect(y_true.shape)}, " <>
          "expected #{Enum.map_join(shapes, " or ", &inspect/1)} for this model"
  end

  defp too_few_classes!(shape) do
    raise Error,
      op: :loss,
      reason:
        ":cross_entropy needs at least 2 classes on the prediction's last axis, the model answers the shape " <>
          "#{inspect(shape)}; for one probability use :binary_cross_entropy"
  end

  defp float_labels!(y_true) do
    raise Error,
      op: :loss,
      reason:
        "labels of :cross_entropy must be integers, got #{ExBurn.Type.name(y_true.type)}#{inspect(y_true.shape)}; " <>
          "cast them with Nx.as_type/2"
  end

  defp one_tensor!(loss, who, container) do
    raise Error,
      op: :loss,
      reason:
        "#{inspect(loss)} compares one tensor with one, #{who} a container of #{Nx.Defn.Composite.count(container)}; " <>
          "give a function of y_true and y_pred"
  end

  defp check_scalar!(%T{shape: {}, type: {kind, _}} = loss) when kind in [:f, :bf], do: loss

  defp check_scalar!(%T{} = loss) do
    raise Error,
      op: :loss,
      reason:
        "the loss must be a float scalar, got #{ExBurn.Type.name(loss.type)} of the shape #{inspect(loss.shape)}"
  end

  defp check_scalar!(other) do
    raise Error,
      op: :loss,
      reason: "the loss must be a float scalar tensor, got #{Options.short(other)}"
  end
end
