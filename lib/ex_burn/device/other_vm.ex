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
  Its environment. Flags of Erlang are meant for this VM, and with its name another one could not start; nobody reads its crash
  dump.
  """
  @spec environment() :: [{String.t(), String.t() | nil}]
  def environment do
    flags = ["ERL_FLAGS", "ERL_AFLAGS", "ERL_ZFLAGS", "ERL_OTP#{System.otp_release()}_FLAGS"]
    [{"ERL_CRASH_DUMP_SECONDS", "0"} | Enum.map(flags, &{&1, nil})]
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
