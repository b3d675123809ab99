defmodule ExBurn.Training.Diagnosis do
  @moduledoc """
  Finds the layer at which a loss or a gradient stopped being finite.

  The step that failed is done again on what it was given, with a look at what each layer answers. Layers are looked at in
  the order in which they are computed, for gradients the other way round. Nothing is learnt where the step can't be done
  again, for example because there is no memory left for it.
  """

  alias ExBurn.Defn.{Compiler, Lowering, Run}
  alias ExBurn.{Model, NIF, Type}
  alias ExBurn.Model.State
  alias ExBurn.Training.{Data, Step}
  alias Nx.Defn.Composite

  @typedoc "Parameters, states and batch of a step, as native references."
  @type inputs :: [reference()]

  @doc """
  The name of the first layer whose output is not finite; `:none` when all are finite, `nil` when that is not known.

  `templates` are those of the batches that the run has programs for.
  """
  @spec output(Model.t(), inputs(), [Data.templates()]) :: String.t() | :none | nil
  def output(model, inputs, templates) do
    model
    |> outputs(inputs, templates)
    |> Enum.find_value(:none, fn {name, ok?} -> if !ok?, do: name end)
  rescue
    _ -> nil
  end

  @doc """
  The path of the parameter nearest to the loss whose gradient is not finite; `nil` when there is none.
  """
  @spec gradient(Model.t(), inputs(), [Data.templates()]) :: Model.path() | nil
  def gradient(model, inputs, templates) do
    layers = for {name, _finite?} <- outputs(model, inputs, templates), do: name
    order = layers |> Enum.with_index() |> Map.new()
    {trainable, _rest} = Step.arguments(model)

    trainable
    |> Step.replace(gradients(model, inputs, templates, length(trainable)))
    |> Enum.reject(fn {_path, gradient} -> finite?(gradient) end)
    |> Enum.map(&elem(&1, 0))
    |> Enum.max_by(&Map.get(order, layer(&1), -1), fn -> nil end)
  rescue
    _ -> nil
  end

  @doc """
  The name of the layer that a parameter belongs to.

  ## Examples

      iex> ExBurn.Training.Diagnosis.layer(["dense_0", "kernel"])
      "dense_0"

  """
  @spec layer(Model.path()) :: String.t()
  def layer(path), do: path |> Enum.drop(-1) |> State.name()

  defp gradients(model, inputs, templates, count) do
    step = Step.fetch!(model, :train, batch(model, inputs, templates), :fit)

    case model.gradients do
      :autodiff ->
        {:ok, {_, gradients}} = NIF.train_gradients_dirty(step.program, count, inputs, :off)
        gradients

      :symbolic ->
        step.program
        |> Run.run({inputs, []}, model.device, false, Step.silent(step), %{})
        |> Enum.take(-count)
    end
  end

  # `[{layer, whether its output is finite}]` in the order of computation.
  defp outputs(model, inputs, templates) do
    table = :ets.new(:outputs, [:private, :ordered_set])
    lowered = lower(%{model | axon: hooked(model.axon)}, batch(model, inputs, templates))
    calls = lowered.calls |> Enum.with_index(&look(&1, &2, table)) |> List.to_tuple()

    try do
      Run.run(Compiler.native(lowered), {inputs, []}, model.device, false, calls, %{})
      for {_number, name, finite?} <- :ets.tab2list(table), do: {name, finite?}
    after
      :ets.delete(table)
    end
  end

  defp lower(model, batch) do
    traced = Step.expression(%{model | gradients: :autodiff}, :train, batch)
    types = model |> Step.inputs(batch) |> Enum.map(&Type.of/1)
    Lowering.lower([traced.loss], types, calls: true, keep_unused: true)
  end

  # Every node of the graph calls, and those of the user are silent.
  defp hooked(axon) do
    hook = {:forward, :train, &__MODULE__.here/1}
    %{axon | nodes: Map.new(axon.nodes, fn {id, node} -> {id, %{node | hooks: [hook]}} end)}
  end

  @doc false
  def here(output), do: output

  defp look({:hook, {:named, name, here}, template}, number, table) when is_function(here) do
    note = fn output -> :ets.insert(table, {number, Atom.to_string(name), finite?(output)}) end
    silent = fn _output -> nil end
    {:hook, {:fn, if(here == (&__MODULE__.here/1), do: note, else: silent)}, template}
  end

  defp look({:hook, _spec, template}, _number, _table),
    do: {:hook, {:fn, fn _output -> nil end}, template}

  defp look(call, _number, _table), do: call

  defp finite?(container),
    do: [container] |> Composite.flatten_list() |> Enum.all?(&all_finite?/1)

  defp all_finite?(tensor) do
    bad = Nx.logical_or(Nx.is_nan(tensor), Nx.is_infinity(tensor))
    bad |> Nx.any() |> Nx.to_number() == 0
  end

  # The templates that fit the last of the inputs.
  defp batch(model, inputs, templates) do
    given = inputs |> Enum.drop(Step.leading(model)) |> Enum.map(&type/1)

    Enum.find(templates, fn batch ->
      [batch] |> Composite.flatten_list() |> Enum.map(&Type.of/1) == given
    end)
  end

  defp type(ref) do
    {:ok, type} = NIF.tensor_type(ref)
    type
  end
end
