defmodule ExBurn.Training.Checkpoint do
  @moduledoc """
  What a run has reached after an epoch, or within one, in a file: `ExBurn.Training.checkpoint_callback/3` writes them, the
  option `resume:` of `ExBurn.fit/3` goes on from one.

  A checkpoint holds all parameters and states (running statistics, keys of dropout), the optimizer's memory and steps, the
  number of the epoch, how many of its batches are done with the sums of their losses, the loss scale, the history, and the best
  model, if a callback keeps it. The order of the rows
  depends on the seed and the epoch's number, the learning rate on the schedule and the history, so a run that goes on from a
  checkpoint ends with the same bits as one that was not interrupted, on the same device. It must be given the same model,
  data and options, but for `:epochs`, `:verbose` and `:callbacks`; those that can be compared are, of data only how many rows
  `{x, y}` has, and functions can't. After a whole epoch the model may have other metrics; the history keeps those that it has.

  Files are written beside their place and renamed, so they are whole or not there. A file that was cut short later, whose
  contents differ from the checksum that was written with them, or that is no checkpoint, is passed over with a warning when a
  directory is searched for the newest one. Files of versions that wrote no checksum are read without.
  """

  require Logger

  alias ExBurn.{Error, Model, Options}
  alias ExBurn.Training.Callbacks.Watch
  alias ExBurn.Training.Checkpoint.{Contents, Folder, Settings}
  alias ExBurn.Training.{History, LossScale}

  @typedoc "`:means` is where in an epoch it is, as the native loop says it, or `nil` after one."
  @type snapshot :: %{
          model: Model.t(),
          options: map(),
          history: History.t(),
          means: map() | nil,
          loss_scale: LossScale.state() | nil,
          kept: %{pos_integer() => Model.t()}
        }

  defdelegate path(dir, epochs, batches \\ nil), to: Folder
  defdelegate list(dir), to: Folder
  defdelegate prune(path, keep, besides \\ []), to: Folder
  defdelegate beyond(path), to: Folder
  defdelegate sweep(dir), to: Folder
  defdelegate write(path, snapshot), to: Contents

  @doc """
  The model and the options of a run that goes on from `options.resume`, or of a new run.

  The options get `:first_epoch`, where in it the run goes on, the `:history` before it and what else is in a checkpoint.
  """
  @spec resume!(Model.t(), map()) :: {Model.t(), map()}
  def resume!(model, %{resume: nil} = options), do: fresh(model, options)

  def resume!(model, %{resume: path} = options) do
    with {:ok, path, contents} <- read_newest(path) do
      now = Settings.of(model, options)
      # Between epochs there are no sums of metrics, so others may follow.
      now = if contents["means"], do: now, else: Map.delete(now, "metrics")
      Settings.compare!(now, contents["settings"], path)
      kept = Contents.kept!(model, path, contents, :fit)
      {model, history} = Contents.put!(model, path, contents, :fit)
      more = %{first_epoch: length(history) + 1, history: history, kept: kept}
      {model, options |> Map.merge(more) |> Map.merge(Contents.place(contents))}
    else
      :none -> if file?(path), do: no_file!(path), else: fresh(model, options)
      {:error, reason} -> raise Error, op: :fit, reason: "resume: #{reason}"
    end
  end

  # A directory may be one that the first run is going to make.
  defp file?(path), do: Path.extname(path) == ".safetensors"

  defp no_file!(path) do
    raise Error,
      op: :fit,
      reason:
        "resume: there is no file #{path}; give a directory to start anew where it has no checkpoint"
  end

  defp fresh(model, options) do
    more = %{first_epoch: 1, history: [], kept: %{}, means: nil, loss_scale_state: nil}
    {%{model | optimizer_state: nil}, Map.merge(options, more)}
  end

  @doc """
  The models of epochs that are known where a run goes on: those that callbacks kept, and that of the last epoch if nothing came
  after it.
  """
  @spec kept(map(), Model.t(), History.t()) :: %{pos_integer() => Model.t()}
  def kept(%{means: nil, kept: kept}, model, [_ | _] = history),
    do: Map.put(kept, length(history), %{model | loss_scale: nil})

  def kept(options, _model, _history), do: Map.get(options, :kept, %{})

  @doc """
  A model with the parameters of a checkpoint, and the history before it, when the run that wrote it is gone.

  `path` is the directory of a `checkpoint_callback/3`, of which the newest checkpoint that is whole is taken, or one
  checkpoint. `fit/3` with `resume:` goes on from it instead.

  ## Options

    * `:best` - whether to take the best checkpoint of a directory that was written after a whole epoch, by the history of the
      newest one. Defaults to `false`
    * `:monitor` - the value of the history by which they are judged, e.g. `:val_accuracy`. Defaults to the validation loss, or
      the loss where there is no validation data
    * `:mode` - `:min` or `:max`, what is better. Needed for metrics of one's own; else it is known

  ## Examples

      iex> model = ExBurn.compile(Axon.dense(Axon.input("x", shape: {nil, 1}), 1), loss: :mse)
      iex> ExBurn.Training.restore(model, "/none")
      ** (ExBurn.Error) restore: /none has no checkpoint that is whole

  """
  @spec restore(Model.t(), Path.t(), keyword()) :: {Model.t(), History.t()}
  def restore(model, path, opts \\ []) do
    Model.expect!(model, :restore)
    Options.check!(is_binary(path), :restore, :path, path, "a directory or a checkpoint")
    opts = Options.validate!(:restore, opts, best: false, monitor: nil, mode: nil)
    Options.check!(is_boolean(opts[:best]), :restore, :best, opts[:best], "true or false")
    if not opts[:best], do: Watch.unused!(:restore, opts, "best: true")

    case if(opts[:best], do: best(model, path, opts), else: read_newest(path)) do
      {:ok, path, contents} -> put(model, path, contents)
      :none -> raise Error, op: :restore, reason: "#{path} has no checkpoint that is whole"
      {:error, reason} -> raise Error, op: :restore, reason: reason
    end
  end

  defp put(model, path, contents) do
    {model, history} = Contents.put!(model, path, contents, :restore)
    {%{model | optimizer_state: nil}, history}
  end

  defp read_newest(path) do
    if File.regular?(path) do
      with {:ok, contents} <- Contents.read(path), do: {:ok, path, contents}
    else
      path |> list() |> first_whole()
    end
  end

  defp first_whole(paths) do
    Enum.find_value(paths, :none, fn path ->
      case Contents.read(path) do
        {:ok, contents} ->
          {:ok, path, contents}

        {:error, reason} ->
          Logger.warning("a checkpoint is passed over: #{reason}")
          nil
      end
    end)
  end

  # The newest one knows the values of all epochs.
  defp best(model, dir, opts) do
    watch = Watch.new!(:restore, opts[:monitor], opts[:mode], 0)

    with {:ok, newest, contents} <- read_newest(dir) do
      {_model, history} = put(model, newest, contents)

      ranked = for %{epoch: epoch} <- Watch.rank(watch, history), do: Folder.path(dir, epoch)
      ranked |> Enum.filter(&File.exists?/1) |> first_whole()
    end
  end

  @doc """
  The newest checkpoint of a directory that can be read, or the file itself; `:none` when there is none.
  """
  @spec newest(Path.t()) :: {:ok, Path.t()} | :none
  def newest(path) do
    if File.regular?(path) do
      {:ok, path}
    else
      with {:ok, path, _contents} <- read_newest(path), do: {:ok, path}
    end
  end
end
