defmodule ExBurn.Defn.Compiler do
  @moduledoc """
  A `Nx.Defn.Compiler`: a `defn` becomes one program and each run of it one native call.

      Nx.Defn.default_options(compiler: ExBurn.Defn.Compiler)
      Nx.Defn.jit(&Nx.exp/1, compiler: ExBurn.Defn.Compiler).(Nx.tensor([1.0, 2.0]))

  ## Options

    * `:device` - where the program runs, as in `ExBurn.Backend`. Defaults to the default device
    * `:cache` - `false` compiles anew on every call. Defaults to `true`: programs are kept by function, argument types
      and the values that the function captured

  Options of other compilers are ignored, since libraries forward their own.
  """

  alias ExBurn.Backend
  alias ExBurn.Defn.{Cache, Lowering}
  alias ExBurn.{Cost, Error, NIF, Type}
  alias Nx.Defn.Composite
  alias Nx.Tensor, as: T

  @behaviour Nx.Defn.Compiler

  @enforce_keys [:ref, :output, :used, :brief?]
  defstruct [:ref, :output, :used, :brief?]

  @typedoc "A compiled function: its native program, the container it answers and the parameters it reads."
  @type t :: %__MODULE__{
          ref: reference(),
          output: Nx.Container.t(),
          used: [non_neg_integer()],
          brief?: boolean()
        }

  @impl true
  def __jit__(key, vars, fun, args_list, opts), do: __compile__(key, vars, fun, opts).(args_list)

  @impl true
  def __compile__(key, vars, fun, opts) do
    Backend.init(Keyword.take(opts, [:device]))
    compiled = cached(key, vars, fun, opts)

    fn [args] ->
      refs = arguments(args, compiled.used)
      [compiled |> run(refs) |> fill(compiled.output)]
    end
  end

  @impl true
  def __partitions_options__(opts),
    do: List.duplicate(opts, Keyword.get(opts, :max_concurrency, 1))

  @impl true
  def __to_backend__(opts), do: {Backend, Backend.init(Keyword.take(opts, [:device]))}

  @doc """
  Traces `fun` with `vars` as parameters and prepares its program.
  """
  @spec compile([Nx.Container.t()], ([Nx.Container.t()] -> Nx.Container.t()), keyword()) :: t()
  def compile(vars, fun, opts) do
    inputs = vars |> Composite.flatten_list() |> Enum.map(&Type.of(Nx.devectorize(&1)))
    expr = fun.(vars)
    lowered = Lowering.lower(Composite.flatten_list([expr]), inputs, Keyword.take(opts, [:hooks]))

    %__MODULE__{
      ref: native(lowered),
      output: Composite.traverse(expr, &Nx.to_template/1),
      used: lowered.used,
      brief?: Cost.brief?(lowered.cost)
    }
  end

  @doc """
  The native program of what `ExBurn.Defn.Lowering` answered.
  """
  @spec native(Lowering.lowered()) :: reference()
  def native(%{program: program, captures: captures}) do
    Error.unwrap!(NIF.program_new(program, Enum.map(captures, &Backend.ref/1), []))
  end

  @doc """
  The program of a function for arguments of these types, as text: see `ExBurn.explain/2`.
  """
  @spec explain(function(), [Nx.Container.t()]) :: String.t()
  def explain(fun, args) do
    expr = Nx.Defn.debug_expr_apply(fun, args)
    inputs = args |> Composite.flatten_list() |> Enum.map(&Type.of(Nx.devectorize(&1)))
    program = [expr] |> Composite.flatten_list() |> Lowering.lower(inputs) |> native()
    Error.unwrap!(NIF.program_text(program))
  end

  defp cached(key, vars, fun, opts) do
    compile = fn -> compile(vars, fun, opts) end

    if Keyword.get(opts, :cache, true) do
      types = Composite.traverse(List.to_tuple(vars), &Nx.to_template/1)
      Cache.fetch({key, types, opts[:hooks] |> Kernel.||(%{}) |> Map.keys()}, compile)
    else
      compile.()
    end
  end

  # Functions of unused arguments are never called.
  defp arguments(args, used), do: pick(args, used, 0)

  defp pick(_args, [], _position), do: []
  defp pick([arg | args], [p | used], p), do: [Backend.ref(arg.()) | pick(args, used, p + 1)]
  defp pick([_ | args], used, position), do: pick(args, used, position + 1)

  defp run(%__MODULE__{ref: ref, brief?: true}, inputs),
    do: Error.unwrap!(NIF.program_run(ref, inputs))

  defp run(%__MODULE__{ref: ref}, inputs), do: Error.unwrap!(NIF.program_run_dirty(ref, inputs))

  defp fill(refs, output) do
    {result, []} =
      Composite.traverse(output, refs, fn %T{} = template, [ref | refs] ->
        {Backend.put(template, ref), refs}
      end)

    result
  end
end
