defmodule ExBurn.Training.Callbacks.Checkpoints do
  @moduledoc """
  The callback that writes checkpoints.
  """

  require Logger

  alias ExBurn.{Error, Options}
  alias ExBurn.Training.{Callbacks, Checkpoint}
  alias ExBurn.Training.Callbacks.Watch

  @op :checkpoint_callback

  @doc """
  Writes a checkpoint after each epoch whose number `every` divides, or with `{every, :steps}` after each so many batches
  within an epoch, to the directory `dir`, which is made if it is not there: see `ExBurn.Training.Checkpoint`.

  Where gradients of several batches make a step, it is written behind the next batch that ends one.

  A run that is not resumed had better have a directory of its own: checkpoints that an earlier one left there stay, and those
  that the run has not come to are newer than its own. It warns of them.

  ## Options

    * `:keep` - (positive integer) how many of the newest are kept, or `:all`. Defaults to `:all`, with `:best` to `1`
    * `:best` - (positive integer) how many of the best are kept besides, of those after whole epochs.
      `ExBurn.Training.restore/3` with `best: true` takes the best of them
    * `:monitor` - the value of the history by which they are judged, e.g. `:val_accuracy`. Defaults to the validation loss, or
      the loss where there is no validation data
    * `:mode` - `:min` or `:max`, what is better. Needed for metrics of one's own; else it is known

  ## Examples

      iex> is_function(ExBurn.Training.checkpoint_callback(1, "runs", best: 3, monitor: :val_accuracy), 2)
      true

  """
  @spec checkpoint(pos_integer() | {pos_integer(), :steps}, Path.t(), keyword()) :: Callbacks.t()
  def checkpoint(every, dir, opts \\ []) do
    default = if Keyword.keyword?(opts) and opts[:best], do: 1, else: :all
    opts = Options.validate!(@op, opts, keep: default, best: nil, monitor: nil, mode: nil)
    path? = is_binary(dir) and dir != ""
    Options.check!(path?, @op, :dir, dir, "the path of a directory")
    if opts[:keep] != :all, do: Options.positive!(@op, :keep, opts[:keep])
    if opts[:best] != nil, do: Options.positive!(@op, :best, opts[:best])
    watch = Watch.new!(@op, opts[:monitor], opts[:mode], 0)
    if opts[:best] == nil, do: Watch.unused!(@op, opts, "best:")

    case every do
      {steps, :steps} ->
        Options.positive!(@op, :every, steps)
        expected = "nil within epochs, whose checkpoints have no value yet"
        Options.check!(opts[:best] == nil, @op, :best, opts[:best], expected)
        within_epochs(steps, dir, opts[:keep])

      epochs ->
        Options.positive!(@op, :every, epochs)
        after_epochs(epochs, dir, {opts[:keep], opts[:best], watch})
    end
  end

  # The state is the history, the newest epoch first.
  defp after_epochs(every, dir, {keep, best, watch}) do
    fn
      {:start, info}, _state ->
        if best, do: Watch.expect!(watch, info.reported)
        begin(dir, info)
        {:cont, Enum.reverse(info.history)}

      {:epoch, %{epoch: epoch} = info}, state ->
        history = [info | state || []]

        if rem(epoch, every) == 0 do
          path = write(info, dir, Checkpoint.path(dir, epoch))
          Checkpoint.prune(path, keep, best(history, best, dir, watch))
        end

        {:cont, if(best, do: history, else: [])}

      _event, state ->
        {:cont, state}
    end
  end

  defp best(_history, nil, _dir, _watch), do: []

  defp best(history, count, dir, watch) do
    there = MapSet.new(Checkpoint.list(dir))
    ranked = Watch.rank(watch, Enum.reverse(history))
    paths = for entry <- ranked, path = Checkpoint.path(dir, entry.epoch), path in there, do: path
    Enum.take(paths, count)
  end

  # Other callbacks may want a run to pause more often. The state is where it was written last.
  defp within_epochs(every, dir, keep) do
    fn
      {:start, info}, state ->
        begin(dir, info)
        {:cont, state}

      {:pauses, _info}, _state ->
        {:every, every}

      {:step, %{epoch: epoch, step: step} = info}, state ->
        due? = div(step, every) > div(last_step(state, epoch), every)

        if due? do
          path = write(info, dir, Checkpoint.path(dir, epoch - 1, step))
          Checkpoint.prune(path, keep)
        end

        {:cont, if(due?, do: {epoch, step}, else: state)}

      _event, state ->
        {:cont, state}
    end
  end

  defp last_step({epoch, step}, epoch), do: step
  defp last_step(_state, _epoch), do: 0

  defp write(info, dir, path) do
    make_dir!(dir)
    info.checkpoint.(path)
    path
  end

  defp begin(dir, info) do
    Checkpoint.sweep(dir)
    warn_of_others(dir, info)
  end

  defp warn_of_others(dir, info) do
    with [newest | _] <- Checkpoint.beyond(Checkpoint.path(dir, length(info.history), info.step)) do
      Logger.warning(
        "checkpoint_callback: #{dir} has checkpoints of another run, up to #{Path.basename(newest)}, which are taken for " <>
          "newer than those of this run until it has come so far; remove them, or go on from them with resume:"
      )
    end
  end

  defp make_dir!(dir) do
    with {:error, reason} <- File.mkdir_p(dir) do
      raise Error, op: @op, reason: "#{dir}: #{:file.format_error(reason)}"
    end
  end
end
