defmodule ExBurn.Training.Evaluation do
  @moduledoc """
  Loss and metrics of a model as it predicts: see `ExBurn.Training.evaluate/3`.
  """

  alias ExBurn.{Error, Model, Training}
  alias ExBurn.Training.{Data, Failure, Feed, History, Metric, Options, Step}

  @doc """
  See `ExBurn.Training.evaluate/3`.
  """
  @spec means(Model.t(), Training.data() | Enumerable.t(Training.data()), keyword()) :: %{
          atom() => History.value()
        }
  def means(model, data, opts) do
    Model.expect!(model, :evaluate)
    opts = Options.validate!(opts, [batch_size: 32, class_weights: nil], :evaluate)
    model = %{model | class_weights: opts.class_weights, loss_scale: nil}
    names = [:loss | Enum.map(model.metrics, &Metric.name/1)]
    nothing = List.duplicate(0.0, length(names))

    {sums, counts, batches} =
      data
      |> batches!(model, opts.batch_size)
      |> reduce({nothing, nothing, 0}, model)

    if batches == 0,
      do: raise(Error, op: :evaluate, reason: "the data is empty: it has no batches")

    names |> Enum.zip(Enum.zip_with(sums, counts, &weigh(&1, over(&2)))) |> Map.new()
  end

  # Rows that weigh nothing have the loss 0.
  defp over(count) when count == 0, do: 0.0
  defp over(count), do: 1 / count

  defp batches!(rows, model, size) when is_tuple(rows),
    do: rows |> Data.new!(model, :evaluate) |> Data.batches(size)

  defp batches!(batches, model, _size) do
    if Feed.batches?(batches),
      do: batches |> Stream.with_index(1) |> Stream.map(&batch!(&1, model)),
      else: Data.new!(batches, model, :evaluate)
  end

  defp batch!({batch, number}, model),
    do: Failure.within("batch #{number}", fn -> Data.new!(batch, model, :evaluate) end)

  # What is not of the model and its hooks, the enumerable has raised.
  defp reduce(batches, start, model) do
    Failure.calling(:evaluate, "the data", fn ->
      Enum.reduce(batches, start, &add_batch(&1, &2, model))
    end)
  end

  # The loss counts as much as the rows weigh, a metric as many times as there are rows.
  defp add_batch(batch, {sums, counts, batches}, model) do
    {values, [weight]} = values(model, batch)
    times = [weight | List.duplicate(batch.rows, length(values) - 1)]
    weighed = Enum.zip_with(values, times, &weigh/2)
    {Enum.zip_with(sums, weighed, &add/2), Enum.zip_with(counts, times, &add/2), batches + 1}
  end

  defp values(model, batch) do
    Failure.calling(:evaluate, "the model", fn ->
      model |> evaluate_batch(batch) |> Enum.map(&Nx.to_number/1) |> Enum.split(-1)
    end)
  end

  defp evaluate_batch(model, batch) do
    step = Step.fetch!(model, :inference, Data.templates(batch, batch.rows), :evaluate)
    Step.check_values!(step, model, batch, batch.rows, :evaluate)
    Step.evaluate(step, model, batch)
  end

  # Nx.to_number/1 answers an atom for what is not finite, and that swallows the sum.
  defp weigh(value, weight) when is_number(value), do: finite(value, fn -> value * weight end)
  defp weigh(value, _weight), do: value
  defp add(a, b) when is_number(a) and is_number(b), do: finite(a, fn -> a + b end)
  defp add(a, b), do: if(is_atom(a), do: a, else: b)

  # Where a float overflows, Elixir raises.
  defp finite(sign, fun) do
    fun.()
  rescue
    ArithmeticError -> if sign < 0, do: :neg_infinity, else: :infinity
  end
end
