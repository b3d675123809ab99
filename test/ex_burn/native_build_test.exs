defmodule ExBurn.NativeBuildTest do
  use ExUnit.Case, async: false

  alias ExBurn.NativeBuild

  doctest NativeBuild

  setup do
    kept = System.get_env("CARGO_TARGET_DIR")
    on_exit(fn -> System.put_env(%{"CARGO_TARGET_DIR" => kept}) end)
  end

  test "keeps the target folder that is set" do
    System.put_env("CARGO_TARGET_DIR", "/some/target")
    assert NativeBuild.env() == [{"CARGO_TARGET_DIR", "/some/target"}]
  end

  test "puts the target folder outside of the checkout by default" do
    System.delete_env("CARGO_TARGET_DIR")
    [{"CARGO_TARGET_DIR", folder}] = NativeBuild.env()
    assert String.ends_with?(folder, "/ex_burn/target")
    refute String.starts_with?(folder, File.cwd!())
  end
end
