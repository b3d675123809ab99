# Random programs, compiled and compared with what they should answer; ends with an error when one of them goes wrong:
#
#     MIX_ENV=test mix run test/soak/programs.exs --count 20000 --seed 1 --passes all|each
#
# `all` compiles each program with all passes and without one of them, `each` without each of them in turn. Program number
# n grows from seed + n - 1, so that `--count 1 --seed` with the seed of a report runs that program alone.

alias ExBurn.Fuzz.{Generator, Report}

{options, [], []} =
  OptionParser.parse(System.argv(), strict: [count: :integer, seed: :integer, passes: :string])

count = Keyword.get(options, :count, 20_000)
first = Keyword.get(options, :seed, 1)
mode = if options[:passes] == "each", do: :each, else: :all
start = System.monotonic_time(:millisecond)

faults =
  Enum.reduce(first..(first + count - 1)//1, 0, fn seed, faults ->
    report = Report.of(Generator.genes(seed), Report.variants(seed, mode))
    if report, do: IO.puts("\nseed #{seed}\n#{report}")
    faults = if report, do: faults + 1, else: faults
    done = seed - first + 1

    if rem(done, 500) == 0 or done == count do
      rate = 1000 * done / max(System.monotonic_time(:millisecond) - start, 1)

      IO.puts(
        "#{done} of #{count} programs, #{faults} faults, #{Float.round(rate, 1)} programs/s"
      )
    end

    faults
  end)

if faults > 0, do: System.halt(1)
