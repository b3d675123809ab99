defmodule ExBurn.Defn.Compiler do
  @moduledoc """
  A `Nx.Defn.Compiler`: a `defn` becomes one program and each run of it one native call.

      Nx.Defn.default_options(compiler: ExBurn.Defn.Compiler)
      Nx.Defn.jit(&Nx.exp/1, compiler: ExBurn.Defn.Compiler).(Nx.tensor([1.0, 2.0]))

  ## Options

    * `:device` - where the program runs, as in `ExBurn.Backend`. Defaults to the default device
    * `:cache` - `true`, the default, keeps the program, by function with the values around it, argument types and options:
      see `ExBurn.Defn.Cache`. `ExBurn.Defn.Cache.clear/0` forgets all programs, as is needed when other modules that a
      function calls are compiled again while the VM runs. `false` compiles anew on every call. A path keeps it in a file
      too, from which another VM takes it without tracing the function: see `ExBurn.Defn.Artifact`. The file is for one
      function with one set of argument types, and has to be deleted when other modules that the function calls change
    * `:passes` - which passes over the program to leave out, such as `[cse: false]`: see `ExBurn.Defn.Passes`
    * `:fusion` - `false` is short for `passes: [fusion: false]`; a list such as `[softmax: false]` leaves patterns out: see
      `ExBurn.Fusion`
    * `:debug` - `true` prints the program
    * `:hooks` - a map of functions by the names of the hooks that call them, see `Nx.Defn.Kernel.hook/3`

  Options of other compilers are ignored, since libraries forward their own. `ExBurn.Telemetry` tells of compilations, and
  `ExBurn.Defn.Recompilation` warns of too many.

  Arguments of `ExBurn.donate/1` lend their memory to the results.

  Hooks and the functions of `Nx.runtime_call/4` run in the process that calls the compiled function, with tensors of
  `ExBurn.Backend`. Their exceptions are those of the call.
  """

  alias ExBurn.Backend
  alias ExBurn.Defn.{Artifact, Cache, Key, Lowering, Passes, Recompilation, Recording, Run}
  alias ExBurn.Defn.Lowering.HostCall
  alias ExBurn.{Cost, Donation, Error, NIF, Telemetry, Type}
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
    [device: device] = Backend.init(Keyword.take(opts, [:device]))
    check_cache!(opts[:cache])
    compiled = cached(key, vars, fun, opts)
    if opts[:debug], do: compiled.ref |> text() |> IO.puts()
    hooks = opts[:hooks] || %{}

    fn [args] ->
      if Recording.any?(args) do
        # One operation after the other, each of which is recorded.
        Nx.Defn.Evaluator.__jit__(key, vars, fun, [args], hooks: hooks)
      else
        {inputs, donated, device} = arguments(args, compiled.used, device)
        inputs = {inputs, donated}
        results = Run.run(compiled.ref, inputs, device, compiled.brief?, compiled.calls, hooks)
        [HostCall.fill(compiled.output, results, device)]
      end
    end
  end

  @impl true
  def __partitions_options__(opts),
    do: List.duplicate(opts, Keyword.get(opts, :max_concurrency, 1))

  @impl true
  def __to_backend__(opts), do: {Backend, Backend.init(Keyword.take(opts, [:device]))}

  defp check_cache!(cache) do
    valid? = cache in [nil, true, false] or (is_binary(cache) and cache != "")
    ExBurn.Options.check!(valid?, :compile, :cache, cache, "true, false or the path of a file")
  end

  defp cached(key, vars, fun, opts) do
    cond do
      Keyword.get(opts, :cache, true) == false -> compile(key, vars, fun, opts)
      # Only its native program can be kept.
      Key.expression?(key) -> compile(nil, vars, fun, Keyword.delete(opts, :cache))
      true -> Cache.fetch(Key.function(key, vars, opts), fn -> compile(key, vars, fun, opts) end)
    end
  end

  defp compile(key, vars, fun, opts) do
    disabled = Passes.disabled(opts)
    prepare = &timed(fn -> shared(&1, disabled, opts) end)

    {eval_time, {source, lowered, {compile_time, ref}}} =
      timed(fn -> prepared(key, vars, fun, opts, disabled, prepare) end)

    Recompilation.count(key, vars, opts)
    times = {eval_time - compile_time, compile_time}
    Telemetry.compiled(times, %{key: key, source: source, options: opts})

    %__MODULE__{
      ref: ref,
      output: lowered.output,
      used: lowered.used,
      calls: List.to_tuple(lowered.calls),
      brief?: Cost.brief?(cost(lowered, disabled))
    }
  end

  defp cost(lowered, disabled),
    do: if("fusion" in disabled, do: lowered.cost, else: lowered.fused_cost)

  defp timed(fun) do
    start = System.monotonic_time()
    result = fun.()
    {System.monotonic_time() - start, result}
  end

  # What is translated, from the file that the options name or anew, and what `prepare` makes of it.
  defp prepared(key, vars, fun, opts, disabled, prepare) do
    case Keyword.get(opts, :cache, true) do
      path when is_binary(path) ->
        facts = Artifact.facts(key, vars, opts, disabled)

        with :error <- Artifact.read(path, facts, &fitting(&1, vars, prepare)) do
          {:traced, lowered, _native} = traced = traced(vars, fun, opts, prepare)
          Artifact.write(path, facts, lowered)
          traced
        end

      _ ->
        traced(vars, fun, opts, prepare)
    end
  end

  defp traced(vars, fun, opts, prepare) do
    lowered = trace(vars, fun, opts)
    {:traced, lowered, prepare.(lowered)}
  end

  defp fitting(lowered, vars, prepare) do
    {_time, ref} = native = prepare.(lowered)
    inputs = types(vars)
    types = {Enum.map(lowered.used, &Enum.fetch!(inputs, &1)), types([lowered.output])}

    if Error.unwrap!(NIF.program_types(ref)) == types,
      do: {:ok, {:file, lowered, native}},
      else: :error
  end

  defp types(containers),
    do: containers |> Composite.flatten_list() |> Enum.map(&Type.of(Nx.devectorize(&1)))

  defp trace(vars, fun, opts) do
    expr = fun.(vars)

    [expr]
    |> Composite.flatten_list()
    |> Lowering.lower(types(vars), calls: true, hooks: opts[:hooks] || %{})
    |> Map.put(:output, Composite.traverse(expr, &Nx.to_template/1))
  end

  # One native program for all functions that come to it.
  defp shared(lowered, disabled, opts) do
    make = fn -> native(lowered, disabled) end

    if Keyword.get(opts, :cache, true) == false,
      do: make.(),
      else: Cache.fetch(Cache.programs(), Key.program(lowered, disabled), make)
  end

  @doc """
  The native program of what `ExBurn.Defn.Lowering` answered, without the passes named in `disabled`.
  """
  @spec native(Lowering.lowered(), [String.t()]) :: reference()
  def native(%{program: program, captures: captures}, disabled \\ Passes.disabled([])) do
    Error.unwrap!(NIF.program_new(program, Enum.map(captures, &Backend.ref/1), disabled))
  end

  @doc """
  The program of a function for arguments of these types, as text: what runs, after all passes.

  The options are those of `ExBurn.Defn.Compiler`, so `passes: [fusion: false]` shows the program without that pass.
  Fused operations carry the names of the patterns that were found, which `ExBurn.Fusion.found/3` lists.

  `fused` is one operation made of those in the program below it. They run together, block by block, so what lies between
  them never becomes a tensor. `shape` is that of the elements they run over, of which the last `row_axes` axes are a row
  that a fold such as `sum` makes one element of. `extents` say how much each operand holds: the `whole` shape, one element
  for each `row`, or `one` in all. `patterns` name what the operations compute: see `ExBurn.Fusion`.

  ## Examples

      iex> fun = fn x -> Nx.sum(Nx.exp(Nx.add(x, 1)), axes: [1]) end
      iex> text = ExBurn.explain(fun, [Nx.template({2, 3}, :f32)])
      iex> String.split(text, "\\n", trim: true)
      [
        "program(%0: f32[2,3])",
        "  %1: f32[2] = fused(%0) {extents: [whole], patterns: [elementwise], row_axes: 1, shape: [2,3]}",
        "    program(%0: f32[2,3])",
        "      %1: s32[] = constant() {1}",
        "      %2: f32[2,3] = add(%1, %0)",
        "      %3: f32[2,3] = exp(%2)",
        "      %4: f32[2] = sum(%3) {axes: [1], keep_axes: false}",
        "      return %4",
        "  return %1"
      ]
      iex> text = ExBurn.explain(fun, [Nx.template({2, 3}, :f32)], fusion: false)
      iex> String.split(text, "\\n", trim: true)
      [
        "program(%0: f32[2,3])",
        "  %1: s32[] = constant() {1}",
        "  %2: f32[2,3] = add(%1, %0)",
        "  %3: f32[2,3] = exp(%2)",
        "  %4: f32[2] = sum(%3) {axes: [1], keep_axes: false}",
        "  return %4"
      ]

  """
  @spec explain(function(), [Nx.Container.t()], keyword()) :: String.t()
  def explain(fun, args, opts \\ []), do: fun |> program(args, opts) |> text()

  @doc """
  The patterns in the program of a function, by name, each with the type of its result: see `ExBurn.Fusion.found/3`.
  """
  @spec found(function(), [Nx.Container.t()], keyword()) :: [{String.t(), {atom(), [integer()]}}]
  def found(fun, args, opts),
    do: fun |> program(args, opts) |> NIF.program_patterns() |> Error.unwrap!()

  defp program(fun, args, opts) do
    Backend.init(Keyword.take(opts, [:device]))
    expr = Nx.Defn.debug_expr_apply(fun, args)
    lowered = [expr] |> Composite.flatten_list() |> Lowering.lower(types(args), calls: true)
    native(lowered, Passes.disabled(opts))
  end

  defp text(program), do: Error.unwrap!(NIF.program_text(program))

  # The references of the arguments that are used, and of those among them that are donated, and the device. Functions of
  # unused arguments are never called.
  defp arguments(args, used, device), do: pick(args, used, 0, device, [], [])

  defp pick(_args, [], _position, device, refs, donated),
    do: {Enum.reverse(refs), donated, device}

  defp pick([arg | args], [p | used], p, device, refs, donated) do
    tensor = arg.()
    ref = Backend.ref(tensor)
    donated = if Donation.donated?(tensor), do: [ref | donated], else: donated
    pick(args, used, p + 1, where(tensor, device), [ref | refs], donated)
  end

  defp pick([_ | args], used, position, device, refs, donated),
    do: pick(args, used, position + 1, device, refs, donated)

  # A program runs on the GPU that was asked for, else on the first that an argument is on.
  defp where(%{data: %Backend{device: found}}, :cpu), do: found
  defp where(_tensor, device), do: device
end
