defmodule ExBurn.Model.State do
  @moduledoc """
  Parameters and states of a model, as ordered lists of `{path, tensor}` and as `Axon.ModelState`.

  The lists are what programs take as inputs: parameters by path, then states by path. Tensors may be expressions, so that
  these functions also serve inside of a traced function.
  """

  alias ExBurn.{Backend, Error, Model, Options, Type}
  alias Nx.Tensor, as: T

  @doc """
  Parameters, states and frozen paths of an `Axon.ModelState`.
  """
  @spec from_axon(struct()) :: {Model.leaves(), Model.leaves(), MapSet.t(Model.path())}
  def from_axon(%{__struct__: Axon.ModelState} = state) do
    {states, parameters} =
      state.data |> flatten() |> Enum.split_with(&listed?(state.state, elem(&1, 0)))

    frozen =
      for {path, _} <- parameters ++ states,
          listed?(state.frozen_parameters, path),
          into: MapSet.new(),
          do: path

    {parameters, states, frozen}
  end

  # Axon lists the names of a layer's parameters under the layer's name; a name may stand for a map of tensors.
  defp listed?(_names, []), do: true
  defp listed?(names, [name | _]) when is_list(names), do: name in names

  defp listed?(names, [name | path]) when is_map(names) and is_map_key(names, name),
    do: listed?(names[name], path)

  defp listed?(_names, _path), do: false

  @doc """
  The `Axon.ModelState` of parameters, states and frozen paths.
  """
  @spec to_axon(Model.leaves(), Model.leaves(), Enumerable.t(Model.path())) :: struct()
  def to_axon(parameters, states, frozen \\ []) do
    struct!(Axon.ModelState,
      data: nest(parameters ++ states),
      parameters: names(Enum.map(parameters, &elem(&1, 0))),
      state: names(Enum.map(states, &elem(&1, 0))),
      frozen_parameters: names(frozen)
    )
  end

  defp names(paths) do
    paths
    |> Enum.group_by(&hd/1, &tl/1)
    |> Map.new(fn {name, rests} -> {name, below(rests)} end)
  end

  defp below(rests) do
    if Enum.all?(rests, &match?([_], &1)), do: Enum.map(rests, &hd/1), else: names(rests)
  end

  @doc """
  The tensors of a nested map, ordered by path.

  ## Examples

      iex> ExBurn.Model.State.flatten(%{"b" => %{"x" => Nx.tensor(1)}, "a" => Nx.tensor(2)})
      [{["a"], Nx.tensor(2)}, {["b", "x"], Nx.tensor(1)}]

  """
  @spec flatten(map()) :: Model.leaves()
  def flatten(map), do: map |> flatten([]) |> Enum.sort_by(&elem(&1, 0))

  defp flatten(%T{} = tensor, path), do: [{Enum.reverse(path), tensor}]

  defp flatten(%{} = map, path) when not is_struct(map),
    do: Enum.flat_map(map, fn {name, value} -> flatten(value, [name | path]) end)

  defp flatten(other, path) do
    raise Error,
      op: :parameters,
      reason:
        "#{Enum.join(Enum.reverse(path), ".")} is #{Options.short(other)}, expected a tensor or a map of tensors"
  end

  @doc """
  The nested map of `[{path, tensor}]`.

  ## Examples

      iex> ExBurn.Model.State.nest([{["b", "x"], 1}, {["a"], 2}])
      %{"a" => 2, "b" => %{"x" => 1}}

  """
  @spec nest([{Model.path(), value}]) :: map() when value: term()
  def nest(leaves) do
    Enum.reduce(leaves, %{}, fn {path, value}, map ->
      put_in(map, Enum.map(path, &Access.key(&1, %{})), value)
    end)
  end

  @doc """
  The tensor in native memory, without names of axes.
  """
  @spec upload(Nx.Tensor.t()) :: Nx.Tensor.t()
  def upload(%T{} = tensor) do
    template = %{tensor | names: List.duplicate(nil, Nx.rank(tensor))}
    Backend.put(template, Backend.ref(tensor), Backend.device(tensor))
  end

  @doc """
  What was given as parameters - an `Axon.ModelState`, a model, a nested map or a list of leaves - as leaves.
  """
  @spec leaves(term()) :: Model.leaves()
  def leaves(%{__struct__: Axon.ModelState, data: data}), do: flatten(data)
  def leaves(%Model{parameters: parameters, states: states}), do: parameters ++ states
  def leaves(%{} = map) when not is_struct(map), do: flatten(map)
  def leaves(list) when is_list(list), do: list |> nest() |> flatten()

  def leaves(other) do
    raise Error,
      op: :parameters,
      reason: "got #{Options.short(other)}, expected a map of tensors by layer and name"
  end

  @doc """
  The leaves with those in `given` replaced, checked and uploaded.

  The leaves may hold templates. `ExBurn.Error` when `given` has a path that they lack, or a tensor of another shape. Types
  are converted.
  """
  @spec replace(Model.leaves(), Model.leaves()) :: Model.leaves()
  def replace(leaves, given) do
    given = Map.new(given)
    known!(Map.keys(given) -- Enum.map(leaves, &elem(&1, 0)), leaves)

    for {path, old} <- leaves do
      case given do
        %{^path => new} -> {path, fit!(path, new, old)}
        %{} -> {path, old}
      end
    end
  end

  defp known!([], _leaves), do: :ok

  defp known!(unknown, leaves) do
    raise Error,
      op: :parameters,
      reason:
        "the model has no #{Enum.map_join(unknown, ", ", &name/1)}; " <>
          "its layers are #{leaves |> Enum.map(&hd(elem(&1, 0))) |> Enum.uniq() |> Options.list()}"
  end

  defp fit!(_path, %T{shape: shape, type: type} = new, %T{shape: shape, type: type}),
    do: upload(new)

  defp fit!(path, %T{shape: shape} = new, %T{shape: shape, type: type}) do
    if Nx.Type.complex?(new.type) and not Nx.Type.complex?(type) do
      raise Error,
        op: :parameters,
        reason: "#{name(path)} has type #{Type.name(new.type)}, expected #{Type.name(type)}"
    end

    new |> upload() |> Nx.as_type(type)
  end

  defp fit!(path, new, old) do
    raise Error,
      op: :parameters,
      reason: "#{name(path)} has shape #{inspect(new.shape)}, expected #{inspect(old.shape)}"
  end

  @doc """
  A path for people, and the name of its tensor in a file.

  ## Examples

      iex> ExBurn.Model.State.name(["dense_0", "kernel"])
      "dense_0.kernel"

  """
  @spec name(Model.path()) :: String.t()
  def name(path), do: Enum.join(path, ".")
end
