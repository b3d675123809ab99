defmodule ExBurn.Training.Data do
  @moduledoc """
  Inputs and targets in native memory, checked against a model.

  There is one row per example along the first axis of each tensor. `x` is a map of the model's inputs by name, or one
  tensor for a model of one input; `y` is a tensor, or a tuple or map of tensors.
  """

  alias ExBurn.{Backend, Error, Model}
  alias ExBurn.Model.{Input, State}
  alias Nx.Defn.Composite
  alias Nx.Tensor, as: T

  @enforce_keys [:x, :y, :rows]
  defstruct [:x, :y, :rows]

  @type t :: %__MODULE__{x: Nx.Container.t(), y: Nx.Container.t(), rows: pos_integer()}

  @doc """
  Data of the pair `{x, y}`.
  """
  @spec new!(term(), Model.t(), atom()) :: t()
  def new!({x, y}, %Model{} = model, op) do
    {inputs, _batch} = Input.check!(op, model.inputs, upload(x))
    targets = targets!(y, op)
    rows = rows!(inputs, "x", op)
    more = rows!(targets, "y", op)

    if rows != more,
      do: raise(Error, op: op, reason: "x has #{rows} rows and y has #{more}, expected as many")

    names = Enum.map(model.inputs, &elem(&1, 0))
    %__MODULE__{x: names |> Enum.zip(inputs) |> Map.new(), y: upload(y), rows: rows}
  end

  def new!(other, _model, op) do
    raise Error,
      op: op,
      reason: "data must be {x, y}, got #{ExBurn.Options.short(other)}"
  end

  # What is no tensor is left for the checks to refuse.
  defp upload(%T{vectorized_axes: []} = tensor), do: State.upload(tensor)

  defp upload(tuple) when is_tuple(tuple),
    do: tuple |> Tuple.to_list() |> Enum.map(&upload/1) |> List.to_tuple()

  defp upload(map) when is_map(map) and not is_struct(map),
    do: Map.new(map, fn {key, value} -> {key, upload(value)} end)

  defp upload(other), do: other

  defp targets!(y, op) do
    case tensors!(y, op) do
      [] -> raise Error, op: op, reason: "y is empty, expected a tensor or several"
      tensors -> tensors
    end
  end

  defp tensors!(%T{vectorized_axes: []} = tensor, _op), do: [tensor]

  defp tensors!(tuple, op) when is_tuple(tuple),
    do: tuple |> Tuple.to_list() |> Enum.flat_map(&tensors!(&1, op))

  defp tensors!(map, op) when is_map(map) and not is_struct(map),
    do: map |> Map.values() |> Enum.flat_map(&tensors!(&1, op))

  defp tensors!(other, op) do
    raise Error,
      op: op,
      reason:
        "y must be a tensor, or a tuple or map of tensors, got #{ExBurn.Options.short(other)}"
  end

  defp rows!(tensors, name, op) do
    if Enum.any?(tensors, &(&1.shape == {})),
      do: raise(Error, op: op, reason: "#{name} is a scalar, expected rows along a first axis")

    case tensors |> Enum.map(&elem(&1.shape, 0)) |> Enum.uniq() do
      [rows] ->
        rows

      several ->
        raise Error,
          op: op,
          reason:
            "the tensors of #{name} have #{Enum.join(several, " and ")} rows, expected as many"
    end
  end

  @doc """
  All tensors, those of `x` first.
  """
  @spec tensors(t()) :: [Nx.Tensor.t()]
  def tensors(%__MODULE__{x: x, y: y}), do: Composite.flatten_list([x, y])

  @doc """
  Templates `{x, y}` of a batch of `rows`.
  """
  @spec templates(t(), pos_integer()) :: {Nx.Container.t(), Nx.Container.t()}
  def templates(%__MODULE__{x: x, y: y}, rows) do
    template = fn t -> Nx.template(put_elem(t.shape, 0, rows), t.type, names: t.names) end
    {Composite.traverse(x, template), Composite.traverse(y, template)}
  end

  @doc """
  The sizes of the batches that `rows` are cut into: the full size, and that of a short last batch.

  ## Examples

      iex> ExBurn.Training.Data.batch_sizes(10, 4)
      [4, 2]
      iex> ExBurn.Training.Data.batch_sizes(8, 4)
      [4]
      iex> ExBurn.Training.Data.batch_sizes(3, 4)
      [3]

  """
  @spec batch_sizes(pos_integer(), pos_integer()) :: [pos_integer()]
  def batch_sizes(rows, size) do
    full = if rows >= size, do: [size], else: []
    if rem(rows, size) > 0, do: full ++ [rem(rows, size)], else: full
  end

  @doc """
  Batches of up to `size` rows, in order.
  """
  @spec batches(t(), pos_integer()) :: Enumerable.t(t())
  def batches(%__MODULE__{rows: rows} = data, size) do
    Stream.map(0..(rows - 1)//size, &slice(data, &1, min(size, rows - &1)))
  end

  defp slice(data, start, length) do
    part = &Nx.slice_along_axis(&1, start, length, axis: 0)

    %__MODULE__{
      x: Composite.traverse(data.x, part),
      y: Composite.traverse(data.y, part),
      rows: length
    }
  end

  @doc """
  Two parts of the data: a random share `fraction`, drawn with `seed`, comes second.
  """
  @spec split!(t(), float(), non_neg_integer(), atom()) :: {t(), t()}
  def split!(%__MODULE__{rows: rows} = data, fraction, seed, op) do
    held_out = round(rows * fraction)

    if held_out == 0 or held_out == rows do
      raise Error,
        op: op,
        reason: "validation_data: #{fraction} of #{rows} rows leaves one part empty"
    end

    {order, _} = Enum.map_reduce(0..(rows - 1), :rand.seed_s(:exsss, seed), &draw/2)
    {second, first} = order |> Enum.sort() |> Enum.map(&elem(&1, 1)) |> Enum.split(held_out)
    {pick(data, Enum.sort(first)), pick(data, Enum.sort(second))}
  end

  defp draw(row, random) do
    {key, random} = :rand.uniform_s(random)
    {{key, row}, random}
  end

  defp pick(data, rows) do
    index = Nx.tensor(rows, type: :s64, backend: Backend)
    part = &Nx.take(&1, index, axis: 0)

    %__MODULE__{
      x: Composite.traverse(data.x, part),
      y: Composite.traverse(data.y, part),
      rows: length(rows)
    }
  end
end
