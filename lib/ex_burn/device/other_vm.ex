defmodule ExBurn.Device.OtherVM do
  @moduledoc false

  # How another VM is started that finds the code of this one and runs nothing of it by itself, from an installation of Erlang and
  # from a release.

  @doc """
  The program and its arguments, to which `-eval` and an expression can be added; `nil` where there is none to start.
  """
  @spec command() :: {Path.t(), [String.t()]} | nil
  def command do
    root = List.to_string(:code.root_dir())

    with erl when is_binary(erl) <- executable(root),
         boot when is_list(boot) <- boot(root) do
      paths = for path <- :code.get_path(), do: ["-pa", List.to_string(path)]
      {erl, ["-noshell", "-noinput"] ++ boot ++ List.flatten(paths)}
    end
  end

  @doc """
  Its environment: what differs from that of this VM. Flags of Erlang are meant for this VM, and with its name another one could
  not start; nobody reads its crash dump.
  """
  @spec environment() :: [{String.t(), String.t() | nil}]
  def environment do
    flags = ["ERL_FLAGS", "ERL_AFLAGS", "ERL_ZFLAGS", "ERL_OTP#{System.otp_release()}_FLAGS"]

    # Mesa's layer that chooses among its devices looks for a display, and complains where there is none.
    [{"ERL_CRASH_DUMP_SECONDS", "0"}, {"NODEVICE_SELECT", "1"} | Enum.map(flags, &{&1, nil})]
  end

  @doc """
  Runs the program with the arguments, and what it writes; kills it when it takes longer than `timeout` milliseconds.
  """
  @spec run(Path.t(), [String.t()], timeout :: non_neg_integer()) ::
          {:ended, status :: non_neg_integer(), output :: binary()} | :timeout
  def run(program, args, timeout) do
    # What the program writes goes to a mailbox of its own.
    Task.await(Task.async(fn -> watch(program, args, timeout) end), :infinity)
  end

  defp watch(program, args, timeout) do
    env = for {name, value} <- environment(), do: {to_charlist(name), value && to_charlist(value)}
    env = for {name, value} <- env, do: {name, value || false}
    options = [:binary, :exit_status, :stderr_to_stdout, args: args, env: env]
    port = Port.open({:spawn_executable, program}, options)
    timer = Process.send_after(self(), {port, :timeout}, timeout)
    result = collect(port, [])
    Process.cancel_timer(timer)
    result
  end

  defp collect(port, written) do
    receive do
      {^port, {:data, data}} -> collect(port, [written, data])
      {^port, {:exit_status, status}} -> {:ended, status, IO.iodata_to_binary(written)}
      {^port, :timeout} -> kill(port)
    end
  end

  # A driver that hangs does not hear when its port is closed.
  defp kill(port) do
    with {:os_pid, pid} <- Port.info(port, :os_pid), do: :os.cmd(~c"kill -KILL #{pid}")

    receive do
      {^port, {:exit_status, _status}} -> :timeout
    after
      1000 -> :timeout
    end
  end

  # An installation has it in `bin`, a release beside the emulator only.
  defp executable(root) do
    own = [[root, "bin", "erl"], [root, "erts-#{:erlang.system_info(:version)}", "bin", "erl"]]
    Enum.find(Enum.map(own, &Path.join/1), &File.exists?/1) || System.find_executable("erl")
  end

  # What an installation boots with is found by `erl`; a release starts its applications with that of its own, so the other one
  # that each release has is named.
  defp boot(root) do
    case {File.exists?(Path.join([root, "bin", "start.boot"])), arguments(:boot)} do
      {false, [[file | _] | _]} -> clean(Path.dirname(file))
      _ -> []
    end
  end

  defp clean(folder) do
    file = Path.join(folder, "start_clean")

    if File.exists?(file <> ".boot"),
      do: [
        "-boot",
        file | List.flatten(for words <- arguments(:boot_var), do: ["-boot_var", words])
      ]
  end

  defp arguments(flag) do
    case :init.get_argument(flag) do
      {:ok, given} -> for words <- given, do: Enum.map(words, &List.to_string/1)
      :error -> []
    end
  end
end
