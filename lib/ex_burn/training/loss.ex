defmodule ExBurn.Training.Loss do
  @moduledoc """
  Losses: from targets and predictions to the scalar that training makes small.

  | loss | formula, as a mean over all rows | targets |
  |---|---|---|
  | `:cross_entropy` | `-sum(y * log_softmax(z))` over the last axis `z` of the prediction | class numbers `0..C-1`, or weights of the `C` classes such as one-hot |
  | `:binary_cross_entropy` | `-(y * log(p) + (1 - y) * log(1 - p))` | shaped as the prediction, in `0..1` |
  | `:mse` | `(y - p)^2` | shaped as the prediction |
  | `:mae` | `\|y - p\|` | shaped as the prediction |
  | `:huber` | `(y - p)^2 / 2` up to a distance of 1, `\|y - p\| - 1 / 2` beyond it | shaped as the prediction |
  | `:hinge` | `max(1 - y * p, 0)` | shaped as the prediction, in `-1..1` |
  | `:kl_div` | `sum(y * log(y / p))` over the last axis | shaped as the prediction, in `0..1` |

  `:cross_entropy` takes logits. When the model ends in Axon's `softmax` the logits before it are used, which Axon
  notes in the prediction's metadata, so both kinds of model give the same loss. `log_softmax` at the end changes nothing
  either, because the function is idempotent. Class numbers are integers shaped as the prediction without its last axis;
  a last axis of length 1 may stay.

  `:binary_cross_entropy` takes probabilities and clamps them to `1.0e-7..1 - 1.0e-7`. When the model ends in
  `sigmoid`, the loss is computed from the logits before it, without clamping:
  `max(z, 0) - z * y + log(1 + exp(-|z|))`.

  `:kl_div` takes probabilities, of both kinds, and clamps them to `1.0e-7..1`. When the model ends in `softmax`, the
  logarithm of its probabilities is computed from the logits before it, without clamping.

  Rows can have weights, see `ExBurn.Training.Weights`, and so can classes: of `:cross_entropy` the predicted ones, of
  `:binary_cross_entropy` 0 and 1.

  Predictions of 16 bits are widened to `f32` first. Any function `fn y_true, y_pred -> scalar end` that `defn` can trace
  is a loss too; it sees containers if the model answers or the data holds them, and takes no weights.

  Sources: Goodfellow, Bengio and Courville, Deep Learning (2016), sections 5.5 and 6.2.2, which derives both cross
  entropies as negative log-likelihoods and explains why they are computed from logits. Huber, Robust Estimation of a
  Location Parameter, Annals of Mathematical Statistics 35 (1964).
  """

  import Nx.Defn

  alias ExBurn.Options
  alias ExBurn.Training.{Failure, Weights}
  alias ExBurn.Training.Loss.Check
  alias Nx.Tensor, as: T

  @names [:cross_entropy, :mse, :mae, :huber, :binary_cross_entropy, :hinge, :kl_div]
  @clamp 1.0e-7

  @type t :: atom() | (Nx.Container.t(), Nx.Container.t() -> Nx.Tensor.t())

  @doc """
  Names of the losses.

  ## Examples

      iex> ExBurn.Training.Loss.names()
      [:cross_entropy, :mse, :mae, :huber, :binary_cross_entropy, :hinge, :kl_div]

  """
  @spec names() :: [atom()]
  def names, do: @names

  @doc """
  The loss, if it is one.

  ## Examples

      iex> ExBurn.Training.Loss.fetch!(:mse)
      :mse
      iex> ExBurn.Training.Loss.fetch!(:mean)
      ** (ExBurn.Error) compile: loss: is :mean, expected :cross_entropy, :mse, :mae, :huber, :binary_cross_entropy, :hinge, :kl_div or a function of targets and predictions

  """
  @spec fetch!(term(), atom()) :: t()
  def fetch!(loss, op \\ :compile) do
    expected = "#{Options.list(@names)} or a function of targets and predictions"
    Options.check!(loss in @names or is_function(loss, 2), op, :loss, loss, expected)
    loss
  end

  @doc """
  The loss of `y_pred`, a scalar, with weights or without.

  ## Examples

      iex> ExBurn.Training.Loss.apply(:mse, Nx.tensor([[1.0], [3.0]]), Nx.tensor([[1.0], [1.0]])) |> Nx.to_number()
      2.0
      iex> y = Nx.tensor([[1.0], [3.0]])
      iex> ExBurn.Training.Loss.apply(:mae, y, Nx.tensor([[1.0], [1.0]]), rows: Nx.tensor([1, 3])) |> Nx.to_number()
      1.5
      iex> logits = Nx.tensor([[0.0, 0.0], [0.0, 0.0]])
      iex> ExBurn.Training.Loss.apply(:cross_entropy, Nx.tensor([0, 1]), logits) |> Nx.to_number() |> Float.round(4)
      0.6931

  """
  @spec apply(t(), Nx.Container.t(), Nx.Container.t(), Weights.t()) :: Nx.Tensor.t()
  def apply(loss, y_true, y_pred, weights \\ []),
    do: loss |> with_weight(y_true, y_pred, weights, nil) |> elem(0)

  @doc """
  The loss, and how much its batch counts, see `ExBurn.Training.Weights`. With a function that is `rows`.

  ## Examples

      iex> {y, p, weights} = {Nx.tensor([[1.0], [3.0]]), Nx.tensor([[1.0], [1.0]]), [rows: Nx.tensor([1, 3])]}
      iex> {loss, weight} = ExBurn.Training.Loss.with_weight(:mae, y, p, weights, 2)
      iex> {Nx.to_number(loss), Nx.to_number(weight)}
      {1.5, 4.0}

  """
  @spec with_weight(t(), Nx.Container.t(), Nx.Container.t(), Weights.t(), number() | nil) ::
          {Nx.Tensor.t(), Nx.Tensor.t() | number() | nil}
  def with_weight(loss, y_true, y_pred, weights, rows) do
    Check.weights!(loss, weights)

    if is_function(loss, 2) do
      value = Failure.calling(:loss, "the loss function", fn -> loss.(y_true, y_pred) end)
      {Check.scalar!(value), rows}
    else
      Check.shapes!(loss, y_true, y_pred)
      named(loss, y_true, y_pred, weights)
    end
  end

  defp named(:cross_entropy, y_true, y_pred, weights) do
    {_kind, logits} = logits(y_pred)
    logits = widen(logits)

    if Check.class_numbers?(y_true, y_pred) do
      classes = column(y_true, logits)
      by_class = weights[:class] && Nx.take(classes!(weights, logits), classes)
      classes |> log_probabilities(logits) |> minus_mean(by_class, weights)
    else
      by_class = weights[:class] && Nx.dot(y_true, [-1], classes!(weights, logits), [0])
      y_true |> expected_logarithm(logits) |> minus_mean(by_class, weights)
    end
  end

  defp named(:binary_cross_entropy, y_true, y_pred, weights) do
    items =
      case logits(y_pred) do
        {:sigmoid, logits} -> sigmoid_cross_entropy(y_true, widen(logits))
        _other -> binary_cross_entropy(y_true, widen(y_pred))
      end

    Weights.mean(items, weights[:class] && by_side(y_true, weights[:class]), weights[:rows])
  end

  defp named(:kl_div, y_true, y_pred, weights) do
    items =
      case logits(y_pred) do
        {:softmax, logits} -> divergence_from_logits(y_true, widen(logits))
        _other -> divergence(y_true, widen(y_pred))
      end

    Weights.mean(items, nil, weights[:rows])
  end

  defp named(loss, y_true, y_pred, weights),
    do: loss |> items(y_true, widen(y_pred)) |> Weights.mean(nil, weights[:rows])

  defp items(:mse, y, p), do: square(y, p)
  defp items(:mae, y, p), do: distance(y, p)
  defp items(:huber, y, p), do: huber(y, p)
  defp items(:hinge, y, p), do: hinge(y, p)

  defp minus_mean(items, by_class, weights) do
    {mean, weight} = Weights.mean(items, by_class, weights[:rows])
    {Nx.negate(mean), weight}
  end

  defp classes!(weights, logits),
    do: weights[:class] |> Weights.list!(Nx.axis_size(logits, -1), :loss) |> Nx.tensor()

  defp by_side(y, weights) do
    [zero, one] = Weights.list!(weights, 2, :loss)
    Nx.add(Nx.multiply(y, one), Nx.multiply(Nx.subtract(1, y), zero))
  end

  defnp square(y, p), do: (p - y) * (p - y)

  defnp distance(y, p), do: Nx.abs(p - y)

  defnp huber(y, p) do
    distance = Nx.abs(p - y)
    Nx.select(distance <= 1, 0.5 * distance * distance, distance - 0.5)
  end

  defnp hinge(y, p), do: Nx.max(1 - y * p, 0)

  defnp divergence(y, p) do
    y = Nx.clip(y, @clamp, 1)
    Nx.sum(y * (Nx.log(y) - Nx.log(Nx.clip(p, @clamp, 1))), axes: [-1])
  end

  defnp divergence_from_logits(y, z) do
    y = Nx.clip(y, @clamp, 1)
    Nx.sum(y * (Nx.log(y) - log_softmax(z)), axes: [-1])
  end

  defnp expected_logarithm(y, z), do: Nx.sum(y * log_softmax(z), axes: [-1])

  defnp log_probabilities(y, z), do: Nx.take_along_axis(log_softmax(z), y, axis: -1)

  # The largest logit is subtracted first, so no exponential overflows.
  defnp log_softmax(z) do
    z = z - stop_grad(Nx.reduce_max(z, axes: [-1], keep_axes: true))
    z - Nx.log(Nx.sum(Nx.exp(z), axes: [-1], keep_axes: true))
  end

  defnp sigmoid_cross_entropy(y, z), do: Nx.max(z, 0) - z * y + Nx.log1p(Nx.exp(-Nx.abs(z)))

  defnp binary_cross_entropy(y, p) do
    p = Nx.clip(p, @clamp, 1 - @clamp)
    -(y * Nx.log(p) + (1 - y) * Nx.log(1 - p))
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

  @doc """
  How many items of a row a built-in loss takes the mean of, and of how many classes they are: `{items, classes}`.

  `y_pred` is a template of the prediction.

  ## Examples

      iex> template = Nx.template({8, 5, 3}, :f32)
      iex> Enum.map([:cross_entropy, :binary_cross_entropy, :mse], &ExBurn.Training.Loss.items(&1, template))
      [{5, 3}, {15, 2}, {15, nil}]

  """
  @spec items(atom(), Nx.Tensor.t()) :: {pos_integer(), pos_integer() | nil}
  def items(loss, %T{shape: {}}), do: {1, classes(loss, 1)}

  def items(loss, %T{shape: shape}) do
    [_rows | axes] = Tuple.to_list(shape)
    last = elem(shape, tuple_size(shape) - 1)
    all = Enum.product(axes)

    {if(loss in [:cross_entropy, :kl_div] and axes != [], do: div(all, last), else: all),
     classes(loss, last)}
  end

  defp classes(:cross_entropy, last), do: last
  defp classes(:binary_cross_entropy, _last), do: 2
  defp classes(_loss, _last), do: nil

  @doc """
  Refuses targets whose values the loss has no meaning for, see `ExBurn.Training.Loss.Check.targets!/4`.
  """
  @spec check_targets!(t(), Nx.Container.t(), Nx.Container.t(), atom()) :: :ok
  defdelegate check_targets!(loss, y_true, y_pred, op), to: Check, as: :targets!
end
