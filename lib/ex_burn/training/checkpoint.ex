defmodule ExBurn.Training.Checkpoint do
  @moduledoc """
  What a run has reached after an epoch, or within one, in a file: `ExBurn.Training.checkpoint_callback/3` writes them, the
  option `resume:` of `ExBurn.fit/3` goes on from one.

  A checkpoint holds all parameters and states (running statistics, keys of dropout), the optimizer's memory and steps, the
  number of the epoch, how many of its batches are done with the sums of their losses, and the history. The order of the rows
  depends on the seed and the epoch's number, the learning rate on the schedule and the history, so a run that goes on from a
  checkpoint ends with the same bits as one that was not interrupted, on the same device. It must be given the same model,
  data and options, but for `:epochs`, `:verbose` and `:callbacks`; those that can be compared are, which functions and data
  can't.

  Files are written beside their place and renamed, so they are whole or not there. A file that was cut short later, or is
  no checkpoint, is passed over when a directory is searched for the newest one.
  """

  alias ExBurn.{Backend, Error, Model, NIF, Options, Type}
  alias ExBurn.Model.State
  alias ExBurn.Training.Checkpoint.Settings
  alias ExBurn.Training.{History, Job, Metric}
  alias Nx.Tensor, as: T

  @format "1"
  # Where in an epoch a run is, as the native loop names it.
  @means [:sums, :samples, :batches, :skipped]

  @typedoc "`:means` is where in an epoch it is, as the native loop says it, or `nil` after one."
  @type snapshot :: %{
          model: Model.t(),
          options: map(),
          history: History.t(),
          means: map() | nil
        }

  @doc """
  The path of a checkpoint in a directory: after so many epochs, and so many batches of the next one.

  ## Examples

      iex> ExBurn.Training.Checkpoint.path("runs", 12)
      "runs/checkpoint-000012.safetensors"
      iex> ExBurn.Training.Checkpoint.path("runs", 12, 200)
      "runs/checkpoint-000012-00000200.safetensors"

  """
  @spec path(Path.t(), non_neg_integer(), pos_integer() | nil) :: Path.t()
  def path(dir, epochs, batches \\ nil) do
    batches = if batches, do: "-" <> digits(batches, 8), else: ""
    Path.join(dir, "checkpoint-#{digits(epochs, 6)}#{batches}.safetensors")
  end

  defp digits(number, count), do: number |> Integer.to_string() |> String.pad_leading(count, "0")

  @doc """
  Paths of the checkpoints in a directory, the newest first.
  """
  @spec list(Path.t()) :: [Path.t()]
  def list(dir) do
    names =
      case File.ls(dir) do
        {:ok, names} -> names
        {:error, _reason} -> []
      end

    names
    |> Enum.flat_map(fn name ->
      case Regex.run(~r/^checkpoint-(\d+)(?:-(\d+))?\.safetensors$/, name) do
        [name | numbers] -> [{Enum.map(numbers, &String.to_integer/1), Path.join(dir, name)}]
        nil -> []
      end
    end)
    |> Enum.sort(:desc)
    |> Enum.map(&elem(&1, 1))
  end

  @doc """
  Removes all but the newest `keep` checkpoints of a directory.
  """
  @spec prune(Path.t(), pos_integer() | :all) :: :ok
  def prune(_dir, :all), do: :ok
  def prune(dir, keep), do: dir |> list() |> Enum.drop(keep) |> Enum.each(&File.rm/1)

  @doc """
  Writes a checkpoint.
  """
  @spec write(Path.t(), snapshot()) :: :ok
  def write(path, %{model: model, options: options, history: history, means: means}) do
    {_owner, {count, slots}} = model.optimizer_state
    leaves = for {path, t} <- model.parameters ++ model.states, do: {name(path), Backend.ref(t)}

    moments =
      for {slot, i} <- Enum.with_index(slots), {ref, j} <- Enum.with_index(slot) do
        {"optimizer.#{i}.#{j}", ref}
      end

    about = %{
      "history" => Enum.map(history, &as_text/1),
      "means" => means && Map.new(means, fn {name, v} -> {Atom.to_string(name), v} end),
      "settings" => Settings.of(model, options),
      "count" => count,
      "slots" => Enum.map(slots, &length/1)
    }

    metadata = %{
      "ex_burn_checkpoint" => @format,
      "ex_burn_version" => ExBurn.version(),
      "about" => about |> :erlang.term_to_binary() |> Base.encode64()
    }

    case NIF.file_write(Path.expand(path), leaves ++ moments, metadata) do
      {:ok, _} -> :ok
      {:error, error} -> raise %{Error.from_native(error) | op: :checkpoint}
    end
  end

  defp name(path), do: "model." <> State.name(path)

  # A file makes no atoms, and the VM that goes on has not made those of all metrics yet.
  defp as_text(entry), do: Map.new(entry, fn {name, v} -> {Atom.to_string(name), value(v)} end)

  defp value(atom) when is_atom(atom) and atom != nil, do: Atom.to_string(atom)
  defp value(number), do: number

  defp entry(text, model) do
    metrics = Enum.map(model.metrics, &Metric.name/1)
    names = History.reserved() ++ metrics ++ Enum.map(metrics, &History.val/1)
    atoms = Map.new(names, &{Atom.to_string(&1), &1})
    for {name, v} <- text, is_map_key(atoms, name), into: %{}, do: {atoms[name], number(v)}
  end

  defp number("nan"), do: :nan
  defp number("infinity"), do: :infinity
  defp number("neg_infinity"), do: :neg_infinity
  defp number(number), do: number

  @doc """
  The model and the options of a run that goes on from `options.resume`, or of a new run.

  The options get `:first_epoch`, where in it the run goes on, and the `:history` before it.
  """
  @spec resume!(Model.t(), map()) :: {Model.t(), map()}
  def resume!(model, %{resume: nil} = options), do: fresh(model, options)

  def resume!(model, %{resume: path} = options) do
    with {:ok, path} <- newest(path),
         {:ok, contents} <- read(path) do
      Settings.compare!(Settings.of(model, options), contents["settings"], path)
      {model, history} = put!(model, path, contents, :fit)
      more = %{first_epoch: length(history) + 1, history: history, means: means(contents)}
      {model, Map.merge(options, more)}
    else
      :none -> fresh(model, options)
      {:error, reason} -> raise Error, op: :fit, reason: "resume: #{reason}"
    end
  end

  defp fresh(model, options) do
    more = %{first_epoch: 1, history: [], means: nil}
    {%{model | optimizer_state: nil}, Map.merge(options, more)}
  end

  defp means(%{"means" => %{} = means}),
    do: Map.new(@means, &{&1, Map.fetch!(means, Atom.to_string(&1))})

  defp means(_contents), do: nil

  @doc """
  A model with the parameters of a checkpoint, and the history before it, when the run that wrote it is gone.

  `path` is the directory of a `checkpoint_callback/3`, of which the newest checkpoint that is whole is taken, or one
  checkpoint. `fit/3` with `resume:` goes on from it instead.

  ## Examples

      iex> model = ExBurn.compile(Axon.dense(Axon.input("x", shape: {nil, 1}), 1), loss: :mse)
      iex> ExBurn.Training.restore(model, "/none")
      ** (ExBurn.Error) restore: /none has no checkpoint that is whole

  """
  @spec restore(Model.t(), Path.t()) :: {Model.t(), History.t()}
  def restore(model, path) do
    Model.expect!(model, :restore)
    Options.check!(is_binary(path), :restore, :path, path, "a directory or a checkpoint")

    with {:ok, path} <- newest(path),
         {:ok, contents} <- read(path) do
      {model, history} = put!(model, path, contents, :restore)
      {%{model | optimizer_state: nil}, history}
    else
      :none -> raise Error, op: :restore, reason: "#{path} has no checkpoint that is whole"
      {:error, reason} -> raise Error, op: :restore, reason: reason
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
      case path |> list() |> Enum.find(&match?({:ok, _}, read(&1))) do
        nil -> :none
        found -> {:ok, found}
      end
    end
  end

  defp read(path) do
    with {:ok, {tensors, metadata}} <- NIF.file_read(Path.expand(path)),
         %{"ex_burn_checkpoint" => @format, "about" => about} <- metadata,
         {:ok, about} <- decode(about) do
      {:ok, Map.put(about, :tensors, Map.new(tensors))}
    else
      {:error, error} -> {:error, Exception.message(Error.from_native(error))}
      _other -> {:error, "#{path} is no checkpoint of this version of ExBurn"}
    end
  end

  # Makes no atoms and no functions.
  defp decode(text) do
    with {:ok, binary} <- Base.decode64(text) do
      {:ok, :erlang.binary_to_term(binary, [:safe])}
    end
  rescue
    ArgumentError -> :error
  end

  defp put!(model, path, about, op) do
    given =
      for {leaf, _t} <- model.parameters ++ model.states,
          do: {leaf, tensor!(about.tensors, name(leaf), path, op)}

    slots =
      for {length, i} <- Enum.with_index(about["slots"]),
          do:
            for(j <- 0..(length - 1)//1, do: ref!(about.tensors, "optimizer.#{i}.#{j}", path, op))

    model = update_params(model, given, path, op)
    history = Enum.map(about["history"], &entry(&1, model))
    {Job.put_optimizer_state(model, {about["count"], slots}), history}
  end

  defp update_params(model, given, path, op) do
    Model.update_params(model, given)
  rescue
    error in Error ->
      reason = "resume: #{path}: #{error.reason}; it is of another model"
      reraise %Error{op: op, reason: reason}, __STACKTRACE__
  end

  defp ref!(tensors, name, path, op) do
    case tensors do
      %{^name => ref} ->
        ref

      %{} ->
        raise Error,
          op: op,
          reason: "resume: #{path} has no tensor #{name}; it is of another model"
    end
  end

  defp tensor!(tensors, name, path, op) do
    ref = ref!(tensors, name, path, op)
    {type, shape} = Error.unwrap!(NIF.tensor_type(ref))
    names = List.duplicate(nil, length(shape))
    Backend.put(%T{type: Type.from_name(type), shape: List.to_tuple(shape), names: names}, ref)
  end
end
