defmodule ExBurn.Device.Probe do
  @moduledoc """
  Tries the GPUs of this machine in an operating system process of its own.

  A graphics driver is loaded into the process that uses it, and a broken one ends that process: no native code can catch it. So
  before this VM loads any driver, another one does, computes something small on each GPU and compares it with the known answer.
  Only if it ends well are the drivers loaded here.

  The answer is kept in a file of the user's cache folder, until ExBurn, the drivers or the variables that choose among them
  change. Where the system has no `erl` to start, as on a phone, GPUs are taken as they are.
  """

  require Logger

  alias ExBurn.{Device, Error, NIF}

  # Long enough for a driver that compiles its first shader on a slow machine.
  @timeout :timer.seconds(60)

  @drivers [
    "/etc/vulkan/icd.d/*.json",
    "/usr/share/vulkan/icd.d/*.json",
    "/usr/local/share/vulkan/icd.d/*.json",
    "/usr/lib/*/libcuda.so.1",
    "/usr/lib64/libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1"
  ]

  @variables [
    "VK_DRIVER_FILES",
    "VK_ICD_FILENAMES",
    "XDG_DATA_DIRS",
    "CUDA_VISIBLE_DEVICES",
    "LD_LIBRARY_PATH"
  ]

  @doc """
  Whether the GPUs of this machine, if there are any, can be used without harm; those that the CPU plays too if `software?`.
  """
  @spec passed?(boolean()) :: boolean()
  def passed?(software?) do
    case executable() do
      nil ->
        true

      erl ->
        key = key(software?)

        case remembered(key) do
          nil -> erl |> try_out(software?) |> remember(key)
          verdict -> verdict
        end
    end
  end

  defp executable do
    own = Path.join([:code.root_dir(), "bin", "erl"])
    if File.exists?(own), do: own, else: System.find_executable("erl")
  end

  # What the answer depends on.
  defp key(software?) do
    drivers = for path <- Enum.flat_map(@drivers, &Path.wildcard/1), do: {path, mtime(path)}
    library = :code.which(NIF)

    {Application.spec(:ex_burn, :vsn), mtime(library), software?, drivers,
     Enum.map(@variables, &System.get_env/1)}
  end

  defp mtime(path) do
    case File.stat(path) do
      {:ok, stat} -> stat.mtime
      {:error, _} -> nil
    end
  end

  defp file, do: Path.join(:filename.basedir(:user_cache, "ex_burn"), "gpus.term")

  defp remembered(key) do
    with {:ok, binary} <- File.read(file()),
         {^key, verdict} when is_boolean(verdict) <- safe_term(binary) do
      verdict
    else
      _ -> nil
    end
  end

  defp safe_term(binary) do
    :erlang.binary_to_term(binary, [:safe])
  rescue
    ArgumentError -> nil
  end

  # Without a folder to write to, the next VM asks again.
  defp remember(verdict, key) do
    File.mkdir_p(Path.dirname(file()))
    File.write(file(), :erlang.term_to_binary({key, verdict}))
    verdict
  end

  defp try_out(erl, software?) do
    paths = for path <- :code.get_path(), do: ["-pa", List.to_string(path)]
    code = "'#{__MODULE__}':child(#{software?})."
    args = ["-noshell", "-noinput"] ++ List.flatten(paths) ++ ["-eval", code]
    task = Task.async(fn -> System.cmd(erl, args, stderr_to_stdout: true) end)

    case Task.yield(task, @timeout) || Task.shutdown(task, :brutal_kill) do
      {:ok, {_output, 0}} -> true
      {:ok, {output, status}} -> refused("ended with status #{status}: #{last_line(output)}")
      nil -> refused("did not answer within #{div(@timeout, 1000)} s")
    end
  end

  defp refused(what) do
    Logger.warning("GPUs are left alone: a trial of their drivers #{what}")
    false
  end

  defp last_line(output), do: output |> String.split("\n", trim: true) |> List.last("no output")

  @doc false
  # Runs in the process of its own.
  @spec child(boolean()) :: no_return()
  def child(software?) do
    for {kind, index, name, _software?, _largest} <- Error.unwrap!(NIF.devices(software?)),
        kind != "cpu",
        {:error, error} <- [Device.smoke_test({String.to_atom(kind), index})] do
      IO.puts("#{kind} #{index} (#{name}): #{Exception.message(error)}")
      System.halt(1)
    end

    System.halt(0)
  end
end
