defmodule ExBurn.Training.Rates do
  @moduledoc """
  The learning rates of a run: what its schedule says, and what callbacks make of it.

  The native loop has one rate for an epoch, or with a schedule by steps a table of rates and a factor for an epoch.
  """

  alias ExBurn.Model
  alias ExBurn.Training.{Data, Schedule}

  @doc """
  The table of a schedule by steps for a run over `data`, or over batches that are enumerated; `[]` for other schedules.
  """
  @spec table!(map(), Data.t() | nil, Enumerable.t()) :: [float()]
  def table!(%{lr_schedule: schedule} = options, data, batches) do
    if Schedule.steps?(schedule),
      do: Schedule.rates!(schedule, steps(options, batches(data, batches, options)), :fit),
      else: []
  end

  defp batches(nil, batches, _options) do
    case Enumerable.count(batches) do
      {:ok, count} -> count
      {:error, _module} -> nil
    end
  end

  defp batches(%Data{rows: rows}, _batches, options), do: ceil_div(rows, options.batch_size)

  defp steps(_options, nil), do: nil

  defp steps(options, batches),
    do: max(options.epochs * ceil_div(batches, options.accumulate_gradients), 1)

  defp ceil_div(a, b), do: div(a + b - 1, b)

  @doc """
  The rate of `epoch`, before callbacks have changed it: with a table that of the next step that is not 0, which callbacks can make
  larger or smaller. `nil` after the last epoch.

  ## Examples

      iex> model = ExBurn.compile(Axon.dense(Axon.input("x", shape: {nil, 1}), 1), loss: :mse, learning_rate: 0.1)
      iex> ExBurn.Training.Rates.base(model, %{epochs: 2, lr_schedule: nil}, [], 1, 0)
      0.1
      iex> ExBurn.Training.Rates.base(model, %{epochs: 2}, [0.1, 0.2, 0.3], 1, 1)
      0.2

  """
  @spec base(Model.t(), map(), [float()], pos_integer(), non_neg_integer()) :: float() | nil
  def base(_model, %{epochs: epochs}, _table, epoch, _steps) when epoch > epochs, do: nil
  def base(model, %{lr_schedule: nil}, [], _epoch, _steps), do: model.learning_rate

  def base(_model, options, [], epoch, _steps),
    do: Schedule.rate(options.lr_schedule, epoch, options.epochs, :fit)

  def base(_model, _options, table, _epoch, steps) do
    left = Enum.drop(table, min(steps, length(table) - 1))
    Enum.find(left, hd(left), &(&1 != 0))
  end

  @doc """
  What the native loop is told, where callbacks made `rate` of a rate `base`: the rate, or with a table the factor.

  ## Examples

      iex> {ExBurn.Training.Rates.told(0.1, 0.2, []), ExBurn.Training.Rates.told(0.1, 0.2, [0.2, 0.4])}
      {0.1, 0.5}

  """
  @spec told(float(), float(), [float()]) :: float()
  def told(rate, _base, []), do: rate
  def told(rate, base, _table) when rate == base, do: 1.0
  def told(rate, base, _table), do: rate / base
end
