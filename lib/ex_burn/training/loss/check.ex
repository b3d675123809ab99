defmodule ExBurn.Training.Loss.Check do
  @moduledoc """
  What losses refuse.
  """

  alias ExBurn.{Error, Options}
  alias ExBurn.Training.{Loss, Weights}
  alias Nx.Tensor, as: T

  @doc """
  Whether targets are class numbers of the prediction's last axis.
  """
  @spec class_numbers?(Nx.Tensor.t(), Nx.Tensor.t()) :: boolean()
  def class_numbers?(%T{} = y_true, %T{} = y_pred),
    do: Nx.Type.integer?(y_true.type) and y_true.shape in class_shapes(y_pred)

  defp class_shapes(%T{shape: shape}) do
    last = tuple_size(shape) - 1
    [Tuple.delete_at(shape, last), put_elem(shape, last, 1)]
  end

  @doc """
  Refuses weights that the loss does not take.

  ## Examples

      iex> ExBurn.Training.Loss.Check.weights!(:mse, class: [1, 2])
      ** (ExBurn.Error) loss: :mse has no classes to weigh; class_weights: goes with :cross_entropy and :binary_cross_entropy

  """
  @spec weights!(Loss.t(), Weights.t()) :: :ok
  def weights!(loss, weights) do
    if is_function(loss) and (weights[:class] || weights[:rows]) do
      raise Error,
        op: :loss,
        reason: "a loss function of one's own takes no weights; let it multiply by them"
    end

    if weights[:class] != nil and loss not in [:cross_entropy, :binary_cross_entropy] do
      raise Error,
        op: :loss,
        reason:
          "#{inspect(loss)} has no classes to weigh; class_weights: goes with :cross_entropy and :binary_cross_entropy"
    end

    :ok
  end

  @doc """
  Refuses targets whose values the loss has no meaning for: class numbers that are no class of the prediction,
  probabilities outside of `0..1`.

  `y_pred` is a template of the prediction, of any number of rows.

  ## Examples

      iex> ExBurn.Training.Loss.Check.targets!(:cross_entropy, Nx.tensor([0, 3]), Nx.template({2, 3}, :f32), :fit)
      ** (ExBurn.Error) fit: labels of :cross_entropy must lie in 0..2 because the model answers 3 classes, got 0..3

  """
  @spec targets!(Loss.t(), Nx.Container.t(), Nx.Container.t(), atom()) :: :ok
  def targets!(loss, y_true, y_pred, op)

  def targets!(:cross_entropy, %T{} = y_true, %T{} = y_pred, op) do
    if class_numbers?(y_true, with_rows_of(y_pred, y_true)) do
      classes = elem(y_pred.shape, tuple_size(y_pred.shape) - 1)
      why = " because the model answers #{classes} classes"
      check_range!("labels of :cross_entropy", y_true, 0, classes - 1, why, op)
    else
      check_range!("targets of :cross_entropy", y_true, 0, 1, "", op)
    end
  end

  def targets!(:binary_cross_entropy, %T{} = y_true, _y_pred, op),
    do: check_range!("targets of :binary_cross_entropy", y_true, 0, 1, "", op)

  def targets!(:hinge, %T{} = y_true, _y_pred, op),
    do: check_range!("targets of :hinge", y_true, -1, 1, "", op)

  def targets!(:kl_div, %T{} = y_true, _y_pred, op),
    do: check_range!("targets of :kl_div", y_true, 0, 1, "", op)

  def targets!(_loss, _y_true, _y_pred, _op), do: :ok

  defp with_rows_of(%T{} = t, %T{shape: shape}),
    do: %{t | shape: put_elem(t.shape, 0, elem(shape, 0))}

  defp check_range!(what, t, first, last, why, op) do
    low = t |> Nx.reduce_min() |> Nx.to_number()
    high = t |> Nx.reduce_max() |> Nx.to_number()

    unless is_number(low) and is_number(high) and low >= first and high <= last do
      raise Error,
        op: op,
        reason: "#{what} must lie in #{first}..#{last}#{why}, got #{low}..#{high}"
    end

    :ok
  end

  @doc """
  Refuses targets that don't fit the prediction, both as a built-in loss sees them.
  """
  @spec shapes!(atom(), Nx.Container.t(), Nx.Container.t()) :: :ok
  def shapes!(loss, %T{type: {:c, _}} = y_true, _y_pred), do: complex!(loss, "targets", y_true)
  def shapes!(loss, %T{}, %T{type: {:c, _}} = y), do: complex!(loss, "the model's answers", y)

  def shapes!(:cross_entropy, %T{} = y_true, %T{shape: shape} = y_pred) do
    cond do
      shape == {} or elem(shape, tuple_size(shape) - 1) < 2 -> too_few_classes!(shape)
      class_numbers?(y_true, y_pred) or y_true.shape == shape -> :ok
      y_true.shape in class_shapes(y_pred) -> float_labels!(y_true)
      true -> wrong_targets!(:cross_entropy, y_true, [shape | class_shapes(y_pred)])
    end
  end

  def shapes!(_loss, %T{shape: shape}, %T{shape: shape}), do: :ok

  def shapes!(loss, %T{} = y_true, %T{} = y_pred),
    do: wrong_targets!(loss, y_true, [y_pred.shape])

  def shapes!(loss, y_true, %T{}), do: one_tensor!(loss, "the data holds", y_true)
  def shapes!(loss, _y_true, y_pred), do: one_tensor!(loss, "the model answers", y_pred)

  defp complex!(loss, whose, t) do
    raise Error,
      op: :loss,
      reason:
        "#{inspect(loss)} compares real numbers, #{whose} are #{ExBurn.Type.name(t.type)}; " <>
          "give their parts by Nx.real/1 and Nx.imag/1, or a function of y_true and y_pred"
  end

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

  @doc """
  What a function answered, if it is a loss.
  """
  @spec scalar!(term()) :: Nx.Tensor.t()
  def scalar!(%T{shape: {}, type: {kind, _}} = loss) when kind in [:f, :bf], do: loss

  def scalar!(%T{} = loss) do
    raise Error,
      op: :loss,
      reason:
        "the loss must be a float scalar, got #{ExBurn.Type.name(loss.type)} of the shape #{inspect(loss.shape)}"
  end

  def scalar!(other) do
    raise Error,
      op: :loss,
      reason: "the loss must be a float scalar tensor, got #{Options.short(other)}"
  end
end
