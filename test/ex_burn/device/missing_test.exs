defmodule ExBurn.Device.MissingTest do
  use ExUnit.Case, async: true

  alias ExBurn.Device.Missing
  alias ExBurn.NIF

  @built NIF.gpu_kinds()

  test "a kind of GPU that the build lacks is told, with what adds it" do
    for {kind, hint} <- [{:cuda, "EX_BURN_FEATURES=cuda"}, {:metal, "by "}, {:vulkan, "by "}],
        Atom.to_string(kind) not in @built,
        name <- [kind, {kind, 0}] do
      reason = Missing.reason(name, [:cpu], true)
      assert reason =~ "there is no device #{inspect(name)}; devices are [:cpu]; this build "
      assert reason =~ hint
    end
  end

  test "what is no name of a device gets no hint" do
    for name <- [:abacus, "gpu", nil, {:cpu, 1}, 7],
        do: assert(Missing.reason(name, [:cpu], true) =~ ~r/; devices are \[:cpu\]$/)
  end
end
