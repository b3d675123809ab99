defmodule ExBurn.Model.Files do
  @moduledoc """
  Model files.

  A file is in the [safetensors](https://github.com/huggingface/safetensors) format, which many tools read. Its tensors are
  the parameters and states, named `layer.name`, and the program's captured tensors, named `capture.0` and so on. Its
  texts are:

    * `ex_burn_format` - the version of this arrangement, `1`
    * `ex_burn_version` - the version of ExBurn that wrote it
    * `model` - inputs, outputs, names of the tensors and how it was trained, as JSON
    * `program` - how it predicts, as JSON: see `ExBurn.Model.Forward`

  Nothing in a file is run or made an atom. A program that does not fit its tensors is refused when the file is read.
  """

  alias ExBurn.{Backend, Device, Error, Model, NIF, Options, Type}
  alias ExBurn.Model.{Forward, Output, State}
  alias ExBurn.Training.{Loss, Metric, Optimizer}
  alias Nx.Tensor, as: T

  @format "1"

  @doc """
  Writes a model to one file, in the safetensors format; see `ExBurn.Model.Files` for what is in it.

  The file is replaced in one step: a reader, or the next start after a crash, sees the old one or the new one. Types that
  the format lacks are an `ExBurn.Error`, and so is what the system says, with the path.

  ## Options

    * `:batch_sizes` - which batch sizes to keep programs for, when no one program serves all. Few models need it: see
      `ExBurn.Model.Forward`

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 4}) |> Axon.dense(2) |> ExBurn.compile()
      iex> path = Path.join(System.tmp_dir!(), "ex_burn_doctest.safetensors")
      iex> ExBurn.save(model, path)
      :ok
      iex> x = Nx.iota({3, 4}, type: :f32)
      iex> Nx.to_list(ExBurn.predict!(ExBurn.load(path), x)) == Nx.to_list(ExBurn.predict!(model, x))
      true
      iex> File.rm(path)
      :ok

  """
  @spec save(Model.t(), Path.t(), keyword()) :: :ok
  def save(model, path, opts \\ []) do
    Model.expect!(model, :save)
    opts = Options.validate!(:save, opts, batch_sizes: nil)
    path = full!(:save, path)
    forward = forward(model, opts[:batch_sizes])
    manifest = Error.unwrap!(NIF.manifest_to_json(manifest(model, forward)))

    metadata = %{
      "ex_burn_format" => @format,
      "ex_burn_version" => ExBurn.version(),
      "model" => manifest,
      "program" => forward.template
    }

    leaves = model.parameters ++ model.states ++ captures(forward.captures)
    tensors = for {path, tensor} <- leaves, do: {State.name(path), Backend.ref(tensor)}
    {} = native!(:save, NIF.file_write(path, tensors, metadata))
    :ok
  end

  defp forward(%Model{forward: %{template: nil} = forward}, nil),
    do: raise(Error, op: :save, reason: Forward.one_size(forward))

  defp forward(model, nil), do: model.forward

  defp forward(model, sizes), do: Forward.fix(model, Forward.sizes!(sizes, :save))

  defp captures(tensors),
    do: Enum.with_index(tensors, fn tensor, i -> {["capture", Integer.to_string(i)], tensor} end)

  defp manifest(model, forward) do
    leaf = fn {path, _tensor} -> %{path: path, frozen: path in model.frozen} end

    inputs =
      for {name, {type, shape}} <- model.inputs,
          do: %{name: name, dtype: Type.name(type), shape: shape}

    %{
      inputs: inputs,
      output: Output.with_text_keys(forward.output),
      parameters: Enum.map(model.parameters, leaf),
      states: Enum.map(model.states, leaf),
      captures: length(forward.captures),
      batch_sizes: forward.batch_sizes,
      training: training(model)
    }
  end

  # Functions have no name to keep.
  defp training(model) do
    {optimizer, opts} = named(model.optimizer)

    %{
      loss: if(is_atom(model.loss) and model.loss != nil, do: Atom.to_string(model.loss)),
      optimizer: Atom.to_string(optimizer),
      optimizer_options:
        for(
          {key, value} <- opts,
          value != nil,
          into: %{},
          do: {Atom.to_string(key), number(value)}
        ),
      learning_rate: model.learning_rate,
      metrics: for(metric <- model.metrics, is_atom(metric), do: Atom.to_string(metric)),
      seed: model.seed,
      trained: model.trained
    }
  end

  # A file keeps the optimizer for people: a loaded model is not trained.
  defp named(name) when is_atom(name), do: {name, []}
  defp named({name, opts}) when is_atom(name), do: {name, opts}
  defp named(_pair), do: {:pair, []}

  defp number(value) when is_boolean(value), do: {:boolean, value}
  defp number(value), do: {:float, value * 1.0}

  @doc """
  Reads a model from a file. It predicts without Axon, and without the code that made it.

  Where the model answered maps with atoms as keys, the loaded one answers strings. A file that is missing, damaged or not of
  this kind is an `ExBurn.Error` with its path. To train it further, put its parameters into the Axon model again:
  `ExBurn.compile({axon, ExBurn.parameters(loaded)})`.

  ## Options

    * `:device` - where it goes. Defaults to `default_device/0`

  ## Examples

      iex> ExBurn.load("/no/such/file")
      ** (ExBurn.Error) load: /no/such/file: no such file or folder

  """
  @spec load(Path.t(), keyword()) :: Model.t()
  def load(path, opts \\ []) do
    opts = Options.validate!(:load, opts, device: Device.default())
    device = Device.validate!(opts[:device])
    path = full!(:load, path)
    path |> read() |> Model.to_device(device)
  end

  defp read(path) do
    {tensors, metadata} = native!(:load, NIF.file_read(path))

    case metadata do
      %{"ex_burn_format" => @format, "model" => manifest, "program" => template} ->
        checked(path, fn -> build(manifest, template, Map.new(tensors)) end)

      %{"ex_burn_format" => other} ->
        failed!(path, "it has format #{inspect(other)}, this version of ExBurn reads #{@format}")

      %{} ->
        failed!(path, "it is a safetensors file, but not one of an ExBurn model")
    end
  end

  defp checked(path, fun) do
    fun.()
  rescue
    error in Error ->
      reraise Error, [op: :load, reason: "#{path}: #{Exception.message(error)}"], __STACKTRACE__
  end

  defp build(manifest, template, tensors) do
    manifest = Error.unwrap!(NIF.manifest_from_json(manifest))
    {parameters, frozen} = leaves(manifest["parameters"], tensors)
    {states, frozen_states} = leaves(manifest["states"], tensors)

    captures =
      for i <- 0..(manifest["captures"] - 1)//1, do: tensor(tensors, "capture.#{i}")

    output = Output.from_plain(manifest["output"])

    inputs =
      for %{"name" => name, "dtype" => type, "shape" => shape} <- manifest["inputs"],
          do: {name, {Type.from_name(type), shape}}

    %Model{
      inputs: inputs,
      parameters: parameters,
      states: states,
      frozen: MapSet.new(frozen ++ frozen_states),
      forward: Forward.from_template(template, captures, output, manifest["batch_sizes"])
    }
    |> struct!(settings(manifest["training"]))
    |> Forward.check!()
  end

  defp leaves(list, tensors) do
    leaves = for %{"path" => path} <- list, do: {path, tensor(tensors, State.name(path))}
    {leaves, for(%{"path" => path, "frozen" => true} <- list, do: path)}
  end

  defp tensor(tensors, name) do
    case tensors do
      %{^name => ref} -> tensor(ref)
      %{} -> raise Error, op: :parameters, reason: "tensor #{name} is missing"
    end
  end

  @doc """
  The tensor of a native reference.
  """
  @spec tensor(reference()) :: Nx.Tensor.t()
  def tensor(ref) do
    {type, shape} = Error.unwrap!(NIF.tensor_type(ref))
    names = List.duplicate(nil, length(shape))
    shape = List.to_tuple(shape)
    Backend.put(%T{type: Type.from_name(type), shape: shape, names: names}, ref)
  end

  # Names that this version does not know are left out: prediction does not need them.
  defp settings(training) do
    optimizer = known(training["optimizer"], Optimizer.names()) || :adam
    {_name, defaults} = Optimizer.fetch!(optimizer)

    opts =
      for {name, value} <- training["optimizer_options"],
          key = known(name, Map.keys(defaults)),
          do: {key, value |> Map.values() |> hd()}

    [
      loss: known(training["loss"], Loss.names()),
      optimizer: if(opts == [], do: optimizer, else: {optimizer, opts}),
      learning_rate: training["learning_rate"],
      metrics: for(name <- training["metrics"], metric = known(name, Metric.names()), do: metric),
      seed: training["seed"],
      trained: training["trained"]
    ]
  end

  defp known(name, atoms), do: Enum.find(atoms, &(Atom.to_string(&1) == name))

  @doc """
  The whole path of a file. The native part takes names that are text.
  """
  @spec full!(atom(), term()) :: Path.t()
  def full!(op, path) do
    Options.check!(is_binary(path) or is_list(path), op, :path, path, "text")
    path = Path.expand(path)
    Options.check!(String.valid?(path), op, :path, path, "valid UTF-8")
    path
  end

  @doc """
  The result of a native call about a file, whose errors are those of `op`.
  """
  @spec native!(atom(), {:ok, result} | {:error, {atom(), map()}}) :: result when result: term()
  def native!(_op, {:ok, result}), do: result
  def native!(op, {:error, error}), do: raise(%{Error.from_native(error) | op: op})

  defp failed!(path, reason), do: raise(Error, op: :load, reason: "#{path}: #{reason}")
end
