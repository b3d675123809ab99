defmodule ExBurn.Training.Update do
  @moduledoc """
  An optimizer that is a pair of functions, as a native program.

  The program takes parameters, their gradients and the optimizer's state, and answers the next parameters and the next
  state. What `update` answers is added to the parameters.
  """

  alias ExBurn.Defn.{Cache, Compiler, Lowering}
  alias ExBurn.{Backend, Error, Model, Options, Type}
  alias ExBurn.Model.{Forward, State}
  alias ExBurn.Training.{Failure, Optimizer}
  alias Nx.Defn.Composite

  @doc """
  The program of a pair for these parameters, and the state that it starts from: `{program, {count, slots}}`.
  """
  @spec prepare!({function(), function()}, Model.leaves()) ::
          {reference(), {0, [[reference()]]}}
  def prepare!({init, _update} = pair, trainable) do
    state = own("init", fn -> start(init, trainable) end)
    templates = Composite.traverse(state, &Nx.to_template/1)
    parameters = Enum.map(trainable, fn {path, t} -> {path, Nx.to_template(t)} end)
    key = {__MODULE__, pair, parameters, templates}

    program =
      Cache.fetch(key, fn -> own("update", fn -> build(pair, parameters, templates) end) end)

    refs = [state] |> Composite.flatten_list() |> Enum.map(&Backend.ref(State.upload(&1)))
    {program, {0, [refs]}}
  end

  defp start(init, trainable),
    do: init |> Nx.Defn.jit(compiler: Compiler) |> apply([State.nest(trainable)])

  defp own(name, function), do: Failure.calling(:fit, "optimizer: its #{name}", function)

  defp build({_init, update}, parameters, state) do
    paths = Enum.map(parameters, &elem(&1, 0))
    values = parameters |> Enum.map(&elem(&1, 1)) |> List.to_tuple()
    arguments = [values, values, state]
    outputs = [paths |> next(update) |> Forward.expression(arguments)] |> Composite.flatten_list()
    inputs = arguments |> Composite.flatten_list() |> Enum.map(&Type.of/1)
    outputs |> Lowering.lower(inputs, keep_unused: true) |> Compiler.native()
  end

  defp next(paths, update) do
    fn parameters, gradients, state ->
      nested = &(paths |> Enum.zip(Tuple.to_list(&1)) |> State.nest())

      {changes, new_state} =
        gradients |> nested.() |> update.(state, nested.(parameters)) |> answer!()

      {add(paths, parameters, State.flatten(changes)), like(new_state, state)}
    end
  end

  defp answer!({changes, _state} = answer) when is_map(changes), do: answer

  defp answer!(other) do
    refused!("update must answer {updates by parameter, state}, got #{Options.short(other)}")
  end

  defp add(paths, parameters, changes) do
    if Enum.map(changes, &elem(&1, 0)) != paths,
      do: refused!("its updates are not shaped as the parameters")

    parameters
    |> Tuple.to_list()
    |> Enum.zip_with(changes, fn p, {_path, change} ->
      p |> Nx.add(change) |> Nx.as_type(p.type)
    end)
    |> List.to_tuple()
  end

  defp like(new, old) do
    [new, old] = Enum.map([new, old], &Composite.flatten_list([&1]))

    if Enum.map(new, & &1.shape) != Enum.map(old, & &1.shape),
      do: refused!("its new state is not shaped as the one that it took")

    new |> Enum.zip_with(old, &Nx.as_type(&1, &2.type)) |> List.to_tuple()
  end

  defp refused!(reason), do: raise(Error, op: :fit, reason: "optimizer: #{reason}")

  @doc """
  Refuses `what` sets a learning rate, which a pair of functions has no use for.

  ## Examples

      iex> pair = {&Function.identity/1, fn gradients, state, _parameters -> {gradients, state} end}
      iex> ExBurn.Training.Update.no_rate!(:adam, "lr_schedule:", :fit)
      :ok
      iex> try do
      ...>   ExBurn.Training.Update.no_rate!(pair, "lr_schedule:", :fit)
      ...> rescue
      ...>   error -> Exception.message(error)
      ...> end
      "fit: lr_schedule: has no effect on a pair {init, update}, which brings its own learning rate; give the schedule to the optimizer"

  """
  @spec no_rate!(Optimizer.t(), String.t(), atom()) :: :ok
  def no_rate!(optimizer, what, op) do
    if Optimizer.pair?(optimizer) do
      raise Error,
        op: op,
        reason:
          "#{what} has no effect on a pair {init, update}, which brings its own learning rate; " <>
            "give the schedule to the optimizer"
    end

    :ok
  end
end
