defmodule ExBurn.Model.Exchange do
  @moduledoc """
  Parameters for other libraries, and from them: see `ExBurn.export/3` and `ExBurn.import_params/3`.
  """

  alias ExBurn.{Backend, Error, Model, NIF, Options}
  alias ExBurn.Model.{Files, Layout, State}
  alias Nx.Tensor, as: T

  @doc """
  Writes a model's parameters and states, and nothing else, to a safetensors file that other libraries read.

  `save/3` is for what `load/2` reads. Tensors are named `layer.name`.

  ## Options

    * `:layout` - `:axon`, names and axes as in Axon, or `:torch`, as PyTorch has them: see `ExBurn.Model.Layout`.
      Defaults to `:axon`

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 4}) |> Axon.dense(2) |> ExBurn.compile()
      iex> path = Path.join(System.tmp_dir!(), "ex_burn_export.safetensors")
      iex> ExBurn.export(model, path, layout: :torch)
      :ok
      iex> again = ExBurn.import_params(model, path, layout: :torch)
      iex> Nx.to_list(ExBurn.parameters(again)["dense_0"]["kernel"]) == Nx.to_list(ExBurn.parameters(model)["dense_0"]["kernel"])
      true
      iex> File.rm(path)
      :ok

  """
  @spec export(Model.t(), Path.t(), keyword()) :: :ok
  def export(model, path, opts \\ []) do
    Model.expect!(model, :export)
    opts = Options.validate!(:export, opts, layout: :axon)
    Layout.validate!(opts[:layout], :export)
    path = Files.full!(:export, path)
    leaves = Map.new(model.parameters ++ model.states)

    tensors =
      for entry <- Layout.entries(model, opts[:layout], :export),
          own = Enum.map(entry.paths, &Map.fetch!(leaves, &1)),
          {{name, _shape}, tensor} <- Enum.zip(entry.tensors, entry.outward.(own)),
          do: {name, Backend.ref(tensor)}

    metadata = %{"format" => if(opts[:layout] == :torch, do: "pt", else: "axon")}
    {} = Files.native!(:export, NIF.file_write(path, tensors, metadata))
    :ok
  end

  @doc """
  The model with parameters from elsewhere: the path of a safetensors file, or a map of tensors, nested or by name.

  Names that the model does not know, missing ones and other shapes are an `ExBurn.Error` that says which are expected. Types
  are converted.

  ## Options

    * `:layout` - `:axon` or `:torch`: see `ExBurn.Model.Layout`. Defaults to `:axon`
    * `:names` - the model's names by those of the source, of tensors or of layers, or a function from one to the other
    * `:partial` - whether tensors may be missing, which then stay as they are. Defaults to `false`

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 2}) |> Axon.dense(1) |> ExBurn.compile()
      iex> torch = %{"fc.weight" => Nx.tensor([[3.0, 4.0]]), "fc.bias" => Nx.tensor([1.0])}
      iex> model = ExBurn.import_params(model, torch, layout: :torch, names: %{"fc" => "dense_0"})
      iex> model |> ExBurn.predict!(Nx.tensor([[1.0, 10.0]])) |> Nx.to_list()
      [[44.0]]
      iex> ExBurn.import_params(model, %{"dense_0.kernel" => Nx.tensor([[1.0], [2.0]])})
      ** (ExBurn.Error) import_params: dense_0.bias missing; expected are dense_0.bias, dense_0.kernel. names: can rename, partial: true takes what is there

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
      for %{tensors: [{first, _shape} | _]} = entry <- entries,
          is_map_key(given, first),
          theirs = Enum.map(entry.tensors, &fitting!(&1, given)),
          leaf <- Enum.zip(entry.paths, entry.inward.(theirs)),
          do: leaf

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

  defp fitting!({name, shape}, given) do
    tensor = given[name]

    if Nx.shape(tensor) != shape do
      raise Error,
        op: :import_params,
        reason: "#{name} has shape #{inspect(Nx.shape(tensor))}, expected #{inspect(shape)}"
    end

    tensor
  end

  defp check_names!(given, entries, model, partial?) do
    ours = Enum.flat_map(entries, &names/1)
    unknown = given |> Map.keys() |> Enum.reject(&(&1 in ours)) |> Enum.sort()
    states = MapSet.new(model.states, &elem(&1, 0))
    # Other libraries have no random keys.
    optional? = fn %{paths: [path | _]} -> path in states and List.last(path) == "key" end
    missing? = &(not is_map_key(given, &1))
    missing = for e <- entries, not optional?.(e), name <- names(e), missing?.(name), do: name
    # What belongs together comes together.
    torn =
      for e <- entries,
          not Enum.all?(names(e), missing?),
          name <- names(e),
          missing?.(name),
          do: name

    cond do
      unknown != [] -> refuse!("the model has no #{list(unknown)}", missing, ours)
      missing != [] and not partial? -> refuse!("#{list(missing)} missing", [], ours)
      torn != [] -> refuse!("#{list(torn)} missing, of several that belong together", [], ours)
      true -> :ok
    end
  end

  defp names(entry), do: Enum.map(entry.tensors, &elem(&1, 0))

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
