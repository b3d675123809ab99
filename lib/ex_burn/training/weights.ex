defmodule ExBurn.Training.Weights do
  @moduledoc """
  Weights of rows and of classes in a loss.

  A loss is the mean of what it says of each item: a row, or a place in a row where the prediction has more axes. With
  weights it is the weighted mean, `sum(w * l) / sum(w)`, or 0 where all weights are 0. The weight of an item is that of its
  row times that of its class. A batch counts as much as its items weigh: over an epoch, over the batches of an evaluation, and
  among those that make one step with `accumulate_gradients:`. So the loss of many batches, and the step that they make, is that
  of all their rows as one batch. Without weights, and with a loss of one's own, a batch counts as many times as it has rows;
  so it does in the means of metrics.

  They are numbers of `f32`, and so is what those of a batch add up to: others are refused. What they are multiplied with is each
  one's share of that sum, so weights of any size have the loss of their ratios.
  """

  alias ExBurn.{Error, Options}
  alias ExBurn.Training.History

  # Weights are added up in f32, in which smaller numbers are coarse or 0.
  @least 1.1754943508222875e-38
  @largest 3.4028234663852886e38

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
  def classes?(list) when is_list(list), do: list != [] and Options.list_of?(list, &weight?/1)

  def classes?(map) when is_map(map) and not is_struct(map) do
    Enum.all?(map, fn {class, weight} -> is_integer(class) and class >= 0 and weight?(weight) end)
  end

  def classes?(_other), do: false

  @doc """
  Whether a value is a weight: a number of at least 0 that `f32` can hold.

  ## Examples

      iex> Enum.map([0, 1.0e38, 1.0e39, 1.0e-39, -1, :nan], &ExBurn.Training.Weights.weight?/1)
      [true, true, false, false, false, false]

  """
  @spec weight?(term()) :: boolean()
  def weight?(value),
    do: is_number(value) and (value == 0 or (value >= @least and value <= @largest))

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
  Refuses weights whose sum over a batch `f32` can't hold. The batch has `rows` rows of `items` items, which are of `classes`
  classes; the weights of rows may be those of several batches.

  ## Examples

      iex> ExBurn.Training.Weights.check_sum!([rows: Nx.tensor([3.0e38, 0.0]), class: nil], {2, 1, nil}, :fit)
      :ok
      iex> ExBurn.Training.Weights.check_sum!([rows: nil, class: [1.0, 2.0e38]], {2, 1, 2}, :fit)
      ** (ExBurn.Error) fit: class_weights: of up to 2.00e+38 can add up to 4.00e+38 in a batch, which is more than the 3.4e38 that f32 can hold; divide all by one number, their ratios are what counts

  """
  @spec check_sum!(t(), {pos_integer(), pos_integer(), pos_integer() | nil}, atom()) :: :ok
  def check_sum!([rows: nil, class: nil], _size, _op), do: :ok

  def check_sum!([rows: by_row, class: by_class], {rows, items, classes}, op) do
    {row, all_rows} = if by_row, do: largest_and_sum(by_row, rows), else: {1.0, rows * 1.0}
    class = if by_class, do: by_class |> list!(classes, op) |> Enum.max(), else: 1.0
    {largest, sum} = {row * class, all_rows * class * items}
    names = for {name, w} <- [weights: by_row, class_weights: by_class], w, do: "#{name}:"
    subject = "#{Enum.join(names, " times ")} of up to #{History.number(largest)}"

    too_much = "can add up to #{History.number(sum)} in a batch, which is more than the 3.4e38"

    cond do
      sum > @largest -> refused!(op, "#{subject} #{too_much}")
      largest != 0 and largest < @least -> refused!(op, "#{subject} are less than the 1.2e-38")
      true -> :ok
    end
  end

  # Several batches may be cut from these rows. A sum that is infinite is more than all bounds.
  defp largest_and_sum(weights, rows) do
    [largest, sum] = for t <- [Nx.reduce_max(weights), Nx.sum(weights)], do: Nx.to_number(t)
    most = largest * rows
    {largest, if(is_number(sum), do: min(sum, most), else: most)}
  end

  defp refused!(op, what) do
    raise Error,
      op: op,
      reason: "#{what} that f32 can hold; divide all by one number, their ratios are what counts"
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

  # Shares of the total are small enough to be multiplied by any item.
  defp weighted(items, weights) do
    weights = Nx.as_type(weights, Nx.Type.merge(weights.type, items.type))
    total = Nx.sum(weights)
    shares = Nx.divide(weights, Nx.select(Nx.equal(total, 0), 1, total))
    mean = items |> Nx.multiply(shares) |> Nx.sum()
    {mean, Nx.multiply(total, rows(items) / Nx.size(items))}
  end

  # A prediction of no axes is one row.
  defp rows(items), do: if(Nx.rank(items) == 0, do: 1, else: Nx.axis_size(items, 0))
end
