defmodule ExBurn.Device.Probe do
  @moduledoc """
  Tries the GPUs of this machine in an operating system process of its own.

  A graphics driver is loaded into the process that uses it, and a broken one ends that process: no native code can catch it. So
  before this VM loads any driver, another one does, computes something small on each GPU and compares it with the known answer.
  Where that VM does not end well, each GPU is tried in a VM of its own, and only those are used whose VM ended well.

  The verdicts are kept in a file of the user's cache folder, until ExBurn, the drivers or the variables that choose among them
  change; where a GPU was refused, for an hour, since what it lacked may be there then: memory, say, or a permission. Where the
  system has no `erl` to start, as on a phone, GPUs are taken as they are: releases have one.
  """

  require Logger

  alias ExBurn.{Device, Error, NIF}
  alias ExBurn.Device.OtherVM

  # Long enough for a driver that compiles its first shader on a slow machine.
  @timeout :timer.seconds(60)

  # How long a refusal is remembered, in seconds.
  @refused 3600

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

  @typedoc "A kind and a number, as the native part names it."
  @type gpu :: {String.t(), non_neg_integer()}

  @typedoc "For each GPU whether it can be used, or why not; or why they can't even be listed."
  @type verdicts :: {:ok, %{gpu() => :ok | String.t()}} | {:error, String.t()}

  @doc """
  What became of the GPUs of this machine when they were tried; those that the CPU plays too if `software?`.
  """
  @spec verdicts(boolean()) :: verdicts()
  def verdicts(software?) do
    case OtherVM.command() do
      nil ->
        {:ok, %{}}

      command ->
        key = key(software?)

        remembered(key) ||
          (&try_out(command, software?, &1)) |> judge() |> tell() |> remember(key)
    end
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

  @doc """
  The file that holds the verdicts; without it the next VM asks again.
  """
  @spec file() :: Path.t()
  def file, do: Path.join(:filename.basedir(:user_cache, "ex_burn"), "gpus.term")

  defp remembered(key) do
    with {:ok, binary} <- File.read(file()),
         {^key, {kind, _} = verdicts} when kind in [:ok, :error] <- safe_term(binary),
         true <- all_passed?(verdicts) or fresh?(file()) do
      verdicts
    else
      _ -> nil
    end
  end

  defp all_passed?({:ok, gpus}), do: Enum.all?(gpus, fn {_gpu, verdict} -> verdict == :ok end)
  defp all_passed?({:error, _reason}), do: false

  defp fresh?(path) do
    case File.stat(path, time: :posix) do
      {:ok, stat} -> (System.os_time(:second) - stat.mtime) in 0..@refused
      {:error, _} -> false
    end
  end

  defp safe_term(binary) do
    :erlang.binary_to_term(binary, [:safe])
  rescue
    ArgumentError -> nil
  end

  # Without a folder to write to, the next VM asks again.
  defp remember(verdicts, key) do
    File.mkdir_p(Path.dirname(file()))
    File.write(file(), :erlang.term_to_binary({key, verdicts}))
    verdicts
  end

  @doc false
  # `trial` takes `:all` or one GPU, and answers what the process that tried them wrote and `:ok`, or how else it ended.
  @spec judge((:all | gpu() -> {String.t(), :ok | String.t()})) :: verdicts()
  def judge(trial) do
    {written, ending} = trial.(:all)

    case {ending, found(written)} do
      {:ok, gpus} -> {:ok, Map.new(gpus, &{&1, verdict(written, &1)})}
      {reason, []} -> {:error, reason}
      {_reason, gpus} -> {:ok, Map.new(gpus, &{&1, alone(trial, &1)})}
    end
  end

  defp alone(trial, gpu) do
    case trial.(gpu) do
      {written, :ok} -> verdict(written, gpu)
      {_written, reason} -> reason
    end
  end

  defp found(written) do
    for [_, kind, index] <- Regex.scan(~r/^found (\w+) (\d+)$/m, written),
        do: {kind, String.to_integer(index)}
  end

  defp verdict(written, {kind, index}) do
    case Regex.run(~r/^(passed|failed) #{kind} #{index}(?:: (.*))?$/m, written) do
      [_, "passed"] -> :ok
      [_, "failed", reason] -> reason
      nil -> "gave no answer"
    end
  end

  defp tell({:error, reason} = verdicts) do
    Logger.warning("GPUs are left alone: a trial of their drivers #{reason}")
    verdicts
  end

  defp tell({:ok, gpus} = verdicts) do
    for {{kind, index}, reason} when reason != :ok <- gpus,
        do: Logger.warning("{:#{kind}, #{index}} is left alone: a trial of it #{reason}")

    verdicts
  end

  defp try_out({erl, args}, software?, gpu) do
    report = Path.join(System.tmp_dir!(), "ex_burn-gpus-#{System.pid()}-#{unique()}")
    code = "'#{__MODULE__}':child(#{software?}, #{term(gpu)}, <<\"#{report}\">>)."

    ending =
      case OtherVM.run(erl, args ++ ["-eval", code], @timeout) do
        {:ended, 0, _output} -> :ok
        {:ended, status, output} -> "ended with #{status(status)}: #{last_line(output)}"
        :timeout -> "did not answer within #{div(@timeout, 1000)} s"
      end

    # What a process writes to a file is there even if the next thing that it does ends it.
    written = with {:error, _} <- File.read(report), do: {:ok, ""}
    File.rm(report)
    {elem(written, 1), ending}
  end

  defp unique, do: System.unique_integer([:positive])

  defp term(:all), do: "all"
  defp term({kind, index}), do: "{<<\"#{kind}\">>, #{index}}"

  defp status(139), do: "a segmentation fault#{cuda()}"
  defp status(134), do: "an abort"
  defp status(status), do: "status #{status}"

  # NVIDIA's driver for Vulkan falls over where this names no device.
  defp cuda do
    case System.get_env("CUDA_VISIBLE_DEVICES") do
      nil -> ""
      devices -> ", with CUDA_VISIBLE_DEVICES=#{devices}"
    end
  end

  defp last_line(output), do: output |> String.split("\n", trim: true) |> List.last("no output")

  @doc false
  # Runs in the process of its own, and writes to the file at `report`.
  @spec child(boolean(), :all | gpu(), Path.t()) :: no_return()
  def child(software?, which, report) do
    # If the VM that waits for this one is gone, nobody else ends it.
    spawn(fn ->
      Process.sleep(2 * @timeout)
      :erlang.halt(1, flush: false)
    end)

    gpus = Error.unwrap!(NIF.gpus(software?))
    File.write!(report, for({kind, index} <- gpus, do: "found #{kind} #{index}\n"))

    for {kind, index} = gpu <- gpus, which in [:all, gpu] do
      line =
        case Device.SmokeTest.run({String.to_atom(kind), index}) do
          :ok -> "passed #{kind} #{index}\n"
          {:error, error} -> "failed #{kind} #{index}: answered: #{one_line(error)}\n"
        end

      File.write!(report, line, [:append])
    end

    System.halt(0)
  end

  defp one_line(error), do: error |> Exception.message() |> String.replace("\n", " ")
end
