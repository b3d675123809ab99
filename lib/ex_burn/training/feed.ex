defmodule ExBurn.Training.Feed do
  @moduledoc """
  An enumerable of batches, taken one at a time as a run asks for them.

  Each epoch enumerates anew. Enumerables that hold a resource give it back when the feed is closed, also in mid-epoch.
  """

  @enforce_keys [:enumerable]
  defstruct [:enumerable, :continue, taken: 0]

  @type t :: %__MODULE__{
          enumerable: Enumerable.t(),
          continue: (Enumerable.acc() -> Enumerable.result()) | :ended | nil,
          taken: non_neg_integer()
        }

  @doc """
  Whether `data` can be enumerated. A tensor can, but its elements are no batches.

  ## Examples

      iex> Enum.map([[], 1..3, Nx.iota({3}), fn -> [] end], &ExBurn.Training.Feed.batches?/1)
      [true, true, false, false]

  """
  @spec batches?(term()) :: boolean()
  def batches?(%Nx.Tensor{}), do: false
  def batches?(function) when is_function(function), do: is_function(function, 2)
  def batches?(data), do: Enumerable.impl_for(data) != nil

  @doc """
  A feed that stands before the first batch of an epoch.
  """
  @spec new(Enumerable.t()) :: t()
  def new(enumerable), do: %__MODULE__{enumerable: enumerable}

  @doc """
  The feed behind the first `count` batches of the epoch, which are enumerated but not looked at.

  ## Examples

      iex> feed = ExBurn.Training.Feed.skip(ExBurn.Training.Feed.new([:a, :b]), 1)
      iex> {:b, feed} = ExBurn.Training.Feed.next(feed)
      iex> {:a, _feed} = ExBurn.Training.Feed.next(ExBurn.Training.Feed.rewind(feed))
      iex> feed.taken
      2

  """
  @spec skip(t(), non_neg_integer()) :: t()
  def skip(%__MODULE__{enumerable: enumerable} = feed, count),
    do: %{feed | continue: enumerable |> Stream.drop(count) |> start(), taken: count}

  defp start(enumerable),
    do: &Enumerable.reduce(enumerable, &1, fn x, _ -> {:suspend, {:some, x}} end)

  @doc """
  The same feed before the first batch of its next epoch.
  """
  @spec rewind(t()) :: t()
  def rewind(%__MODULE__{} = feed), do: %{feed | continue: nil, taken: 0}

  @doc """
  The next batch, or `:end` when the epoch has no more. `:ended` says that it was told before.

  What the enumerable raises is thrown as `{ExBurn.Training.Feed, number, kind, reason, stacktrace}`, with the number of the batch that was to
  come; don't close the feed then.

  ## Examples

      iex> feed = ExBurn.Training.Feed.new([:a])
      iex> {:a, feed} = ExBurn.Training.Feed.next(feed)
      iex> {:end, feed} = ExBurn.Training.Feed.next(feed)
      iex> {:ended, _feed} = ExBurn.Training.Feed.next(feed)
      iex> feed.taken
      1

  """
  @spec next(t()) :: {term() | :end | :ended, t()}
  def next(%__MODULE__{continue: :ended} = feed), do: {:ended, feed}

  def next(%__MODULE__{continue: nil, enumerable: enumerable} = feed) do
    next(%{feed | continue: start(enumerable)})
  end

  def next(%__MODULE__{continue: continue} = feed) do
    case take(continue, feed.taken + 1) do
      {:suspended, {:some, batch}, continue} ->
        {batch, %{feed | continue: continue, taken: feed.taken + 1}}

      # An enumerable may end together with its last element.
      {_ended, {:some, batch}} ->
        {batch, %{feed | continue: fn _ -> {:done, nil} end, taken: feed.taken + 1}}

      {_ended, nil} ->
        {:end, %{feed | continue: :ended}}
    end
  end

  # An enumerable that raises has cleaned up, and must not be asked to once more.
  defp take(continue, number) do
    continue.({:cont, nil})
  catch
    kind, reason -> throw({__MODULE__, number, kind, reason, __STACKTRACE__})
  end

  @doc """
  Lets the enumerable clean up. What it raises is thrown as by `next/1`, with the number of the last batch.
  """
  @spec close(t() | nil) :: :ok
  def close(%__MODULE__{continue: continue, taken: taken}) when is_function(continue, 1) do
    continue.({:halt, nil})
    :ok
  catch
    kind, reason -> throw({__MODULE__, max(taken, 1), kind, reason, __STACKTRACE__})
  end

  def close(_feed), do: :ok
end
