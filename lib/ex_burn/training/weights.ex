defmodule ExBurn.Training.Weights do
  @moduledoc """
  Weights of rows and of classes in a loss.

  A loss is the mean of what it says of each item: a row, or a place in a row where the prediction has more axes. With
  weights it is the weighted mean, `sum(w * l) / sum(w)`, or 0 where all weights are 0. The weight of an item is that of its
  row times that of its class. A batch counts as much as its items weigh: over an epoch, over the batches of an evaluation, and
  among those that make one step with `accumulate_gradients:`. So the loss of many batches, and the step that they make, is that
  of all their rows as one batch. Without weights, and with a loss of one's own, a batch counts as many times as it has rows;
  so it does in the means of metrics.
  """

  alias ExBurn.Options

  @typedoc "By class number, or in the order of the classes. Classes that a map lacks have the weight 1."
  @type classes :: %{non_neg_integer() => number()} | [number()]

  @typedoc "`:rows` is a vector, `:class` as the user gave it; `nil` where there are none."
  @type t :: [rows: Nx.Tensor.t() | nil, class: classes() | nil]

  @doc """
  Whether a value is weights of classes.

  ## Examples

      iex> Enum.map([%{0 => 1, 3 => 0.5}, [1, 2], %{a: 1}, [-1]], &ExBurn.Training.Weights.classes?/1)
      [true, true, false, false]

  """
  @spec classes?(term()) :: boolean()
  def classes?(list) when is_list(list), do: list != [] and Enum.all?(list, &weight?/1)

  def classes?(map) when is_map(map) and not is_struct(map) do
    Enum.all?(map, fn {class, weight} -> is_integer(class) and class >= 0 and weight?(weight) end)
  end

  def classes?(_other), do: false

  defp weight?(weight), do: Options.float?(weight)

  @doc """
  The weights of `count` classes as a list.

  ## Examples

      iex> ExBurn.Training.Weights.list!(%{1 => 5}, 3, :fit)
      [1.0, 5.0, 1.0]
      iex> ExBurn.Training.Weights.list!([1, 2], 3, :fit)
      ** (ExBurn.Error) fit: class_weights: is [1, 2], expected weights of classes 0..2

  """
  @spec list!(classes(), pos_integer(), atom()) :: [float()]
  def list!(weights, count, op) do
    fits? =
      if is_list(weights),
        do: length(weights) == count,
        else: Enum.all?(Map.keys(weights), &(&1 < count))

    Options.check!(fits?, op, :class_weights, weights, "weights of classes 0..#{count - 1}")
    at = if is_list(weights), do: &Enum.at(weights, &1), else: &Map.get(weights, &1, 1)
    for class <- 0..(count - 1), do: at.(class) * 1.0
  end

  @doc """
  The mean of `items`, weighted by `by_item`, which has their shape, and `by_row`, and how much a batch of them counts: as many
  rows of weight 1. Either weights may be `nil`.

  ## Examples

      iex> items = Nx.tensor([[1.0, 3.0], [5.0, 7.0]])
      iex> {mean, weight} = ExBurn.Training.Weights.mean(items, nil, Nx.tensor([3.0, 1.0]))
      iex> {Nx.to_number(mean), Nx.to_number(weight)}
      {3.0, 4.0}
      iex> {mean, weight} = ExBurn.Training.Weights.mean(items, Nx.tensor([[0, 0], [1, 1]]), nil)
      iex> {Nx.to_number(mean), Nx.to_number(weight)}
      {6.0, 1.0}

  """
  @spec mean(Nx.Tensor.t(), Nx.Tensor.t() | nil, Nx.Tensor.t() | nil) ::
          {Nx.Tensor.t(), Nx.Tensor.t()}
  def mean(items, nil, nil), do: {Nx.mean(items), Nx.tensor(rows(items) * 1.0)}
  def mean(items, by_item, nil), do: weighted(items, by_item)
  def mean(items, nil, by_row), do: weighted(items, along_rows(by_row, items))

  def mean(items, by_item, by_row),
    do: weighted(items, Nx.multiply(by_item, along_rows(by_row, items)))

  defp along_rows(by_row, items) do
    shape = put_elem(Tuple.duplicate(1, Nx.rank(items)), 0, Nx.size(by_row))
    by_row |> Nx.reshape(shape) |> Nx.broadcast(items)
  end

  defp weighted(items, weights) do
    total = Nx.sum(weights)

    mean =
      items
      |> Nx.multiply(weights)
      |> Nx.sum()
      |> Nx.divide(Nx.select(Nx.equal(total, 0), 1, total))

    {mean, Nx.multiply(total, rows(items) / Nx.size(items))}
  end

  # A prediction of no axes is one row.
  defp rows(items), do: if(Nx.rank(items) == 0, do: 1, else: Nx.axis_size(items, 0))
end
