defmodule ExBurn.AxonSuite do
  @moduledoc """
  Axon's own test files, with our backend and through our compiler.

  They are read from a checkout of Axon and rewritten in memory, as `ExBurn.NxSuite` does. Axon's tests choose backend and
  compiler in one place, where ours are put in. Examples of the documentation are left out: of 194, 78 print digits of an
  older Nx, with its own backend too.
  """

  @doc """
  The folder of Axon with its tests, or `nil` when they are not there: a package from Hex has none.
  """
  def folder do
    folder = System.get_env("EX_BURN_AXON") || Mix.Project.deps_paths()[:axon]
    if folder && File.exists?(Path.join(folder, "test/axon_test.exs")), do: folder
  end

  @doc """
  Compiles what the tests share.
  """
  def load_support(folder) do
    ExUnit.after_suite(fn _ -> File.rm_rf!(temporary("")) end)

    for file <- Path.wildcard(Path.join(folder, "test/support/**/*.ex")) do
      file
      |> File.read!()
      |> Code.string_to_quoted!(file: file)
      |> Macro.prewalk(&(&1 |> ours() |> renamed()))
      |> Code.compile_quoted(file)
    end
  end

  @doc """
  The test files, without the one of `learning/0`.
  """
  def files(folder) do
    tests = Path.join(folder, "test")
    paths = tests |> Path.join("**/*_test.exs") |> Path.wildcard() |> Enum.sort()
    Enum.map(paths, &Path.relative_to(&1, tests)) -- [learning()]
  end

  @doc """
  The file with tests that learn from random parameters and do not always succeed, on any backend.
  """
  def learning, do: "axon/integration_test.exs"

  @doc """
  Compiles the test file `name`. `known` is a list of what fails: modes, reason, message, and names of tests by file.
  """
  def load(folder, name, known) do
    fails =
      for {modes, reason, message, files} <- known,
          test <- Map.get(files, name, []),
          do: {test, {modes, reason, message}}

    known = Enum.group_by(fails, &elem(&1, 0), &elem(&1, 1))
    ExBurn.NxSuite.load(folder, name, known, %{}, &rewrite/1)
  end

  defp rewrite({:doctest, _, _}), do: nil

  # So that what is known to fail is looked up in the right mode.
  defp rewrite({:use, _, [{:__aliases__, _, [:Axon, :Case]} | _]} = use) do
    quote do
      unquote(use)
      setup do: ExBurn.NxModes.start(%{mode: :both})
    end
  end

  # What the tests write into the working directory.
  defp rewrite({{:., _, [{:__aliases__, _, [:File]}, name]} = call, meta, [path]})
       when name in [:ls!, :rm_rf!] and is_binary(path),
       do: {call, meta, [temporary(path)]}

  defp rewrite({{:., _, [{:__aliases__, _, [:Loop]}, :checkpoint]} = call, meta, opts}),
    do: {call, meta, [quote(do: ExBurn.AxonSuite.in_temporary(unquote(List.first(opts, []))))]}

  defp rewrite(node), do: renamed(node)

  @doc false
  def in_temporary(opts),
    do: opts |> Keyword.put_new(:path, "checkpoint") |> Keyword.update!(:path, &temporary/1)

  defp temporary(path), do: Path.join([System.tmp_dir!(), "ex_burn_axon_#{System.pid()}", path])

  defp ours({:__aliases__, meta, [:Nx, :Defn, :Evaluator]}),
    do: {:__aliases__, meta, [:ExBurn, :Defn, :Compiler]}

  defp ours({:__aliases__, meta, [:Nx, :BinaryBackend]}),
    do: {:__aliases__, meta, [:ExBurn, :Backend]}

  defp ours(node), do: node

  # Nx's tests have modules of these names.
  defp renamed({:__aliases__, meta, [name]}) when name in [:LazyOnly, :LazyWrapped],
    do: {:__aliases__, meta, [:AxonTestUtil, name]}

  defp renamed({:%, meta, [{:__aliases__, _, [name]} = alias | rest]})
       when name in [:LazyOnly, :LazyWrapped],
       do: {:%, meta, [renamed(alias) | rest]}

  defp renamed(node), do: node
end
