defmodule ExBurn.HostileTest do
  # Random calls at the boundary: each answers or raises ArgumentError, and the VM lives on. `test/soak/hostile.exs` makes
  # more of them.
  use ExUnit.Case, async: true

  @calls 20_000

  test "random calls of the native functions" do
    Nx.default_backend(ExBurn.Backend)
    outcomes = ExBurn.Hostile.run(@calls, 1)

    # Calls that succeed and calls that are refused, or the test looks at one side only.
    assert outcomes.ok > 100
    assert outcomes.invalid > 100
    assert outcomes.argument > 100
    assert outcomes |> Map.values() |> Enum.sum() == @calls
  end
end
