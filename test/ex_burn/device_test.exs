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

  test "configure! comes before the variable" do
    System.put_env("EX_BURN_DEVICE", "vulkan:99")
    assert ExBurn.configure!(device: :cpu) == :ok
    assert ExBurn.Device.default() == :cpu
  end
end
