defmodule ExBurn.Training.Checkpoint.Contents do
  @moduledoc """
  What is in the file of a checkpoint: tensors by name, and about them what a term can say.

  Parameters and states are named `model.`, those of a model that a callback keeps `kept.` and its epoch, the optimizer's
  memory `optimizer.` and its number. A checksum of all of it is among the texts since format 2; a file of format 1, which has
  none, is taken as it is.
  """

  alias ExBurn.{Backend, Error, Model, NIF, Options, Type}
  alias ExBurn.Model.State
  alias ExBurn.Training.{Checkpoint, History, Job, LossScale, Metric}
  alias ExBurn.Training.Checkpoint.{Checksum, Settings}
  alias Nx.Tensor, as: T

  @format "2"
  @formats ["1", @format]
  # Where in an epoch a run is, as the native loop names it.
  @means [:sums, :weight, :samples, :batches, :skipped]

  @doc """
  Writes a checkpoint.
  """
  @spec write(Path.t(), Checkpoint.snapshot()) :: :ok
  def write(path, %{model: model, options: options, history: history, means: means} = snapshot) do
    {_owner, {count, slots}} = model.optimizer_state
    kept = for {epoch, kept} <- snapshot.kept, leaf <- leaves(kept, prefix(epoch)), do: leaf

    moments =
      for {slot, i} <- Enum.with_index(slots), {ref, j} <- Enum.with_index(slot) do
        {"optimizer.#{i}.#{j}", ref}
      end

    about = %{
      "history" => Enum.map(history, &as_text/1),
      "means" => means && Map.new(means, fn {name, v} -> {Atom.to_string(name), v} end),
      "settings" => Settings.of(model, options),
      "count" => count,
      "slots" => Enum.map(slots, &length/1),
      "kept" => Map.keys(snapshot.kept),
      "loss_scale" => snapshot.loss_scale
    }

    metadata = %{
      "ex_burn_checkpoint" => @format,
      "ex_burn_version" => ExBurn.version(),
      "about" => about |> :erlang.term_to_binary() |> Base.encode64()
    }

    tensors = leaves(model, "model.") ++ kept ++ moments
    metadata = Map.put(metadata, "checksum", Checksum.of(tensors, metadata))

    case NIF.file_write(Path.expand(path), tensors, metadata) do
      {:ok, _} -> :ok
      {:error, error} -> raise %{Error.from_native(error) | op: :checkpoint}
    end
  end

  defp leaves(model, prefix),
    do:
      for(
        {path, t} <- model.parameters ++ model.states,
        do: {prefix <> State.name(path), Backend.ref(t)}
      )

  defp prefix(epoch), do: "kept.#{epoch}."

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
  Where in an epoch the run was, and what its loss was multiplied by, each `nil` if it does not apply.
  """
  @spec place(map()) :: %{means: map() | nil, loss_scale_state: LossScale.state() | nil}
  def place(contents),
    do: %{means: means(contents["means"]), loss_scale_state: contents["loss_scale"]}

  defp means(nil), do: nil

  # Before batches could weigh more or less than they have rows, their weights were not written.
  defp means(means) do
    <<rows::64>> = <<means["samples"] * 1.0::float>>
    means = Map.put_new(means, "weight", rows)
    Map.new(@means, &{&1, Map.fetch!(means, Atom.to_string(&1))})
  end

  @doc """
  What is in a file, or why it can't be read.
  """
  @spec read(Path.t()) :: {:ok, map()} | {:error, String.t()}
  def read(path) do
    with {:ok, {tensors, metadata}} <- NIF.file_read(Path.expand(path)),
         %{"ex_burn_checkpoint" => format, "about" => about} when format in @formats <- metadata,
         :ok <- whole(tensors, metadata),
         {:ok, about} <- decode(about),
         true <- complete?(about) do
      {:ok, Map.put(about, :tensors, Map.new(tensors))}
    else
      :damaged -> {:error, "#{path} is damaged: it holds something else than was written to it"}
      {:error, error} -> {:error, Exception.message(Error.from_native(error))}
      _other -> {:error, "#{path} is no checkpoint of this version of ExBurn"}
    end
  end

  defp whole(tensors, metadata) do
    case Map.pop(metadata, "checksum") do
      {nil, %{"ex_burn_checkpoint" => "1"}} -> :ok
      {sum, texts} -> if sum == Checksum.of(tensors, texts), do: :ok, else: :damaged
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

  # Of format 1 nothing else tells whether it was changed.
  defp complete?(%{"history" => history, "settings" => settings, "count" => count} = about) do
    count?(count) and is_map(settings) and all?(history, &entry?/1) and
      all?(about["slots"], &count?/1) and all?(Map.get(about, "kept", []), &count?/1) and
      means?(about["means"]) and loss_scale?(about["loss_scale"])
  end

  defp complete?(_about), do: false

  defp all?(list, valid?), do: Options.list_of?(list, valid?)
  defp count?(value), do: is_integer(value) and value >= 0
  defp entry?(entry), do: match?(%{"epoch" => epoch, "loss" => _} when is_integer(epoch), entry)

  defp means?(nil), do: true

  defp means?(%{"sums" => sums, "samples" => samples, "batches" => batches, "skipped" => skipped}),
    do: Enum.all?([samples, batches, skipped], &count?/1) and all?(sums, &count?/1)

  defp means?(_other), do: false

  defp loss_scale?(nil), do: true

  defp loss_scale?({factor, good, interval}),
    do: is_float(factor) and count?(good) and (interval == nil or count?(interval))

  defp loss_scale?(_other), do: false

  @doc """
  A model with what was read from `path`, its optimizer's memory too, and the history.
  """
  @spec put!(Model.t(), Path.t(), map(), atom()) :: {Model.t(), History.t()}
  def put!(model, path, contents, op) do
    slots =
      for {length, i} <- Enum.with_index(contents["slots"]) do
        for j <- 0..(length - 1)//1,
            do: ref!(contents.tensors, "optimizer.#{i}.#{j}", path, op)
      end

    model = with_leaves(model, "model.", contents, path, op)
    history = Enum.map(contents["history"], &entry(&1, model))
    {Job.put_optimizer_state(model, {contents["count"], slots}), history}
  end

  @doc """
  The models that callbacks kept, by their epochs.
  """
  @spec kept!(Model.t(), Path.t(), map(), atom()) :: %{pos_integer() => Model.t()}
  def kept!(model, path, contents, op) do
    for epoch <- Map.get(contents, "kept", []),
        into: %{},
        do: {epoch, with_leaves(model, prefix(epoch), contents, path, op)}
  end

  defp with_leaves(model, prefix, contents, path, op) do
    given =
      for {leaf, _t} <- model.parameters ++ model.states,
          do: {leaf, tensor!(contents.tensors, prefix <> State.name(leaf), path, op)}

    update_params(model, given, path, op)
  end

  defp update_params(model, given, path, op) do
    Model.update_params(model, given)
  rescue
    error in Error ->
      reason = "#{option(op)}#{path}: #{error.reason}; it is of another model"
      reraise %Error{op: op, reason: reason}, __STACKTRACE__
  end

  # What the caller gave the path as.
  defp option(:fit), do: "resume: "
  defp option(_op), do: ""

  defp ref!(tensors, name, path, op) do
    case tensors do
      %{^name => ref} ->
        ref

      %{} ->
        raise Error,
          op: op,
          reason: "#{option(op)}#{path} has no tensor #{name}; it is of another model"
    end
  end

  defp tensor!(tensors, name, path, op) do
    ref = ref!(tensors, name, path, op)
    {type, shape} = Error.unwrap!(NIF.tensor_type(ref))
    names = List.duplicate(nil, length(shape))
    Backend.put(%T{type: Type.from_name(type), shape: List.to_tuple(shape), names: names}, ref)
  end
end
