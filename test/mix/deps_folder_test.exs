defmodule ExBurn.DepsFolderTest do
  use ExUnit.Case, async: false

  import ExUnit.CaptureIO

  alias ExBurn.DepsFolder

  @moduletag :tmp_dir

  setup %{tmp_dir: folder} do
    kept = System.get_env("EX_BURN_DEPS")
    on_exit(fn -> System.put_env(%{"EX_BURN_DEPS" => kept}) end)
    System.put_env("EX_BURN_DEPS", folder)
    File.mkdir!(Path.join(folder, "nx"))
  end

  test "uses the folder that EX_BURN_DEPS names", %{tmp_dir: folder} do
    assert DepsFolder.folder() == folder
  end

  test "leaves everything to Hex where EX_BURN_DEPS is empty" do
    System.put_env("EX_BURN_DEPS", "")
    assert DepsFolder.folder() == nil

    deps = [{:nx, "~> 0.13"}, {:ex_doc, "~> 0.34", only: :dev}]
    assert DepsFolder.deps(deps) == deps
  end

  test "says so when EX_BURN_DEPS names no folder", %{tmp_dir: folder} do
    System.put_env("EX_BURN_DEPS", Path.join(folder, "none"))

    assert_raise Mix.Error,
                 ~r/EX_BURN_DEPS names .*none, which isn't a folder/,
                 &DepsFolder.folder/0
  end

  test "keeps required dependencies, and says which optional ones it leaves out" do
    deps = [
      {:nx, "~> 0.13"},
      {:telemetry, "~> 1.0"},
      {:axon, "~> 0.8", optional: true},
      {:ex_doc, "~> 0.34", only: :dev}
    ]

    said =
      capture_io(:stderr, fn ->
        assert [{:nx, _}, {:telemetry, _}, {:complex, _, override: true}] = DepsFolder.deps(deps)
      end)

    assert said =~ "left out axon"
    # It is only for :dev, so nobody misses it here.
    refute said =~ "ex_doc"
  end

  test "takes a dependency from the folder, unless that names its own source", %{tmp_dir: folder} do
    assert DepsFolder.accepts_options(:nx, only: :test)[:dest] == Path.join(folder, "nx")
    assert DepsFolder.accepts_options(:nx, path: "../nx") == nil
    assert DepsFolder.accepts_options(:nx, git: "https://example.com/nx.git") == nil
  end

  test "knows which checkouts are there" do
    assert DepsFolder.checked_out?(DepsFolder.accepts_options(:nx, []))
    refute DepsFolder.checked_out?(DepsFolder.accepts_options(:telemetry, []))
  end
end
