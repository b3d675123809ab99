defmodule ExBurn.GPU.TrialTest do
  @moduledoc """
  What the trial of a GPU decides, with `EX_BURN_TEST_DEVICE=gpu`.
  """

  # The environment is the whole VM's.
  use ExUnit.Case, async: false

  import ExBurn.TestDevice

  alias ExBurn.Device.Probe
  alias ExBurn.Error

  @moduletag skip: skip()
  @moduletag :tmp_dir

  setup %{tmp_dir: folder} do
    names = ["XDG_CACHE_HOME", "VK_DRIVER_FILES", "VK_ICD_FILENAMES"]
    before = Enum.map(names, &{&1, System.get_env(&1)})

    on_exit(fn ->
      System.put_env(before)
      ExBurn.Device.forget()
    end)

    System.put_env("XDG_CACHE_HOME", folder)
    {:ok, device: ExBurn.Device.validate!(gpu())}
  end

  test "a GPU that did not pass its trial is not used, and the others are", %{device: device} do
    gpu = {Atom.to_string(elem(device, 0)), elem(device, 1)}

    # The verdicts of this machine, with another one for that GPU.
    ExBurn.Device.forget()
    others = ExBurn.devices() -- [device]

    assert {key, {:ok, %{^gpu => :ok} = verdicts}} =
             Probe.file() |> File.read!() |> :erlang.binary_to_term()

    refused = Map.put(verdicts, gpu, "ended with an abort: no output")
    File.write!(Probe.file(), :erlang.term_to_binary({key, {:ok, refused}}))
    ExBurn.Device.forget()
    assert ExBurn.devices() == others

    error = assert_raise Error, fn -> ExBurn.Device.validate!(device) end
    assert error.reason =~ "a trial of #{inspect(device)} ended with an abort: no output"
    assert error.reason =~ "delete #{Probe.file()} to try again"
  end

  test "what OpenGL finds is no GPU of Vulkan", %{tmp_dir: folder} do
    for name <- ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"], do: System.put_env(name, folder)
    assert {:ok, gpus} = Probe.verdicts(true)
    assert for({"vulkan", _} = gpu <- Map.keys(gpus), do: gpu) == []
  end
end
