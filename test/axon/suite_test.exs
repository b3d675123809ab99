# Axon's own tests, see `ExBurn.AxonSuite`.

# What fails, as for Nx's tests: modes, reason, message, files.
known = []

case ExBurn.AxonSuite.folder() do
  nil ->
    reason =
      "the package of Axon holds no tests: name a checkout's folder in EX_BURN_AXON to run them"

    IO.puts("\nAxon's own tests are skipped: #{reason}")

    defmodule ExBurn.Axon.SuiteTest do
      use ExUnit.Case

      @tag skip: reason
      test "Axon's own tests" do
      end
    end

  folder ->
    ExBurn.AxonSuite.load_support(folder)

    for name <- ExBurn.AxonSuite.files(folder), do: ExBurn.AxonSuite.load(folder, name, known)

    fails =
      for {_modes, reason, _message, files} <- known,
          count = files |> Map.values() |> Enum.concat() |> length(),
          do: "\n  #{count} fail as expected: #{reason}"

    IO.puts(["\nOf Axon's own tests" | fails])
    IO.puts("  those that learn from a random start are in test/soak/axon.exs")
end
