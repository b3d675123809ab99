defmodule ExBurn.Model.Exchange do
  @moduledoc """
  Parameters for other libraries, and from them: see `ExBurn.export/3` and `ExBurn.import_params/3`.
  """

  alias ExBurn.{Backend, Error, Model, NIF, Options}
  alias ExBurn.Model.{Files, Layout, State}
  alias Nx.Tensor, as: T

  @doc """
  See `ExBurn.export/3`.
  """
  @spec export(Model.t(), Path.t(), keyword()) :: :ok
  def export(model, path, opts \\ []) do
    Model.expect!(model, :export)
    opts = Options.validate!(:export, opts, layout: :axon)
    Layout.validate!(opts[:layout], :export)
    path = Files.full!(:export, path)
    leaves = Map.new(model.parameters ++ model.states)

    tensors =
      for entry <- Layout.entries(model, opts[:layout], :export) do
        tensor = leaves |> Map.fetch!(entry.path) |> Layout.outward(entry)
        {entry.name, Backend.ref(tensor)}
      end

    metadata = %{"format" => if(opts[:layout] == :torch, do: "pt", else: "axon")}
    {} = Files.native!(:export, NIF.file_write(path, tensors, metadata))
    :ok
  end

  @doc """
  See `ExBurn.import_params/3`.
  """
  @spec import_params(Model.t(), Path.t() | map() | struct(), keyword()) :: Model.t()
  def import_params(model, source, opts \\ []) do
    Model.expect!(model, :import_params)
    opts = Options.validate!(:import_params, opts, layout: :axon, names: %{}, partial: false)
    check!(opts)
    given = source |> tensors() |> renamed(opts[:names]) |> known(opts[:layout])
    entries = Layout.entries(model, opts[:layout], :import_params)
    check_names!(given, entries, model, opts[:partial])

    leaves =
      for entry <- entries,
          tensor = given[entry.name],
          do: {entry.path, Layout.inward(tensor, entry)}

    named_op(fn -> Model.update_params(model, leaves) end)
  end

  defp check!(opts) do
    Layout.validate!(opts[:layout], :import_params)
    names? = is_map(opts[:names]) or is_function(opts[:names], 1)
    expected = "a map of their names to the model's, or a function"
    Options.check!(names?, :import_params, :names, opts[:names], expected)
    partial? = is_boolean(opts[:partial])
    Options.check!(partial?, :import_params, :partial, opts[:partial], "true or false")
  end

  defp tensors(path) when is_binary(path) do
    path = Files.full!(:import_params, path)
    {tensors, _texts} = Files.native!(:import_params, NIF.file_read(path))
    Map.new(tensors, fn {name, ref} -> {name, Files.tensor(ref)} end)
  end

  defp tensors(%T{} = tensor), do: not_tensors!(tensor)

  defp tensors(source) when is_map(source) do
    named_op(fn ->
      for {path, t} <- State.leaves(source), into: %{}, do: {State.name(path), t}
    end)
  end

  defp tensors(other), do: not_tensors!(other)

  defp not_tensors!(other) do
    raise Error,
      op: :import_params,
      reason:
        "got #{Options.short(other)}, expected the path of a safetensors file or a map of tensors by name"
  end

  # A name in the map stands for a tensor, or for all those of a layer.
  defp renamed(tensors, names) do
    renamed = for {name, tensor} <- tensors, do: {rename(name, names), tensor}
    twice = Enum.map(renamed, &elem(&1, 0)) -- Enum.uniq(Enum.map(renamed, &elem(&1, 0)))

    if twice != [] do
      raise Error,
        op: :import_params,
        reason: "names: gives #{hd(twice)} to more than one tensor"
    end

    Map.new(renamed)
  end

  defp rename(name, fun) when is_function(fun) do
    case fun.(name) do
      text when is_binary(text) ->
        text

      other ->
        raise Error,
          op: :import_params,
          reason: "names: answers #{Options.short(other)} for #{name}, expected text"
    end
  end

  defp rename(name, names) do
    case names do
      %{^name => own} -> own
      %{} -> rename_layer(name, names)
    end
  end

  defp rename_layer(name, names) do
    Enum.find_value(names, name, fn {theirs, ours} ->
      if String.starts_with?(name, theirs <> "."),
        do: ours <> String.replace_prefix(name, theirs, "")
    end)
  end

  # PyTorch counts batches beside running statistics; nothing reads that.
  defp known(tensors, :torch),
    do: Map.reject(tensors, fn {name, _} -> String.ends_with?(name, ".num_batches_tracked") end)

  defp known(tensors, :axon), do: tensors

  defp check_names!(given, entries, model, partial?) do
    ours = Enum.map(entries, & &1.name)
    unknown = given |> Map.keys() |> Enum.reject(&(&1 in ours)) |> Enum.sort()
    states = MapSet.new(model.states, &elem(&1, 0))
    # Other libraries have no random keys.
    optional? = &(&1.path in states and List.last(&1.path) == "key")
    missing = for e <- entries, not is_map_key(given, e.name), not optional?.(e), do: e.name

    cond do
      unknown != [] -> refuse!("the model has no #{list(unknown)}", missing, ours)
      missing != [] and not partial? -> refuse!("#{list(missing)} missing", [], ours)
      true -> :ok
    end
  end

  defp refuse!(what, missing, ours) do
    expected = if missing == [], do: ours, else: missing

    raise Error,
      op: :import_params,
      reason:
        "#{what}; expected are #{list(expected)}. names: can rename, partial: true takes what is there"
  end

  @shown 5

  defp list(names) when length(names) <= @shown, do: Enum.join(names, ", ")

  defp list(names),
    do: "#{names |> Enum.take(@shown) |> Enum.join(", ")} and #{length(names) - @shown} more"

  defp named_op(fun) do
    fun.()
  rescue
    error in Error -> reraise %{error | op: :import_params}, __STACKTRACE__
  end
end
