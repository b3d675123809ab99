defmodule ExBurn.Device.OtherVMTest do
  use ExUnit.Case, async: true

  alias ExBurn.Device.OtherVM

  defp run({erl, args}, code, env),
    do: System.cmd(erl, args ++ ["-eval", code], env: env, stderr_to_stdout: true)

  test "from an installation one starts and finds the code" do
    code = ~S|io:format("~w", ['Elixir.ExBurn.Type':all() =/= []]), halt().|
    assert {"true", 0} = run(OtherVM.command(), code, OtherVM.environment())
  end

  test "answers what it wrote and how it ended" do
    {erl, args} = OtherVM.command()
    code = ~S|io:format("~p", [os:getenv("NODEVICE_SELECT")]), halt(3).|
    assert OtherVM.run(erl, args ++ ["-eval", code], 60_000) == {:ended, 3, ~S("1")}
  end

  @tag :tmp_dir
  test "is killed where it hangs", %{tmp_dir: folder} do
    {erl, args} = OtherVM.command()
    file = Path.join(Path.expand(folder), "pid")
    code = ~s|ok = file:write_file("#{file}", os:getpid()), timer:sleep(infinity).|
    assert OtherVM.run(erl, args ++ ["-eval", code], 5000) == :timeout

    # Signal 0 asks whether there is a process of that number.
    pid = File.read!(file)
    assert String.to_integer(pid) > 1
    assert {_, status} = System.cmd("sh", ["-c", "kill -0 #{pid}"], stderr_to_stdout: true)
    assert status != 0
  end

  # What differs in a release: `erl` lies beside the emulator, and the files to boot with in a folder of the version.
  @tag :tmp_dir
  test "from a release too, without its applications", %{tmp_dir: folder} do
    root = List.to_string(:code.root_dir())
    bin = Path.join(root, "erts-#{:erlang.system_info(:version)}/bin")
    release = Path.expand(folder)
    version = Path.join(release, "releases/1")
    erl = Path.join([release, Path.relative_to(bin, root), "erl"])

    File.mkdir_p!(Path.dirname(erl))
    File.mkdir_p!(version)
    File.ln_s!(Path.join(root, "lib"), Path.join(release, "lib"))
    clean = Path.join(version, "start_clean")
    File.cp!(Path.join(root, "bin/start_clean.boot"), clean <> ".boot")
    names = "ROOTDIR='#{release}' BINDIR='#{bin}' EMU=beam PROGNAME=erl"
    File.write!(erl, "#!/bin/sh\nexec env #{names} '#{bin}/erlexec' \"$@\"\n")
    File.chmod!(erl, 0o755)

    # Started as a release is, a VM asks how to start another one, and starts it.
    code = ~S"""
    {Erl, Args} = 'Elixir.ExBurn.Device.OtherVM':command(),
    Code = "io:format('~s ~w', [code:root_dir(), 'Elixir.ExBurn.Type':all() =/= []]), halt().",
    {Output, 0} = 'Elixir.System':cmd(Erl, Args ++ [<<"-eval">>, list_to_binary(Code)]),
    io:format("~s", [Output]), halt().
    """

    paths = for path <- :code.get_path(), word <- ["-pa", List.to_string(path)], do: word
    variable = ["-boot_var", "RELEASE_LIB", Path.join(release, "lib")]
    args = ["-noshell", "-noinput", "-boot", Path.join(version, "start")] ++ variable ++ paths
    File.cp!(Path.join(root, "bin/start.boot"), Path.join(version, "start.boot"))
    assert run({erl, args}, code, OtherVM.environment()) == {"#{release} true", 0}
  end
end
