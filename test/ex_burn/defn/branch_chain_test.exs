defmodule ExBurn.Defn.BranchChainTest do
  # Long chains of branches, each of which reads the one before, against their links in Nx.Defn.Evaluator.
  use ExBurn.Case, async: true

  import ExBurn.Calls
  import Nx.Defn
  import Nx.Defn.Kernel, only: [hook: 2]

  alias ExBurn.Defn.Lowering.Place

  doctest Place

  @length 60

  deftransformp call(value, tag, number: number) do
    hook(value, see({tag, number}))
  end

  # The predicates do not read `y`, which all branches do.
  defn link(y, x, way, opts \\ []) do
    cond do
      way == 0 -> call(y + x, :first, opts)
      way == 1 -> y - x
      true -> call(y * 3, :last, opts)
    end
  end

  # The first predicate reads `y`, and the second one calls.
  defn asking_link(y, x, way, opts \\ []) do
    cond do
      y * 0 == way -> y + x
      call(way == 1, :asked, opts) -> call(y - x, :second, opts)
      true -> call(y * 3, :last, opts)
    end
  end

  # What the branches share lies between two links, with a branch of its own.
  defn sharing_link(y, x, way, opts \\ []) do
    shared = if way > 0, do: y + 1, else: y - x

    cond do
      way == 0 -> call(shared * y, :first, opts)
      way == 1 -> shared
      true -> call(shared + x, :last, opts)
    end
  end

  defp chain(link, x, ways) do
    Enum.reduce(1..@length, x, fn number, y -> link.(y, x, ways[number - 1], number: number) end)
  end

  # Which ways the links take: all of them, and others with each start.
  defp ways(start), do: for(i <- 1..@length, do: rem(i * i + div(i, start) + start, 3))

  # One link after the other: the time that Nx.Defn.Evaluator takes doubles with each link of a chain.
  defp evaluated(link, x, ways) do
    for {way, number} <- Enum.with_index(ways, 1), reduce: x do
      y ->
        link = &link.(&1, &2, &3, number: number)
        Nx.Defn.jit_apply(link, [y, x, Nx.tensor(way)], compiler: Nx.Defn.Evaluator)
    end
  end

  defp compiled(fun, args) do
    args = Enum.map(args, &Nx.backend_copy(&1, ExBurn.Backend))
    calls(fn -> Nx.Defn.jit_apply(fun, args, compiler: ExBurn.Defn.Compiler) end)
  end

  # What `fun` answers, with what the functions see that it calls.
  defp calls(fun) do
    result = fun.()
    {on_binary(result), seen()}
  end

  for name <- [:link, :asking_link, :sharing_link] do
    @link Function.capture(__MODULE__, name, 4)

    test "the branches that are taken call, once and in order: #{name}" do
      for start <- 1..3 do
        want = calls(fn -> evaluated(@link, Nx.tensor(5), ways(start)) end)
        args = [Nx.tensor(5), Nx.tensor(ways(start))]
        assert compiled(&chain(@link, &1, &2), args) == want
        assert length(elem(want, 1)) > div(@length, 4)
      end
    end

    test "a chain in a loop: #{name}" do
      ways = ways(2)
      other = Enum.map(ways, &(2 - &1))
      first = Nx.tensor(5)
      evaluate = fn -> Enum.reduce([ways, other, ways], first, &evaluated(@link, &2, &1)) end
      args = [first, Nx.tensor(ways)]
      assert compiled(&looped(&1, &2, link: @link), args) == calls(evaluate)
    end

    test "a chain in a branch: #{name}" do
      want = calls(fn -> evaluated(@link, Nx.tensor(5), ways(1)) end)
      args = [Nx.tensor(5), Nx.tensor(ways(1))]
      fun = fn x, ways, p -> either(x, chain(@link, x, ways), p) end
      assert compiled(fun, args ++ [Nx.tensor(0)]) == want
      assert compiled(fun, args ++ [Nx.tensor(1)]) == {on_binary(Nx.tensor(10)), []}
    end
  end

  defn looped(x, ways, opts \\ []) do
    {_, y, _} =
      while {i = 0, y = x, ways}, i < 3 do
        {i + 1, chained(opts[:link], y, ways), 2 - ways}
      end

    y
  end

  deftransformp chained(link, y, ways) do
    chain(link, y, ways)
  end

  defn either(x, y, p) do
    if p, do: x * 2, else: y
  end

  test "the innermost place around two is the one that a walk outwards finds" do
    places =
      Enum.reduce(1..300, [Place.outermost()], fn id, places ->
        [Place.inside(Enum.at(places, rem(id * id, min(length(places), 4))), id) | places]
      end)

    for one <- Enum.take_every(places, 3), other <- Enum.take_every(places, 5) do
      assert Place.common(one, other).cond == walk(outwards(one), outwards(other))
    end
  end

  defp outwards(nil), do: []
  defp outwards(place), do: [place.cond | outwards(place.around)]

  defp walk(one, other), do: Enum.find(one, &(&1 in other))
end
