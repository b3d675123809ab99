defmodule ExBurn.Training.Evaluation do
  @moduledoc """
  Loss and metrics of a model as it predicts: see `ExBurn.Training.evaluate/3`.
  """

  alias ExBurn.{Error, Model, Training}
  alias ExBurn.Training.{Data, Feed, History, Metric, Options, Step}

  @doc """
  See `ExBurn.Training.evaluate/3`.
  """
  @spec means(Model.t(), Training.data() | Enumerable.t(Training.data()), keyword()) :: %{
          atom() => History.value()
        }
  def means(model, data, opts) do
    Model.expect!(model, :evaluate)
    opts = Options.validate!(opts, [batch_size: 32, class_weights: nil], :evaluate)
    model = %{model | class_weights: opts.class_weights}
    names = [:loss | Enum.map(model.metrics, &Metric.name/1)]

    {sums, rows} =
      data
      |> batches!(model, opts.batch_size)
      |> Enum.reduce({List.duplicate(0.0, length(names)), 0}, fn batch, {sums, rows} ->
        values =
          model |> evaluate_batch(batch) |> Enum.map(&(Nx.to_number(&1) |> weigh(batch.rows)))

        {Enum.zip_with(sums, values, &add/2), rows + batch.rows}
      end)

    if rows == 0, do: raise(Error, op: :evaluate, reason: "the data is empty: it has no batches")
    names |> Enum.zip(Enum.map(sums, &weigh(&1, 1 / rows))) |> Map.new()
  end

  defp batches!(rows, model, size) when is_tuple(rows),
    do: rows |> Data.new!(model, :evaluate) |> Data.batches(size)

  defp batches!(batches, model, _size) do
    if Feed.batches?(batches),
      do: Stream.map(batches, &Data.new!(&1, model, :evaluate)),
      else: Data.new!(batches, model, :evaluate)
  end

  defp evaluate_batch(model, batch) do
    step = Step.fetch!(model, :inference, Data.templates(batch, batch.rows), :evaluate)
    Step.check_targets!(step, model, batch.y, :evaluate)
    Step.evaluate(step, model, batch)
  end

  # Nx.to_number/1 answers an atom for what is not finite, and that swallows the sum.
  defp weigh(value, weight) when is_number(value), do: value * weight
  defp weigh(value, _weight), do: value
  defp add(a, b) when is_number(a) and is_number(b), do: a + b
  defp add(a, b), do: if(is_atom(a), do: a, else: b)
end
