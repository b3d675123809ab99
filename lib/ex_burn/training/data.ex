defmodule ExBurn.Training.Data do
  @moduledoc """
  Inputs and targets in native memory, checked against a model.

  There is one row per example along the first axis of each tensor. `x` is a map of the model's inputs by name, or one
  tensor for a model of one input; `y` is a tensor, or a tuple or map of tensors. A vector of weights of the rows may
  follow.
  """

  alias ExBurn.{Backend, Error, Model}
  alias ExBurn.Model.{Input, State}
  alias ExBurn.Training.Weights
  alias Nx.Defn.Composite
  alias Nx.Tensor, as: T

  @enforce_keys [:x, :y, :rows]
  defstruct [:x, :y, :rows, weights: {}]

  @typedoc "`weights` is an empty tuple where there are none."
  @type t :: %__MODULE__{
          x: Nx.Container.t(),
          y: Nx.Container.t(),
          rows: pos_integer(),
          weights: Nx.Tensor.t() | {}
        }

  @type templates :: {Nx.Container.t(), Nx.Container.t(), Nx.Tensor.t() | {}}

  @doc """
  Data of `{x, y}` or `{x, y, weights}`.
  """
  @spec new!(term(), Model.t(), atom()) :: t()
  def new!({x, y}, %Model{} = model, op) do
    {inputs, _batch} = Input.check!(op, Input.open(model.inputs, model.axon), upload(x))
    targets = targets!(y, op)
    rows = rows!(inputs, "x", op)
    more = rows!(targets, "y", op)

    if rows != more,
      do: raise(Error, op: op, reason: "x has #{rows} rows and y has #{more}, expected as many")

    names = Enum.map(model.inputs, &elem(&1, 0))
    %__MODULE__{x: names |> Enum.zip(inputs) |> Map.new(), y: upload(y), rows: rows}
  end

  def new!({x, y, weights}, %Model{} = model, op) do
    data = new!({x, y}, model, op)
    %{data | weights: weights!(weights, data.rows, op)}
  end

  def new!(other, _model, op) do
    raise Error,
      op: op,
      reason: "data must be {x, y} or {x, y, weights}, got #{ExBurn.Options.short(other)}"
  end

  defp weights!(%T{shape: {rows}, vectorized_axes: [], type: {kind, _}} = weights, rows, op)
       when kind in [:f, :bf, :s, :u] do
    # Some may be too small for f32, if others are not.
    {least, largest} =
      {weights |> Nx.reduce_min() |> Nx.to_number(), weights |> Nx.reduce_max() |> Nx.to_number()}

    cond do
      not is_number(least) or least < 0 -> wrong_weight!(least, op)
      not Weights.weight?(largest) -> wrong_weight!(largest, op)
      true -> :ok
    end

    weights |> Nx.as_type(:f32) |> State.upload()
  end

  defp weights!(other, rows, op) do
    raise Error,
      op: op,
      reason:
        "weights must be a vector of #{rows} real numbers, got #{ExBurn.Options.short(other)}"
  end

  defp wrong_weight!(weight, op) do
    raise Error,
      op: op,
      reason:
        "a weight is #{weight}, expected numbers of at least 0 of which f32 can hold the largest, from 1.2e-38 to 3.4e38"
  end

  @doc """
  How many rows `{x, y}` has, `nil` of an enumerable and of what is no data.

  ## Examples

      iex> ExBurn.Training.Data.rows({Nx.iota({3, 2}), %{a: Nx.iota({3})}})
      3
      iex> ExBurn.Training.Data.rows([{Nx.iota({3, 2}), Nx.iota({3})}])
      nil

  """
  @spec rows(term()) :: pos_integer() | nil
  def rows(data) when is_tuple(data) and tuple_size(data) in [2, 3], do: first_axis(elem(data, 1))
  def rows(_data), do: nil

  defp first_axis(%T{shape: {}}), do: nil
  defp first_axis(%T{shape: shape}), do: elem(shape, 0)
  defp first_axis(tuple) when is_tuple(tuple), do: tuple |> Tuple.to_list() |> first_of()

  defp first_axis(map) when is_map(map) and not is_struct(map),
    do: map |> Map.values() |> first_of()

  defp first_axis(_other), do: nil

  defp first_of(values), do: Enum.find_value(values, &first_axis/1)

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
  def tensors(%__MODULE__{x: x, y: y, weights: weights}),
    do: Composite.flatten_list([x, y, weights])

  @doc """
  Templates `{x, y, weights}` of a batch of `rows`.
  """
  @spec templates(t(), pos_integer()) :: templates()
  def templates(%__MODULE__{x: x, y: y, weights: weights}, rows) do
    template = fn t -> Nx.template(put_elem(t.shape, 0, rows), t.type, names: t.names) end
    Composite.traverse({x, y, weights}, template)
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

  defp slice(data, start, length),
    do: part(data, length, &Nx.slice_along_axis(&1, start, length, axis: 0))

  defp part(data, rows, fun) do
    {x, y, weights} = Composite.traverse({data.x, data.y, data.weights}, fun)
    %__MODULE__{x: x, y: y, weights: weights, rows: rows}
  end

  @doc """
  The rows of several batches, which are called `name`: those of one type and shape together.
  """
  @spec join!([t()], String.t(), atom()) :: [t()]
  def join!([], name, op), do: raise(Error, op: op, reason: "#{name} has no batches")

  def join!(batches, _name, _op) do
    parts = Enum.group_by(batches, &templates(&1, 1))
    for kind <- batches |> Enum.map(&templates(&1, 1)) |> Enum.uniq(), do: together(parts[kind])
  end

  defp together([first | _] = batches) do
    columns = batches |> Enum.map(&tensors/1) |> Enum.zip_with(&Nx.concatenate(&1, axis: 0))
    all = {first.x, first.y, first.weights}
    {{x, y, weights}, []} = Composite.traverse(all, columns, fn _t, [t | rest] -> {t, rest} end)
    %__MODULE__{x: x, y: y, weights: weights, rows: Enum.sum_by(batches, & &1.rows)}
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
    part(data, length(rows), &Nx.take(&1, index, axis: 0))
  end
end
