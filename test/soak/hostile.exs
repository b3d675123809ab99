# Random calls at the boundary; ends with an error when one of them panics or raises another exception than ArgumentError:
#
#     MIX_ENV=test mix run test/soak/hostile.exs [calls, 1000000 if not given] [seed]

[calls, seed] =
  case Enum.map(System.argv(), &String.to_integer/1) do
    [] -> [1_000_000, 1]
    [calls] -> [calls, 1]
    [calls, seed | _] -> [calls, seed]
  end

Nx.default_backend(ExBurn.Backend)
{microseconds, outcomes} = :timer.tc(fn -> ExBurn.Hostile.run(calls, seed) end)
IO.inspect(outcomes, label: "#{calls} calls in #{div(microseconds, 1_000_000)} s, seed #{seed}")
