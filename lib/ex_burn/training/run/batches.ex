defmodule ExBurn.Training.Run.Batches do
  @moduledoc """
  Batches of an enumerable for the native loop, each with the program of its size.
  """

  alias ExBurn.{Error, NIF}
  alias ExBurn.Training.{Data, Failure, Feed, Run, Step}

  @doc """
  Gives the run `count` more batches, or fewer and the end of the epoch.
  """
  @spec feed(Run.t(), non_neg_integer()) :: Run.t()
  def feed(run, 0), do: run

  def feed(run, count) do
    case Feed.next(run.feed) do
      {:ended, feed} -> %{run | feed: feed}
      {:end, %{taken: 0}} -> no_batches!(run)
      {:end, feed} -> end_epoch(%{run | feed: feed})
      {batch, feed} -> %{run | feed: feed} |> give(batch) |> feed(count - 1)
    end
  end

  defp end_epoch(run) do
    Error.unwrap!(NIF.train_feed_end(run.handle))
    run
  end

  defp give(run, batch) do
    fit(run, batch)
  rescue
    error ->
      cause = {:batch, length(run.history) + 1, run.feed.taken}
      reraise Failure.error(error, cause), __STACKTRACE__
  catch
    :exit, reason ->
      reason
      |> Failure.exit({:batch, length(run.history) + 1, run.feed.taken})
      |> Failure.reraise_exit(reason, __STACKTRACE__)
  end

  defp fit(run, batch) do
    data = Data.new!(batch, run.model, :fit)
    {step, run} = step(run, Data.templates(data, data.rows))
    Step.check_values!(step, run.model, data, data.rows, :fit)
    Error.unwrap!(NIF.train_feed(run.handle, step.program, Step.refs(Data.tensors(data))))
    run
  end

  defp step(run, templates) do
    step =
      Map.get_lazy(run.steps, templates, fn -> Step.fetch!(run.model, :train, templates, :fit) end)

    steps = Map.put(run.steps, templates, step)
    {step, %{run | steps: steps, calls: Map.merge(run.calls, step.calls)}}
  end

  defp no_batches!(%{history: []}),
    do: raise(Error, op: :fit, reason: "the data is empty: it has no batches")

  defp no_batches!(%{history: history}) do
    raise Error,
      op: :fit,
      reason:
        "the data had no batches in epoch #{length(history) + 1}; " <>
          "each epoch enumerates it anew, so it must not be used up by the first"
  end
end
