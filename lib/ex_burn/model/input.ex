defmodule ExBurn.Model.Input do
  @moduledoc """
  What a model is fed with: the inputs it declares, and what it is given.
  """

  alias ExBurn.{Error, Model, Options, Type}
  alias Nx.Tensor, as: T

  @doc """
  The inputs of an Axon model, ordered by name.

  The shape is the one given to `Axon.input/2`; its `nil` is the batch size. The type is `f32`, or `s64` for what an
  embedding looks up. `given`, a map of templates by name, says otherwise, and is needed for inputs without a shape; the
  first axis of a template is the batch. Optional inputs are left out unless they are given.
  """
  @spec declared(struct(), %{String.t() => Nx.Tensor.t()} | Nx.Tensor.t()) :: [Model.input()]
  def declared(axon, given) do
    nodes = nodes(axon)
    names = nodes |> Enum.map(&elem(&1, 0)) |> Enum.uniq() |> Enum.sort()
    given = templates(given, names)
    indices = indices(axon)

    for name <- names,
        same = for({^name, node} <- nodes, do: node),
        given[name] != nil or not hd(same).opts[:optional] do
      index? = Enum.any?(same, &(&1.id in indices))
      {name, given_type(given[name]) || declared_type(name, hd(same).opts[:shape], index?)}
    end
  end

  defp nodes(axon),
    do: for({_id, %{op: :input} = node} <- axon.nodes, do: {node.name.(:input, %{}), node})

  @doc """
  The inputs as training takes them: of any number of rows, and of any length along the axes that the Axon model leaves open.
  Data is cut into batches, and there is a program for each of their shapes.

  ## Examples

      iex> axon = Axon.input("x", shape: {nil, nil, 3})
      iex> ExBurn.Model.Input.open([{"x", {{:f, 32}, [nil, 4, 3]}}], axon)
      [{"x", {{:f, 32}, [nil, nil, 3]}}]

  """
  @spec open([Model.input()], struct() | nil) :: [Model.input()]
  def open(inputs, axon) do
    shapes = if axon, do: Map.new(nodes(axon), &shape_of/1), else: %{}

    Enum.map(inputs, fn
      {name, {type, [_rows | axes]}} -> {name, {type, [nil | open_axes(axes, shapes[name])]}}
      scalar -> scalar
    end)
  end

  defp shape_of({name, node}), do: {name, node.opts[:shape]}

  defp open_axes(axes, shape) when is_tuple(shape) and tuple_size(shape) == length(axes) + 1 do
    [_batch | declared] = Tuple.to_list(shape)
    Enum.zip_with(axes, declared, fn size, open -> open && size end)
  end

  defp open_axes(axes, _shape), do: axes

  defp templates(given, names) do
    case {by_name(given, names), names} do
      {%{} = given, names} ->
        unknown!(:compile, Map.keys(given) -- names, names)
        given

      {:error, names} ->
        raise Error,
          op: :compile,
          reason:
            "inputs: must be a map of templates, the model's inputs are #{Options.list(names)}"
    end
  end

  # A lone tensor stands for the only input.
  defp by_name(%T{} = tensor, [name]), do: %{name => tensor}
  defp by_name(%T{}, _names), do: :error
  defp by_name(%{} = map, _names) when not is_struct(map), do: map
  defp by_name(_other, _names), do: :error

  defp given_type(nil), do: nil

  defp given_type(%T{shape: shape, type: type}) when tuple_size(shape) > 0,
    do: {type, [nil | tl(Tuple.to_list(shape))]}

  defp given_type(other) do
    raise Error,
      op: :compile,
      reason: "inputs: has #{Options.short(other)}, expected a template with a batch axis"
  end

  defp declared_type(name, shape, index?) when is_tuple(shape),
    do: {if(index?, do: {:s, 64}, else: {:f, 32}), axes(shape, name)}

  defp declared_type(name, _shape, _index?), do: no_shape!(name)

  defp axes(shape, name) do
    case Tuple.to_list(shape) do
      [batch | rest] when batch == nil or is_integer(batch) ->
        if Enum.all?(rest, &is_integer/1), do: [batch | rest], else: no_shape!(name)

      [] ->
        []

      _container ->
        no_shape!(name)
    end
  end

  defp no_shape!(name) do
    raise Error,
      op: :compile,
      reason:
        "the shape of input #{inspect(name)} is not known beyond the batch; " <>
          "give it to Axon.input or as inputs: %{#{inspect(name)} => Nx.template({1, …}, type)}"
  end

  # Ids of the nodes that an embedding reads.
  defp indices(axon) do
    for {_id, %{op_name: :embedding, parent: [parent | _]}} <- axon.nodes, do: parent
  end

  @doc """
  The given tensors in the order of `inputs`, checked and in the declared types, with their batch size.

  The batch size is 1 for a model without a free batch axis.
  """
  @spec check!(atom(), [Model.input()], term()) :: {[Nx.Tensor.t()], pos_integer()}
  def check!(op, inputs, value) do
    names = Enum.map(inputs, &elem(&1, 0))

    given =
      case by_name(value, names) do
        :error -> not_named!(op, value, names)
        given -> given
      end

    unknown!(op, Map.keys(given) -- names, names)
    tensors = for {name, type} <- inputs, do: check_one!(op, name, type, given)
    {tensors, batch!(op, inputs, tensors)}
  end

  defp not_named!(op, %T{}, names) do
    raise Error,
      op: op,
      reason: "got one tensor, expected a map of tensors named #{Options.list(names)}"
  end

  defp not_named!(op, value, names) do
    expected = if match?([_], names), do: "a tensor or a map", else: "a map"

    raise Error,
      op: op,
      reason:
        "got #{Options.short(value)}, " <>
          "expected #{expected} of tensors named #{Options.list(names)}"
  end

  defp unknown!(_op, [], _names), do: :ok

  defp unknown!(op, unknown, names) do
    raise Error,
      op: op,
      reason:
        "unknown input #{Options.list(unknown)}; the model's inputs are #{Options.list(names)}"
  end

  defp check_one!(op, name, {type, shape}, given) do
    case given do
      %{^name => %T{vectorized_axes: []} = tensor} ->
        shape!(op, name, shape, tensor)
        cast!(op, name, type, tensor)

      %{^name => other} ->
        raise Error,
          op: op,
          reason: "input #{inspect(name)} is #{Options.short(other)}, expected a tensor"

      %{} ->
        raise Error, op: op, reason: "input #{inspect(name)} is missing"
    end
  end

  defp shape!(op, name, shape, tensor) do
    got = Tuple.to_list(tensor.shape)

    fits? =
      length(got) == length(shape) and
        Enum.all?(Enum.zip(shape, got), fn {want, got} -> want in [nil, got] end)

    if not fits? do
      raise Error,
        op: op,
        reason: "input #{inspect(name)} has shape #{text(got)}, expected #{text(shape)}"
    end
  end

  @doc """
  A shape for people.

  ## Examples

      iex> ExBurn.Model.Input.text([nil, 8, 8])
      "{batch, 8, 8}"

  """
  @spec text([non_neg_integer() | nil]) :: String.t()
  def text([]), do: "{}"

  def text([batch | axes]) do
    axes = Enum.map(axes, &(&1 || "any"))
    "{" <> Enum.join([batch || "batch" | axes], ", ") <> "}"
  end

  # As Nx would promote the input; what would make the input narrower is refused.
  defp cast!(op, name, type, %T{type: given} = tensor) do
    tensor = %{tensor | names: List.duplicate(nil, tuple_size(tensor.shape))}

    cond do
      given == type ->
        tensor

      not Nx.Type.complex?(given) and Nx.Type.merge(given, type) == type ->
        Nx.as_type(tensor, type)

      true ->
        raise Error,
          op: op,
          reason:
            "input #{inspect(name)} has type #{Type.name(given)}, expected #{Type.name(type)}; see Nx.as_type/2"
    end
  end

  defp batch!(op, inputs, tensors) do
    sizes =
      for {{name, {_type, [nil | _]}}, tensor} <- Enum.zip(inputs, tensors),
          do: {name, elem(tensor.shape, 0)}

    case sizes |> Enum.map(&elem(&1, 1)) |> Enum.uniq() do
      [] ->
        1

      [batch] ->
        batch

      _several ->
        raise Error,
          op: op,
          reason:
            "inputs have different batch sizes: " <>
              Enum.map_join(sizes, ", ", fn {name, size} -> "#{inspect(name)} #{size}" end)
    end
  end

  @doc """
  Templates of what a model is given, for `declared/2`.
  """
  @spec templates_like(term()) :: term()
  def templates_like(%T{} = tensor), do: Nx.to_template(tensor)

  def templates_like(%{} = map) when not is_struct(map) do
    for {name, %T{} = tensor} <- map, into: %{}, do: {name, Nx.to_template(tensor)}
  end

  def templates_like(_other), do: %{}

  @doc """
  Templates of the inputs for a batch size, by name.
  """
  @spec templates_of([Model.input()], pos_integer()) :: %{String.t() => Nx.Tensor.t()}
  def templates_of(inputs, batch) do
    Map.new(inputs, fn {name, {type, shape}} ->
      {name, Nx.template(shape |> Enum.map(&(&1 || batch)) |> List.to_tuple(), type)}
    end)
  end
end
