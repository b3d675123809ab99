defmodule ExBurn.NxSuite do
  @moduledoc """
  Nx's own test files, run on our backend and through our compiler.

  The files are read from a checkout of Nx, rewritten in memory and compiled; nothing of them is kept. The rewriting

    * sets the default backend and the compiler of each test, for its process only, and runs it three times: see
      `ExBurn.NxModes`,
    * compares with `==` by value, because a tensor of ours holds a reference: types, shapes, names and integers must be
      equal, floats close,
    * draws the same random numbers in each run,
    * turns a test that cannot pass here around: it must fail, and with the known message,
    * skips the tests that need other nodes.

  Nx 0.13.1 has 33 files with 2,702 tests, of which 1,380 are examples of its documentation. What fails is listed in
  `test/nx/suite_test.exs`. Skipped are 4 tests that need other nodes, in each mode, and 2 examples of a function, one of
  which compares references. `test/nx/doctest_test.exs` runs most of the examples with our compiler.
  """

  import ExUnit.Assertions

  # One test expects 7 digits after the point of f32 matrices with elements of a hundred. Rounding alone exceeds that for
  # one random matrix in a hundred.
  @seed 42

  @doc """
  The folder of Nx with its tests, or `nil` when they are not there: a package from Hex has none.
  """
  def folder do
    folder = System.get_env("EX_BURN_NX") || Mix.Project.deps_paths()[:nx]
    if folder && File.exists?(Path.join(folder, "test/nx_test.exs")), do: folder
  end

  @doc """
  Whether this Nx is newer than 0.13.1, whose definitions of decompositions ours follow digit by digit.
  """
  def newer?, do: Code.ensure_loaded?(Nx) and function_exported?(Nx, :donatable, 1)

  @doc """
  Why tests of several nodes are skipped.
  """
  def distributed, do: "they need two more nodes, which Nx starts before its tests"

  @doc """
  Compiles what the tests of Nx share, but for its comparisons of floats, which ours replace.
  """
  def load_support(folder) do
    for file <- Path.wildcard(Path.join(folder, "test/support/*.ex")),
        Path.basename(file) != "helpers.ex",
        do: Code.compile_file(file)
  end

  @doc """
  Compiles the test file `name`. `known` maps the names of tests that cannot pass to the modes, the reason and the message
  with which they fail, `examples` the modules with examples that cannot pass to the reason and their functions. `rewrite` is
  given each node first.
  """
  def load(folder, name, known, examples \\ %{}, rewrite \\ & &1) do
    # Some tests expect messages with this path.
    path = Path.join("test", name)

    ast =
      folder
      |> Path.join(path)
      |> File.read!()
      |> Code.string_to_quoted!(file: path)
      |> Macro.prewalk(&name_groups/1)

    tests = for {:test, meta, [name | _]} <- Macro.prewalker(ast), do: full_name(meta, name)
    missing = Map.keys(known) -- tests
    if missing != [], do: raise("#{path} holds no tests #{inspect(missing)}")

    # After the children of a node, so that what is put in is not visited again.
    ast =
      Macro.postwalk(ast, fn node ->
        node |> rewrite.() |> rewrite_path(folder) |> rewrite_node({known, examples})
      end)

    compile(ast, path)
  end

  # Without warnings: Nx tests deprecated functions too.
  defp compile(ast, path) do
    {failure, diagnostics} =
      Code.with_diagnostics(fn ->
        try do
          Code.compile_quoted(ast, path)
          nil
        rescue
          error -> {error, __STACKTRACE__}
        end
      end)

    with {error, stacktrace} <- failure do
      for %{severity: :error} = found <- diagnostics, do: Code.print_diagnostic(found)
      reraise error, stacktrace
    end
  end

  # So that each test knows its group.
  defp name_groups({:describe, meta, [group, body]}) do
    {:describe, meta,
     [
       group,
       Macro.prewalk(body, fn
         {:test, meta, args} -> {:test, [group: group] ++ meta, args}
         node -> node
       end)
     ]}
  end

  defp name_groups(node), do: node

  # Names made in a loop are code still.
  defp full_name(meta, name),
    do: [meta[:group], name] |> Enum.reject(&is_nil/1) |> Enum.map_join(" ", &text/1)

  defp text(name) when is_binary(name), do: name
  defp text(code), do: code |> Macro.to_string() |> String.trim(~s("))

  defp rewrite_path({:doctest_file, meta, [path | opts]}, folder),
    do: {:doctest_file, meta, [Path.join(folder, path) | opts]}

  defp rewrite_path("test/fixtures/" <> _ = path, folder), do: Path.join(folder, path)
  defp rewrite_path(node, _folder), do: node

  defp rewrite_node({:use, _, [{:__aliases__, _, [:ExUnit, :Case]} | _]} = use, _known) do
    quote do
      @before_compile {ExBurn.NxModes, :add_tests}
      unquote(use)
      @moduletag :capture_log
      require ExBurn.NxModes
      setup context, do: ExBurn.NxSuite.use_ours(context)
    end
  end

  # An example of Nx.Defn.Graph numbers parameters by the order of references, which is the order they were made in on one
  # scheduler only: beside other tests a process moves from one to another.
  defp rewrite_node({:doctest, _, [{:__aliases__, _, [:Nx, :Defn, :Graph]}]}, _known), do: nil

  # The seed of some random keys.
  defp rewrite_node({{:., _, [{:__aliases__, _, [:System]}, :unique_integer]}, _, []}, _known),
    do: @seed

  defp rewrite_node({:assert, meta, [{:==, _, sides}]}, _known),
    do: call(:assert_same, meta, sides)

  defp rewrite_node({:assert, meta, [{:!=, _, sides}]}, _known),
    do: call(:assert_other, meta, sides)

  defp rewrite_node({:refute, meta, [{:==, _, sides}]}, _known),
    do: call(:assert_other, meta, sides)

  # Where a file sets a compiler for its tests.
  defp rewrite_node(
         {{:., _, [{_, _, [:Nx, :Defn]}, :default_options]} = call, meta, [[compiler: module]]},
         _known
       ) do
    {call, meta, [[compiler: quote(do: ExBurn.NxModes.compiler(unquote(module)))]]}
  end

  defp rewrite_node({:@, _, [{:tag, _, [:distributed]}]}, _known),
    do: quote(do: @tag(skip: unquote(distributed())))

  defp rewrite_node(
         {:doctest, meta, [{:__aliases__, _, names} = module]} = doctest,
         {_, examples}
       ) do
    case examples[Module.concat(names)] do
      nil ->
        doctest

      {reason, functions} ->
        quote do
          unquote({:doctest, meta, [module, [except: functions]]})
          unquote({:doctest, meta, [module, [only: functions, tags: [skip: reason]]]})
        end
    end
  end

  defp rewrite_node({:test, meta, [_ | _] = args} = test, {known, _}) do
    case known[full_name(meta, hd(args))] do
      nil ->
        test

      reasons ->
        {args, [[do: body]]} = Enum.split(args, -1)
        check = call(:assert_expected, meta, [Macro.escape(reasons), fun(body)])
        {:test, meta, args ++ [[do: check]]}
    end
  end

  defp rewrite_node(node, _known), do: node

  defp fun(body), do: quote(do: fn -> unquote(body) end)

  defp call(name, meta, args),
    do: {{:., meta, [{:__aliases__, [alias: false], [:ExBurn, :NxSuite]}, name]}, meta, args}

  @doc false
  def use_ours(context) do
    :rand.seed(:exsss, @seed)
    ExBurn.NxModes.start(context)
  end

  @doc false
  def assert_expected(reasons, test) do
    case for {modes, reason, message} <- reasons,
             ExBurn.NxModes.current() in modes,
             do: {reason, message} do
      [] -> test.()
      [{reason, message} | _] -> assert_fails(reason, message, test)
    end
  end

  # A test that fails for another reason than the known one, or no longer, must be looked at.
  defp assert_fails(reason, message, test) do
    # A serving that fails takes the test with it.
    Process.flag(:trap_exit, true)

    failure =
      try do
        test.()
        nil
      catch
        kind, error -> Exception.format_banner(kind, error, __STACKTRACE__)
      end

    assert failure, "this test was expected to fail (#{reason}) and passes: take it off the list"
    assert failure =~ message, "this test fails, but not as expected (#{reason}):\n#{failure}"
  end

  @doc false
  def assert_same(left, right) do
    {left, right} = {on_binary(left), on_binary(right)}
    assert same?(left, right), "left:  #{inspect(left)}\nright: #{inspect(right)}"
  end

  @doc false
  def assert_other(left, right), do: refute(same?(on_binary(left), on_binary(right)))

  # Every tensor with values, however deep, on one backend.
  defp on_binary(%Nx.Tensor{data: %backend{}} = t)
       when backend not in [Nx.Defn.Expr, Nx.TemplateBackend],
       do: Nx.backend_copy(t, Nx.BinaryBackend)

  defp on_binary(%Nx.Tensor{} = t), do: t

  defp on_binary(%module{} = struct),
    do: struct(module, struct |> Map.from_struct() |> on_binary())

  defp on_binary(%{} = map), do: Map.new(map, fn {key, value} -> {key, on_binary(value)} end)
  defp on_binary([head | tail]), do: [on_binary(head) | on_binary(tail)]

  defp on_binary(tuple) when is_tuple(tuple),
    do: tuple |> Tuple.to_list() |> on_binary() |> List.to_tuple()

  defp on_binary(other), do: other

  defp same?(same, same), do: true

  defp same?(%Nx.Tensor{data: %Nx.BinaryBackend{}} = l, %Nx.Tensor{data: %Nx.BinaryBackend{}} = r) do
    Map.delete(l, :data) == Map.delete(r, :data) and Nx.Type.float?(l.type) and close?(l, r)
  end

  defp same?(%module{} = l, %module{} = r) when module != Nx.Tensor,
    do: same?(Map.from_struct(l), Map.from_struct(r))

  defp same?(%{} = l, %{} = r) when not is_struct(l) and not is_struct(r),
    do: Map.keys(l) == Map.keys(r) and same?(Map.values(l), Map.values(r))

  defp same?([l | ls], [r | rs]), do: same?(l, r) and same?(ls, rs)

  defp same?(l, r) when is_tuple(l) and is_tuple(r),
    do: same?(Tuple.to_list(l), Tuple.to_list(r))

  defp same?(l, r), do: l == r

  defp close?(l, r) do
    Nx.with_default_backend(Nx.BinaryBackend, fn ->
      [l, r] = Enum.map([l, r], &Nx.devectorize/1)
      Nx.to_number(Nx.all_close(l, r, rtol: 1.0e-5, atol: 1.0e-6, equal_nan: true)) == 1
    end)
  end
end
