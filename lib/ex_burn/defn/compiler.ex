defmodule ExBurn.Defn.Compiler do
  @moduledoc """
  A `Nx.Defn.Compiler`: a `defn` becomes one program and each run of it one native call.

      Nx.Defn.default_options(compiler: ExBurn.Defn.Compiler)
      Nx.Defn.jit(&Nx.exp/1, compiler: ExBurn.Defn.Compiler).(Nx.tensor([1.0, 2.0]))

  ## Options

    * `:device` - where the program runs, as in `ExBurn.Backend`. Defaults to the default device
    * `:cache` - `false` compiles anew on every call. Defaults to `true`: programs are kept by function, argument types
      and the values that the function captured

    * `:hooks` - a map of functions by the names of the hooks that call them, see `Nx.Defn.Kernel.hook/3`

  Options of other compilers are ignored, since libraries forward their own.

  Hooks and the functions of `Nx.runtime_call/4` run in the process that calls the compiled function, with tensors of
  `ExBurn.Backend`. Their exceptions are those of the call.
  """

  alias ExBurn.Backend
  alias ExBurn.Defn.{Cache, Lowering, Run}
  alias ExBurn.Defn.Lowering.HostCall
  alias ExBurn.{Cost, Error, NIF, Type}
  alias Nx.Defn.Composite

  @behaviour Nx.Defn.Compiler

  @enforce_keys [:ref, :output, :used, :calls, :brief?]
  defstruct [:ref, :output, :used, :calls, :brief?]

  @typedoc """
  A compiled function: its native program, the container it answers, the parameters it reads and the functions it calls
  by their numbers.
  """
  @type t :: %__MODULE__{
          ref: reference(),
          output: Nx.Container.t(),
          used: [non_neg_integer()],
          calls: tuple(),
          brief?: boolean()
        }

  @impl true
  def __jit__(key, vars, fun, args_list, opts), do: __compile__(key, vars, fun, opts).(args_list)

  @impl true
  def __compile__(key, vars, fun, opts) do
    Backend.init(Keyword.take(opts, [:device]))
    compiled = cached(key, vars, fun, opts)
    hooks = opts[:hooks] || %{}

    fn [args] ->
      refs = arguments(args, compiled.used)
      results = Run.run(compiled.ref, refs, compiled.brief?, compiled.calls, hooks)
      [HostCall.fill(compiled.output, results)]
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
    opts = [calls: true, hooks: opts[:hooks] || %{}]
    lowered = Lowering.lower(Composite.flatten_list([expr]), inputs, opts)

    %__MODULE__{
      ref: native(lowered),
      output: Composite.traverse(expr, &Nx.to_template/1),
      used: lowered.used,
      calls: List.to_tuple(lowered.calls),
      brief?: Cost.brief?(lowered.cost)
    }
  end

  @doc """
  The native program of what `ExBurn.Defn.Lowering` answered.
  """
  @spec native(Lowering.lowered()) :: reference()
  def native(%{program: program, captures: captures}) do
    Error.unwrap!(NIF.program_new(program, Enum.map(captures, &Backend.ref/1)))
  end

  @doc """
  The program of a function for arguments of these types, as text: see `ExBurn.explain/2`.
  """
  @spec explain(function(), [Nx.Container.t()]) :: String.t()
  def explain(fun, args) do
    expr = Nx.Defn.debug_expr_apply(fun, args)
    inputs = args |> Composite.flatten_list() |> Enum.map(&Type.of(Nx.devectorize(&1)))
    lowered = [expr] |> Composite.flatten_list() |> Lowering.lower(inputs, calls: true)
    Error.unwrap!(NIF.program_text(native(lowered)))
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
end
