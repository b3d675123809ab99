defmodule ExBurn.Training.Callbacks.Watch do
  @moduledoc """
  A value of the history that is watched for its best epoch: by callbacks that stop, keep, or slow down a run.

    * `:monitor` - the name of the value, e.g. `:val_accuracy`; `nil` for the validation loss, or the loss where there is no
      validation data
    * `:mode` - `:min` or `:max`, what is better; `nil` for what is better of a loss or of a metric of ExBurn's own
    * `:min_delta` - an epoch is better only by more than this
  """

  alias ExBurn.{Error, Options}

  @enforce_keys [:op, :monitor, :mode, :min_delta]
  defstruct @enforce_keys ++ [best: nil, epoch: nil, waited: 0]

  @typedoc "With the best value, its epoch, and how many epochs there have been since."
  @type t :: %__MODULE__{
          op: atom(),
          monitor: atom() | nil,
          mode: :min | :max,
          min_delta: number(),
          best: number() | nil,
          epoch: pos_integer() | nil,
          waited: non_neg_integer()
        }

  @modes %{
    loss: :min,
    mae: :min,
    mse: :min,
    accuracy: :max,
    top_5_accuracy: :max,
    precision: :max,
    recall: :max,
    f1: :max
  }

  @doc """
  What the callback `op` watches. Wrong options are refused.

  ## Examples

      iex> ExBurn.Training.Callbacks.Watch.new!(:early_stopping_callback, :val_accuracy, nil, 0.0).mode
      :max
      iex> ExBurn.Training.Callbacks.Watch.new!(:early_stopping_callback, :score, nil, 0.0)
      ** (ExBurn.Error) early_stopping_callback: mode: is nil, expected :min or :max, whichever is better of :score

  """
  @spec new!(atom(), atom() | nil, :min | :max | nil, number()) :: t()
  def new!(op, monitor, mode, min_delta) do
    expected = "the name of a value in the history, such as :val_loss"
    Options.check!(is_atom(monitor), op, :monitor, monitor, expected)
    Options.check!(Options.float?(min_delta), op, :min_delta, min_delta, Options.float(min_delta))
    better = mode || @modes[base(monitor || :loss)]
    expected = ":min or :max, whichever is better of #{inspect(monitor)}"
    Options.check!(better in [:min, :max], op, :mode, mode, expected)
    %__MODULE__{op: op, monitor: monitor, mode: better, min_delta: min_delta}
  end

  @doc """
  Refuses options of what is watched where nothing is.

  ## Examples

      iex> ExBurn.Training.Callbacks.Watch.unused!(:restore, [monitor: :loss, mode: nil], "best: true")
      ** (ExBurn.Error) restore: monitor: is :loss, which goes with best: true; give that too, or leave it out

  """
  @spec unused!(atom(), keyword(), String.t()) :: :ok
  def unused!(op, opts, needed) do
    for name <- [:monitor, :mode], opts[name] != nil do
      raise Error,
        op: op,
        reason:
          "#{name}: is #{Options.short(opts[name])}, which goes with #{needed}; give that too, or leave it out"
    end

    :ok
  end

  # The metric that is behind a value of validation data.
  defp base(name) do
    case Atom.to_string(name) do
      "val_" <> rest -> Enum.find(Map.keys(@modes), &(Atom.to_string(&1) == rest))
      _other -> name
    end
  end

  @doc """
  Refuses to watch what a run does not report.

  ## Examples

      iex> watch = ExBurn.Training.Callbacks.Watch.new!(:early_stopping_callback, :val_loss, nil, 0.0)
      iex> ExBurn.Training.Callbacks.Watch.expect!(watch, [:loss, :mae])
      ** (ExBurn.Error) early_stopping_callback: monitor: is :val_loss, expected one of :loss, :mae, which this run reports

  """
  @spec expect!(t(), [atom()]) :: :ok
  def expect!(%__MODULE__{monitor: nil}, _reported), do: :ok

  def expect!(%__MODULE__{monitor: monitor, op: op}, reported) do
    expected = "one of #{Options.list(reported)}, which this run reports"
    Options.check!(monitor in reported, op, :monitor, monitor, expected)
  end

  @doc """
  The value of an entry of the history.
  """
  @spec value(t(), map()) :: ExBurn.Training.History.value()
  def value(%__MODULE__{monitor: nil}, entry), do: entry.val_loss || entry.loss

  def value(%__MODULE__{monitor: monitor, op: op}, entry) do
    case entry do
      %{^monitor => value} -> value
      %{} -> raise Error, op: op, reason: "monitor: the history has no #{inspect(monitor)}"
    end
  end

  @doc """
  After one more epoch.

  ## Examples

      iex> watch = ExBurn.Training.Callbacks.Watch.new!(:early_stopping_callback, :accuracy, nil, 0.0)
      iex> watch = for({a, n} <- [{0.5, 1}, {0.7, 2}, {0.6, 3}], do: %{accuracy: a, epoch: n}) |> Enum.reduce(watch, &ExBurn.Training.Callbacks.Watch.see(&2, &1))
      iex> {watch.best, watch.epoch, watch.waited}
      {0.7, 2, 1}

  """
  @spec see(t(), map()) :: t()
  def see(%__MODULE__{} = watch, entry) do
    value = value(watch, entry)

    if better?(watch, value),
      do: %{watch | best: value, epoch: entry[:epoch], waited: 0},
      else: %{watch | waited: watch.waited + 1}
  end

  defp better?(_watch, value) when not is_number(value), do: false
  defp better?(%{best: nil}, _value), do: true
  defp better?(%{mode: :min} = watch, value), do: value < watch.best - watch.min_delta
  defp better?(%{mode: :max} = watch, value), do: value > watch.best + watch.min_delta

  @doc """
  The entries of a history from the best one to the worst, without those that are not finite; of two that are alike the earlier
  one is first.

  ## Examples

      iex> watch = ExBurn.Training.Callbacks.Watch.new!(:restore, :accuracy, nil, 0)
      iex> history = for {a, n} <- [{0.5, 1}, {:nan, 2}, {0.7, 3}, {0.7, 4}], do: %{accuracy: a, epoch: n}
      iex> watch |> ExBurn.Training.Callbacks.Watch.rank(history) |> Enum.map(& &1.epoch)
      [3, 4, 1]

  """
  @spec rank(t(), [map()]) :: [map()]
  def rank(%__MODULE__{mode: mode} = watch, history) do
    history
    |> Enum.filter(&is_number(value(watch, &1)))
    |> Enum.sort_by(&value(watch, &1), if(mode == :min, do: :asc, else: :desc))
  end
end
