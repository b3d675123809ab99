defmodule ExBurn.Model.Initial do
  @moduledoc """
  Which parameters and states an Axon model has, and what they start from.
  """

  alias ExBurn.{Backend, Model}
  alias ExBurn.Model.{Forward, InitialKeys, Input, State}

  # Axon is an optional dependency.
  @compile {:no_warn_undefined, [Axon, Axon.ModelState]}

  @doc """
  Templates of an Axon model's parameters and of its states in `mode`, and the paths that it freezes.
  """
  @spec types(struct(), [Model.input()], :train | :inference) ::
          {Model.leaves(), Model.leaves(), MapSet.t(Model.path())}
  def types(axon, inputs, mode) do
    {init, _predict} = Axon.build(axon, mode: mode)
    fun = &init.(&1, Axon.ModelState.empty())
    state = Forward.expression(fun, [Input.templates_of(inputs, 1)])
    {parameters, states, frozen} = State.from_axon(state)
    {templates(parameters), templates(states), frozen}
  end

  defp templates(leaves), do: Enum.map(leaves, fn {path, t} -> {path, Nx.to_template(t)} end)

  @doc """
  The model with the parameters and states that are given, and for the others what the layers' initializers make.
  """
  @spec fill(Model.t(), struct() | map()) :: Model.t()
  def fill(model, given) do
    given = State.leaves(given)
    paths = MapSet.new(given, &elem(&1, 0))
    missing? = &(elem(&1, 0) not in paths)

    if Enum.any?(model.parameters ++ model.states, missing?) do
      fresh = model |> run_initializers() |> Enum.filter(missing?) |> Enum.map(&seeded(&1, model))
      Model.update_params(model, fresh ++ given)
    else
      Model.update_params(model, given)
    end
  end

  defp run_initializers(%Model{axon: axon, seed: seed, inputs: inputs}) do
    opts = [mode: :train, seed: seed, compiler: ExBurn.Defn.Compiler, cache: false]
    {init, _predict} = axon |> InitialKeys.put(seed) |> Axon.build(opts)
    inputs |> Input.templates_of(1) |> init.(Axon.ModelState.empty()) |> State.leaves()
  end

  # Axon seeds the random keys of layers by the clock, which no run could repeat.
  defp seeded({path, %Nx.Tensor{type: {:u, 32}, shape: {2}}} = leaf, model) do
    if List.last(path) == "key" and List.keymember?(model.states, path, 0) do
      <<key::binary-size(8), _rest::binary>> = :erlang.md5("#{model.seed} #{State.name(path)}")
      {path, Nx.from_binary(key, :u32, backend: Backend)}
    else
      leaf
    end
  end

  defp seeded(leaf, _model), do: leaf
end
