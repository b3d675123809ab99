defmodule ExBurn.DeviceTest do
  use ExUnit.Case, async: true
  doctest ExBurn.Device

  test "the CPU has a name and cores" do
    assert %{name: name, cores: cores} = ExBurn.Device.info()
    assert String.length(name) > 0
    assert cores == System.schedulers_online()
  end

  @tag skip: not File.exists?("/proc/meminfo")
  test "memory is what the system says" do
    %{total: total, available: available} = ExBurn.Device.memory()
    {text, 0} = System.cmd("awk", ["/^MemTotal:/ {print $2}", "/proc/meminfo"])
    assert total == 1024 * String.to_integer(String.trim(text))
    assert available in 1..total
  end

  test "the error of the last device is raised, any other at once" do
    assert_raise ExBurn.Error, ~r/^fold: no/, fn ->
      ExBurn.try_with_fallback(fn -> raise ExBurn.Error, op: :fold, reason: "no" end)
    end

    assert_raise RuntimeError, fn -> ExBurn.try_with_fallback(fn -> raise "no" end) end
  end
end

defmodule ExBurn.DeviceVariableTest do
  # The variable is the whole VM's.
  use ExUnit.Case, async: false
  import ExUnit.CaptureLog

  setup do
    before = System.get_env("EX_BURN_DEVICE")

    on_exit(fn ->
      System.put_env([{"EX_BURN_DEVICE", before}])
      Application.delete_env(:ex_burn, :chosen_device)
    end)
  end

  test "EX_BURN_DEVICE names a kind, with a number or without" do
    for {text, name} <- [{"cuda:99", "{:cuda, 99}"}, {"vulkan:99", "{:vulkan, 99}"}] do
      System.put_env("EX_BURN_DEVICE", text)
      error = assert_raise ExBurn.Error, fn -> ExBurn.Device.default() end
      assert error.reason =~ "there is no device #{name}; devices are [:cpu"
    end

    for text <- ["cpu:0", ""] do
      System.put_env("EX_BURN_DEVICE", text)
      assert ExBurn.Device.default() == :cpu
    end
  end

  test "what is tried where the device that is named isn't there goes to the next one" do
    System.put_env("EX_BURN_DEVICE", "vulkan:99")
    :telemetry.attach(__MODULE__, [:ex_burn, :device, :failed], &__MODULE__.tell/4, self())
    on_exit(fn -> :telemetry.detach(__MODULE__) end)
    next = List.first(tl(ExBurn.devices()), :cpu)

    log =
      capture_log(fn ->
        assert ExBurn.try_with_fallback(&{&1, Nx.tensor([2.0]).data.device}) == {next, next}
      end)

    assert log =~ "{:vulkan, 99} failed, trying the next device: device: there is no device"
    assert_received {:failed, %{device: {:vulkan, 99}, error: %ExBurn.Error{op: :device}}}
    assert_raise ExBurn.Error, fn -> ExBurn.Device.default() end
  end

  def tell(_event, _measurements, metadata, test), do: send(test, {:failed, metadata})

  test "configure! comes before the variable" do
    System.put_env("EX_BURN_DEVICE", "vulkan:99")
    assert ExBurn.configure!(device: :cpu) == :ok
    assert ExBurn.Device.default() == :cpu
  end
end
