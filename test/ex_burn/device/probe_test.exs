defmodule ExBurn.Device.ProbeTest do
  use ExUnit.Case, async: true

  alias ExBurn.Device.Probe

  doctest ExBurn.Device.SmokeTest

  @cuda {"cuda", 0}
  @first {"vulkan", 0}
  @second {"vulkan", 1}
  @found "found cuda 0\nfound vulkan 0\nfound vulkan 1\n"

  # What trials wrote and how they ended; the GPUs that were tried are told to the test.
  defp judge(trials) do
    me = self()

    Probe.judge(fn which ->
      send(me, {:tried, which})
      Map.fetch!(trials, which)
    end)
  end

  test "one process is enough where it ends well, and what it says holds for each GPU" do
    written = @found <> "passed cuda 0\nfailed vulkan 0: answered: no\npassed vulkan 1\n"

    assert judge(%{all: {written, :ok}}) ==
             {:ok, %{@cuda => :ok, @first => "answered: no", @second => :ok}}

    assert_received {:tried, :all}
    refute_received {:tried, _}
    assert judge(%{all: {"", :ok}}) == {:ok, %{}}
  end

  test "where it does not, each GPU has one of its own" do
    crashed = "ended with a segmentation fault: no output"

    trials = %{
      # It got so far, but what it says of the first counts no more.
      :all => {@found <> "passed cuda 0\n", crashed},
      @cuda => {@found <> "passed cuda 0\n", :ok},
      @first => {@found, crashed},
      @second => {@found <> "failed vulkan 1: answered: no\n", :ok}
    }

    assert judge(trials) ==
             {:ok, %{@cuda => :ok, @first => crashed, @second => "answered: no"}}

    for which <- [:all, @cuda, @first, @second], do: assert_received({:tried, ^which})
  end

  test "a GPU that passed and then took its process down is refused" do
    written = "found vulkan 0\npassed vulkan 0\n"
    trials = %{:all => {written, "ended badly"}, @first => {written, "ended badly"}}
    assert judge(trials) == {:ok, %{@first => "ended badly"}}
  end

  test "a GPU of which nothing is said is refused" do
    assert judge(%{all: {"found vulkan 0\n", :ok}}) == {:ok, %{@first => "gave no answer"}}

    trials = %{:all => {"found vulkan 0\n", "did not answer within 60 s"}, @first => {"", :ok}}
    assert judge(trials) == {:ok, %{@first => "gave no answer"}}
  end

  test "where GPUs can't be listed, there are none" do
    assert judge(%{all: {"", "ended with a segmentation fault: no output"}}) ==
             {:error, "ended with a segmentation fault: no output"}

    assert_received {:tried, :all}
    refute_received {:tried, _}
  end
end

defmodule ExBurn.Device.ProbeProcessTest do
  # The environment is the whole VM's.
  use ExUnit.Case, async: false

  alias ExBurn.Device.Probe

  @moduletag :tmp_dir

  setup %{tmp_dir: folder} do
    names = ["XDG_CACHE_HOME", "ERL_AFLAGS"]
    before = Enum.map(names, &{&1, System.get_env(&1)})
    on_exit(fn -> System.put_env(before) end)
    System.put_env("XDG_CACHE_HOME", folder)
  end

  test "flags of Erlang for this VM are none for that of a trial" do
    System.put_env("ERL_AFLAGS", "-eval halt(3).")
    assert {:ok, _gpus} = Probe.verdicts(false)
  end

  test "a refusal is remembered for an hour" do
    absent = {"vulkan", 1000}
    assert {:ok, gpus} = Probe.verdicts(false)
    refute is_map_key(gpus, absent)

    # As if another one had been there, and failed.
    {key, {:ok, ^gpus}} = Probe.file() |> File.read!() |> :erlang.binary_to_term()
    refused = Map.put(gpus, absent, "answered: no memory")
    File.write!(Probe.file(), :erlang.term_to_binary({key, {:ok, refused}}))
    assert Probe.verdicts(false) == {:ok, refused}

    File.touch!(Probe.file(), System.os_time(:second) - 3700)
    assert Probe.verdicts(false) == {:ok, gpus}
  end
end
