# Axon's own tests, see `ExBurn.AxonSuite`.

# As for Nx's tests: modes, reason, message, files.
known = [
  {[:both], "calls a function of Elixir, which compiled functions cannot yet",
   ~r/calls from a compiled function into Elixir are not implemented/,
   %{
     "axon/compiler_test.exs" => [
       "hooks backward hook",
       "hooks can be overriden at jit-time with layer name",
       "hooks forward hook",
       "hooks initialize hook",
       "hooks pre forward hook",
       "inspect values prints intermediate layer values to the screen"
     ]
   }}
]

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
