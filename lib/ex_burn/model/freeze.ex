defmodule ExBurn.Model.Freeze do
  @moduledoc """
  Which parameters training leaves as they are.

  A name is that of a layer, of a namespace or of one tensor, e.g. `"dense_0"` or `"dense_0.kernel"`. States below a frozen
  name, such as the running mean of a batch normalisation, stay as they are too.
  """

  alias ExBurn.{Error, Model, Options}
  alias ExBurn.Model.State

  @type names ::
          :all | String.t() | atom() | [String.t() | atom()] | (String.t() -> as_boolean(term()))

  @doc """
  Lets training leave parameters as they are: `names` of layers, namespaces or tensors, one of them or a list, `:all`, or a
  function of a tensor's name.

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 2}) |> Axon.dense(3) |> Axon.dense(1) |> ExBurn.compile()
      iex> model |> ExBurn.freeze("dense_0") |> ExBurn.frozen_layers()
      ["dense_0"]
      iex> model |> ExBurn.freeze(&String.ends_with?(&1, "bias")) |> ExBurn.info() |> Map.get(:frozen)
      4
      iex> ExBurn.freeze(model, "dense_2")
      ** (ExBurn.Error) freeze: the model has no dense_2; its layers are "dense_0", "dense_1"

  """
  @spec freeze(Model.t(), names()) :: Model.t()
  def freeze(model, names), do: change(model, names, :freeze, &MapSet.union/2)

  @doc """
  Lets training change parameters again: the opposite of `freeze/2`.

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 2}) |> Axon.dense(3) |> Axon.dense(1) |> ExBurn.compile()
      iex> model |> ExBurn.freeze(:all) |> ExBurn.unfreeze(["dense_1"]) |> ExBurn.frozen_layers()
      ["dense_0"]

  """
  @spec unfreeze(Model.t(), names()) :: Model.t()
  def unfreeze(model, names), do: change(model, names, :unfreeze, &MapSet.difference/2)

  defp change(model, names, op, how) do
    Model.expect!(model, op)
    %{model | frozen: how.(model.frozen, paths(model, names, op))}
  end

  defp paths(model, names, op) do
    all = Enum.map(model.parameters ++ model.states, &elem(&1, 0))

    case names do
      :all ->
        MapSet.new(all)

      choose when is_function(choose, 1) ->
        all |> Enum.filter(&choose.(State.name(&1))) |> MapSet.new()

      names ->
        names |> List.wrap() |> Enum.flat_map(&below!(&1, all, op)) |> MapSet.new()
    end
  end

  defp below!(name, all, op) when is_binary(name) or (is_atom(name) and name != nil) do
    name = to_string(name)
    starts? = &(&1 == name or String.starts_with?(&1, name <> "."))

    case Enum.filter(all, &starts?.(State.name(&1))) do
      [] -> unknown!(name, all, op)
      paths -> paths
    end
  end

  defp below!(other, _all, op) do
    Options.check!(false, op, :layers, other, "names of layers, :all or a function of a name")
  end

  defp unknown!(name, all, op) do
    layers = all |> Enum.map(&hd/1) |> Enum.uniq()

    raise Error,
      op: op,
      reason: "the model has no #{name}; its layers are #{Options.list(layers)}"
  end

  @doc """
  Layers all of whose parameters are frozen.

  ## Examples

      iex> Axon.input("x", shape: {nil, 2}) |> Axon.dense(3) |> ExBurn.compile() |> ExBurn.frozen_layers()
      []

  """
  @spec frozen_layers(Model.t()) :: [String.t()]
  def frozen_layers(model) do
    Model.expect!(model, :frozen_layers)
    layer = &(&1 |> Enum.drop(-1) |> State.name())
    trained = for {path, _} <- model.parameters, path not in model.frozen, do: layer.(path)
    frozen = for {path, _} <- model.parameters, path in model.frozen, do: layer.(path)
    Enum.uniq(frozen) -- trained
  end
end
