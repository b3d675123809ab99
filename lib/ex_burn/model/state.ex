defmodule ExBurn.Model.State do
  @moduledoc """
  Parameters and states of a model, as ordered lists of `{path, tensor}` and as `Axon.ModelState`.

  The lists are what programs take as inputs: parameters by path, then states by path. Tensors may be expressions, so that
  these functions also serve inside of a traced function.
  """

  alias ExBurn.Model
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
    raise ExBurn.Error,
      op: :parameters,
      reason:
        "#{Enum.join(Enum.reverse(path), ".")} is #{inspect(other, limit: 3)}, expected a tensor or a map of tensors"
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
end
