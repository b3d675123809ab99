defmodule ExBurn.Model.Forward do
  @moduledoc """
  How a model predicts: one program for each batch size, made from one template.

  A program is static, so the inference function is traced at three batch sizes. The integers in which the three programs
  differ must grow with the batch as `slope * batch + offset`; then they are kept as such rules, in a template, and any
  batch size has its program without Axon. Where that fails, `:template` is `nil` and `:reason` says why: each batch
  size is traced when it is asked for, and a file holds the sizes that `ExBurn.save/3` names, which `:batch_sizes` lists.

  It fails for a recurrent layer with Axon's default initial state, which is drawn at random on a scale that depends on the
  batch; `recurrent_initializer: :zeros` avoids that.

  The program takes the parameters, the states and the inputs, each in the order of `ExBurn.Model`, then `:captures`, the
  tensors that the function brought along.
  """

  alias ExBurn.{Backend, Error, Model, NIF, Options, Type}
  alias ExBurn.Defn.{Cache, Compiler, Lowering, Run}
  alias ExBurn.Model.{Input, Output, State}
  alias Nx.Tensor, as: T

  @enforce_keys [:output, :key]
  defstruct [:output, :key, :template, :reason, :batch_sizes, captures: []]

  @type t :: %__MODULE__{
          output: Output.t(),
          key: term(),
          template: String.t() | nil,
          reason: String.t() | nil,
          batch_sizes: [pos_integer()] | nil,
          captures: [Nx.Tensor.t()]
        }

  @type types :: [{Model.path(), Nx.Tensor.t()}]

  @batches [2, 3, 5]

  @typedoc "What makes the parameters of the Axon model of those that the program takes, as it is traced."
  @type restore :: (Model.leaves() -> Model.leaves())

  @typedoc "Of a model, or of what it will be made of; `:parameters` and `:states` may be templates."
  @type source :: %{
          axon: struct(),
          inputs: [Model.input()],
          parameters: types(),
          states: types(),
          frozen: MapSet.t()
        }

  @doc """
  Traces the Axon model with parameters and states of the given types.
  """
  @spec new(source() | Model.t(), restore()) :: t()
  def new(model, restore \\ &Function.identity/1) do
    traces = Enum.map(@batches, &trace(model, &1, restore))
    first = hd(traces)

    case template(traces) do
      {:ok, template} ->
        captures = Enum.map(first.captures, &State.upload/1)
        from_template(template, captures, first.output)

      {:error, reason} ->
        %__MODULE__{output: first.output, key: make_ref(), reason: reason}
    end
  end

  @doc """
  The way to predict that `template`, a JSON text, describes.
  """
  @spec from_template(String.t(), [Nx.Tensor.t()], Output.t(), [pos_integer()] | nil) :: t()
  def from_template(template, captures, output, batch_sizes \\ nil) do
    %__MODULE__{
      output: output,
      key: {:erlang.md5(template), Enum.map(captures, &Backend.ref/1)},
      template: template,
      captures: captures,
      batch_sizes: batch_sizes
    }
  end

  defp template([first | rest] = traces) do
    if Enum.all?(rest, &same?(&1.captures, first.captures)) do
      case NIF.template_any(Enum.zip(@batches, Enum.map(traces, & &1.program))) do
        {:ok, template} -> {:ok, template}
        {:error, {:invalid, %{reason: reason}}} -> {:error, reason}
        {:error, error} -> raise Error.from_native(error)
      end
    else
      {:error, "a tensor that it captures depends on the batch size"}
    end
  end

  defp same?(tensors, others) do
    length(tensors) == length(others) and
      Enum.all?(Enum.zip(tensors, others), fn {a, b} ->
        a == b or (Type.of(a) == Type.of(b) and Nx.to_binary(a) == Nx.to_binary(b))
      end)
  end

  @doc """
  The program of the inference function for a batch size: what `ExBurn.Defn.Lowering` answers, with its `:output`.
  """
  @spec trace(source() | Model.t(), pos_integer(), restore()) :: map()
  def trace(model, batch, restore \\ &Function.identity/1) do
    {_init, predict} = Axon.build(model.axon, mode: :inference)
    paths = {Enum.map(model.parameters, &elem(&1, 0)), Enum.map(model.states, &elem(&1, 0))}

    fun = fn parameters, states, inputs ->
      parameters = elem(paths, 0) |> Enum.zip(Tuple.to_list(parameters)) |> restore.()
      states = Enum.zip(elem(paths, 1), Tuple.to_list(states))
      predict.(State.to_axon(parameters, states, model.frozen), inputs)
    end

    inputs = Input.templates_of(model.inputs, batch)
    args = [templates(model.parameters), templates(model.states), inputs]
    {output, leaves} = fun |> expression(args) |> Output.describe()

    types =
      Enum.map(model.parameters ++ model.states, fn {_path, tensor} -> Type.of(tensor) end) ++
        for {name, _type} <- model.inputs, do: Type.of(inputs[name])

    leaves
    |> Lowering.lower(types, keep_unused: true, calls: :without_hooks)
    |> Map.put(:output, output)
  end

  defp templates(leaves),
    do: leaves |> Enum.map(fn {_path, tensor} -> Nx.to_template(tensor) end) |> List.to_tuple()

  @doc """
  The expression that `fun` answers for arguments of the types of `args`, with Axon's exceptions in one line.
  """
  @spec expression(function(), [Nx.Container.t()]) :: Nx.Container.t()
  def expression(fun, args) do
    Nx.Defn.debug_expr_apply(fun, args)
  rescue
    error in Axon.CompileError ->
      reraise Error,
              [op: :compile, reason: "layer #{error.name}: #{first_line(error.exception)}"],
              __STACKTRACE__

    error in ArgumentError ->
      reraise Error, [op: :compile, reason: first_line(error)], __STACKTRACE__
  end

  defp first_line(exception),
    do: exception |> Exception.message() |> String.split("\n", trim: true) |> hd()

  @doc """
  Runs the program for `batch` on parameters, states and inputs, all given as native references.
  """
  @spec run(Model.t(), pos_integer(), [reference()]) :: Nx.Container.t()
  def run(%Model{forward: forward} = model, batch, refs) do
    {program, types} = executable(model, batch)
    results = Run.run(program, {refs, []}, model.device, false, {}, %{}, :predict)
    leaves = Enum.zip_with(results, types, &tensor(&1, &2, model.device))
    Output.fill(forward.output, List.to_tuple(leaves))
  end

  defp tensor(ref, {type, shape}, device) do
    names = List.duplicate(nil, length(shape))
    template = %T{type: Type.from_name(type), shape: List.to_tuple(shape), names: names}
    Backend.put(template, ref, device)
  end

  @doc """
  The prepared program for a batch size with the types of its results.
  """
  @spec executable(Model.t(), pos_integer()) :: {reference(), [ExBurn.Program.tensor_type()]}
  def executable(%Model{forward: forward} = model, batch) do
    Cache.fetch({__MODULE__, forward.key, batch}, fn ->
      program = prepare(model, batch)
      {_inputs, outputs} = Error.unwrap!(NIF.program_types(program))
      {program, outputs}
    end)
  end

  defp prepare(%Model{forward: %{template: nil}} = model, batch) do
    model |> trace(batch) |> Compiler.native()
  end

  defp prepare(%Model{forward: forward}, batch) do
    captures = Enum.map(forward.captures, &Backend.ref/1)
    Error.unwrap!(NIF.template_program(forward.template, batch, captures))
  end

  @doc """
  With a template that holds the programs for `batches` only, if there is none for any batch.
  """
  @spec fix(Model.t(), [pos_integer()], restore()) :: t()
  def fix(model, batches, restore \\ &Function.identity/1)

  def fix(%Model{forward: %{template: nil}} = model, batches, restore) do
    [first | rest] = traces = Enum.map(batches, &trace(model, &1, restore))

    if not Enum.all?(rest, &same?(&1.captures, first.captures)) do
      raise Error,
        op: :save,
        reason:
          "the model captures tensors that depend on the batch size; save one batch size only"
    end

    template =
      Error.unwrap!(NIF.template_sizes(Enum.zip(batches, Enum.map(traces, & &1.program))))

    from_template(template, Enum.map(first.captures, &State.upload/1), first.output, batches)
  end

  def fix(%Model{forward: forward}, _batches, _restore), do: forward

  @doc """
  Batch sizes as an option of `op` gives them.
  """
  @spec sizes!(term(), atom()) :: [pos_integer()]
  def sizes!(sizes, op) do
    valid? = is_list(sizes) and sizes != [] and Enum.all?(sizes, &(is_integer(&1) and &1 > 0))
    Options.check!(valid?, op, :batch_sizes, sizes, "a list of positive integers")
    sizes
  end

  @doc """
  The sentence for a model that would need one program for all batch sizes and has none.
  """
  @spec one_size(t()) :: String.t()
  def one_size(%__MODULE__{reason: reason}) do
    "no one program serves all batch sizes: #{reason}; name some, as in batch_sizes: [1, 32]"
  end

  @doc """
  The model, after making sure that its program takes its tensors and answers what it should.
  """
  @spec check!(Model.t()) :: Model.t()
  def check!(%Model{forward: forward} = model) do
    batch = List.first(forward.batch_sizes || @batches, 1)
    program = prepare(model, batch)
    {takes, answers} = Error.unwrap!(NIF.program_types(program))

    leaves = for {_path, tensor} <- model.parameters ++ model.states, do: Type.of(tensor)

    inputs =
      for {_name, {type, shape}} <- model.inputs,
          do: {Type.name(type), Enum.map(shape, &(&1 || batch))}

    if takes != leaves ++ inputs do
      raise Error, op: :program, reason: "it does not take the model's parameters and inputs"
    end

    if Enum.any?(Output.positions(forward.output), &(&1 >= length(answers))) do
      raise Error, op: :program, reason: "it answers #{length(answers)} tensors, the model more"
    end

    model
  end
end
