defmodule ExBurn.Model.Predict do
  @moduledoc """
  Prediction: checks the input, picks the program for its batch size, runs it.
  """

  alias ExBurn.{Backend, Error, Model, Options}
  alias ExBurn.Defn.Cache
  alias ExBurn.Model.{Forward, Initial, Input, Output, State}

  @doc """
  Predicts: `{:ok, tensor}`, or tuples and maps of tensors if the model answers several, or `{:error, error}`.

  `model` is an `ExBurn.Model`, or `{axon, parameters}`. The input is a tensor, or a map of tensors by name, with any number
  of samples along the first axis. Integers and smaller floats are converted as Nx would; other types are an error.

  ## Options

    * `:batch_size` - runs at most so many samples at a time, to bound memory. Defaults to all at once

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 2}) |> Axon.nx(&Nx.sum(&1, axes: [1])) |> ExBurn.compile()
      iex> {:ok, y} = ExBurn.predict(model, Nx.tensor([[1.0, 2.0], [3.0, 4.0]]))
      iex> Nx.to_list(y)
      [3.0, 7.0]
      iex> {:error, error} = ExBurn.predict(model, Nx.tensor([1.0, 2.0]))
      iex> Exception.message(error)
      "predict: input \\"x\\" has shape {2}, expected {batch, 2}"

  """
  @spec predict(Model.t() | {struct(), struct() | map()}, term(), keyword()) ::
          {:ok, Nx.Container.t()} | {:error, Error.t()}
  def predict(model, input, opts \\ []) do
    {:ok, predict!(model, input, opts)}
  rescue
    error in Error -> {:error, error}
  end

  @doc """
  As `predict/3`, but answers the tensor and raises the error.

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 1}) |> Axon.nx(&Nx.add(&1, 1)) |> ExBurn.compile()
      iex> model |> ExBurn.predict!(Nx.tensor([[1.0]])) |> Nx.to_list()
      [[2.0]]

  """
  @spec predict!(Model.t() | {struct(), struct() | map()}, term(), keyword()) ::
          Nx.Container.t()
  def predict!(model, input, opts \\ [])

  def predict!(%Model{} = model, input, opts) do
    opts = Options.validate!(:predict, opts, batch_size: nil)
    size!(opts[:batch_size])
    {tensors, batch} = Input.check!(:predict, model.inputs, input)
    leaves = Enum.map(model.parameters ++ model.states, fn {_path, tensor} -> tensor end)
    forward(model, Enum.map(leaves, &Backend.ref/1), tensors, batch, opts[:batch_size])
  end

  def predict!({%{__struct__: Axon} = axon, given}, input, opts) do
    {axon, given} |> once(input) |> predict!(input, opts)
  end

  def predict!(other, _input, _opts) do
    raise Error,
      op: :predict,
      reason: "got #{Options.short(other)}, expected an %ExBurn.Model{} or {%Axon{}, parameters}"
  end

  defp size!(size) do
    if size != nil, do: Options.positive!(:predict, :batch_size, size)
  end

  defp forward(model, parameters, tensors, batch, size) when size == nil or size >= batch,
    do: Forward.run(model, batch, parameters ++ Enum.map(tensors, &Backend.ref/1))

  defp forward(model, parameters, tensors, batch, size) do
    uploaded = Enum.map(tensors, &State.upload/1)

    0..(batch - 1)//size
    |> Enum.map(fn start ->
      rows = min(size, batch - start)
      part = Enum.zip_with(uploaded, model.inputs, &rows(&1, &2, start, rows))
      {Forward.run(model, rows, parameters ++ Enum.map(part, &Backend.ref/1)), rows}
    end)
    |> concatenate()
  end

  defp rows(tensor, {_name, {_type, [nil | _]}}, start, rows),
    do: Nx.slice_along_axis(tensor, start, rows, axis: 0)

  defp rows(tensor, _fixed, _start, _rows), do: tensor

  defp concatenate([{first, _rows} | _] = parts) do
    {output, _leaves} = Output.describe(first)
    leaves = parts |> Enum.map(&row_leaves/1) |> Enum.zip_with(&Nx.concatenate(&1, axis: 0))
    Output.fill(output, List.to_tuple(leaves))
  end

  defp row_leaves({part, rows}) do
    {_output, leaves} = Output.describe(part)

    for %{shape: shape} <- leaves, shape == {} or elem(shape, 0) != rows do
      raise Error,
        op: :predict,
        reason:
          "batch_size: needs a model that answers one row for each sample, this one answers " <>
            "#{inspect(shape)} for #{rows}"
    end

    leaves
  end

  # The program of an Axon model that is not compiled is kept by the model and the types of the inputs.
  defp once({axon, given}, input) do
    inputs = Input.declared(axon, Input.templates_like(input))
    key = {__MODULE__, :erlang.md5(:erlang.term_to_binary({axon, inputs}))}

    {skeleton, needed} =
      Cache.fetch(key, fn -> {skeleton(axon, inputs), needed(axon, inputs)} end)

    %{skeleton | axon: axon} |> Model.update_params(given) |> complete!(needed)
  end

  defp skeleton(axon, inputs) do
    {parameters, states, frozen} = Initial.types(axon, inputs, :train)
    source = %{inputs: inputs, parameters: parameters, states: states}
    forward = Forward.new(Map.merge(source, %{axon: axon, frozen: frozen}))
    struct!(Model, Map.put(source, :forward, forward))
  end

  # States that only training reads, such as the keys of dropout, are not needed to predict.
  defp needed(axon, inputs) do
    {parameters, states, _frozen} = Initial.types(axon, inputs, :inference)
    MapSet.new(parameters ++ states, &elem(&1, 0))
  end

  defp complete!(model, needed) do
    template? = &match?({_path, %{data: %Nx.TemplateBackend{}}}, &1)
    lacking = Enum.filter(model.parameters ++ model.states, template?)
    missing = for {path, _template} <- lacking, path in needed, do: State.name(path)

    if missing != [] do
      raise Error, op: :predict, reason: "the parameters lack #{Enum.join(missing, ", ")}"
    end

    fill = fn {path, tensor} = leaf ->
      if template?.(leaf), do: {path, zeros(tensor)}, else: leaf
    end

    %{model | states: Enum.map(model.states, fill)}
  end

  defp zeros(%Nx.Tensor{type: type, shape: shape}),
    do: 0 |> Nx.tensor(type: type, backend: Backend) |> Nx.broadcast(shape)
end
