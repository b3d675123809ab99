defmodule ExBurn.Device.Missing do
  @moduledoc false

  # Why there is no device of a name.

  alias ExBurn.Device.Probe
  alias ExBurn.{NIF, Options}

  @doc """
  A reason for `ExBurn.Error`: the devices that there are, and what could be done to have the one that was asked for.
  """
  @spec reason(term(), [ExBurn.Device.t()], boolean()) :: String.t()
  def reason(name, devices, software?) do
    there = "there is no device #{Options.short(name)}; devices are #{inspect(devices)}"
    Enum.join([there | hints(kind(name), devices, software?)], "; ")
  end

  defp kind({kind, _index}) when is_atom(kind), do: kind
  defp kind(kind), do: kind

  defp hints(kind, devices, software?) when kind in [:gpu, :cuda, :vulkan, :metal] do
    built = NIF.gpu_kinds()

    cond do
      kind == :gpu or Atom.to_string(kind) in built ->
        trial(kind, devices, software?)

      kind == :cuda ->
        ["this build has no CUDA, which the feature cuda adds: EX_BURN_FEATURES=cuda"]

      true ->
        ["this build reaches GPUs by #{Enum.join(built, " and ")}"]
    end
  end

  defp hints(_other, _devices, _software?), do: []

  defp trial(kind, devices, software?) do
    case Probe.verdicts(software?) do
      {:error, reason} ->
        ["a trial of the drivers of GPUs #{reason}", remembered()]

      {:ok, gpus} ->
        refused = for {gpu, reason} when reason != :ok <- gpus, do: trial_of(gpu, reason)
        if refused == [], do: none(kind, devices, software?), else: refused ++ [remembered()]
    end
  end

  defp trial_of({kind, index}, reason), do: "a trial of {:#{kind}, #{index}} #{reason}"

  defp remembered,
    do: "which is remembered for an hour: delete #{Probe.file()} to try again in a new VM"

  defp none(:cuda, devices, _software?) do
    if List.keymember?(tl(devices), :cuda, 0), do: [], else: ["CUDA finds no GPU, or no driver"]
  end

  defp none(_kind, [:cpu], false),
    do: ["no GPU was found; EX_BURN_SOFTWARE_GPU=1 counts those that the CPU plays, too"]

  defp none(_kind, [:cpu], true),
    do: ["no GPU was found, nor a driver for one that the CPU plays"]

  defp none(_kind, _devices, _software?), do: []
end
