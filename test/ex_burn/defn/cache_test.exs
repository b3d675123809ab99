defmodule ExBurn.Defn.CacheTest do
  use ExUnit.Case, async: true

  alias ExBurn.Defn.Cache

  doctest ExBurn.Defn.Cache

  # A table of this test alone, of `size` values.
  defp table(context, size \\ 100) do
    name = Module.concat(__MODULE__, "T#{:erlang.phash2(context.test)}")
    start_supervised!({Cache, name: name, size: size})
    name
  end

  # Says that it has begun, and goes on when told to.
  defp slow(value) do
    test = self()

    fn ->
      send(test, {:begun, self()})
      receive do: (:go -> value)
    end
  end

  defp go do
    assert_receive {:begun, pid}
    send(pid, :go)
    pid
  end

  test "many processes get one value, made once", context do
    table = table(context)
    make = slow(make_ref())
    tasks = for _ <- 1..20, do: Task.async(fn -> Cache.fetch(table, :key, make) end)
    go()
    assert [_one] = tasks |> Task.await_many() |> Enum.uniq()
    refute_received {:begun, _}
  end

  test "an exception reaches each caller and is not kept", context do
    table = table(context)
    raising = fn -> raise ArgumentError, "no such luck" end

    tasks =
      for _ <- 1..3 do
        Task.async(fn ->
          assert_raise ArgumentError, "no such luck", fn -> Cache.fetch(table, :key, raising) end
          assert catch_throw(Cache.fetch(table, :key, fn -> throw(:ball) end)) == :ball
          assert catch_exit(Cache.fetch(table, :key, fn -> exit(:stage) end)) == :stage
        end)
      end

    Task.await_many(tasks)
    assert Cache.fetch(table, :key, fn -> :made end) == :made
  end

  test "when the process that makes a value dies, the next one does", context do
    table = table(context)
    make = slow(:made)
    first = spawn(fn -> Cache.fetch(table, :key, make) end)
    assert_receive {:begun, ^first}
    second = Task.async(fn -> Cache.fetch(table, :key, make) end)
    refute_receive {:begun, _}, 20
    Process.exit(first, :kill)
    assert go() == second.pid
    assert Task.await(second) == :made
  end

  test "one that dies while it waits is passed over", context do
    table = table(context)
    make = slow(:made)
    tasks = for _ <- 1..2, do: Task.async(fn -> Cache.fetch(table, :key, make) end)
    assert_receive {:begun, first}
    [waiting] = Enum.map(tasks, & &1.pid) -- [first]
    third = Task.async(fn -> Cache.fetch(table, :key, make) end)
    refute_receive {:begun, _}, 20
    for pid <- [waiting, first], do: Process.unlink(pid) && Process.exit(pid, :kill)
    assert go() == third.pid
    assert Task.await(third) == :made
  end

  test "making one value does not hold up another", context do
    table = table(context)
    make = slow(:slow)
    task = Task.async(fn -> Cache.fetch(table, :slow, make) end)
    assert_receive {:begun, pid}
    assert Cache.fetch(table, :other, fn -> :other end) == :other
    send(pid, :go)
    assert Task.await(task) == :slow
  end

  test "a value may need others, and itself", context do
    table = table(context)
    inner = fn -> Cache.fetch(table, :a, fn -> 1 end) end
    assert Cache.fetch(table, :a, fn -> inner.() + Cache.fetch(table, :b, inner) end) == 1
    assert Cache.size(table) == 2
  end

  test "two processes that make what the other one waits for are let through", context do
    table = table(context)
    test = self()

    both = fn one, other ->
      Task.async(fn ->
        Cache.fetch(table, one, fn ->
          send(test, {:begun, self()})
          receive do: (:go -> {one, Cache.fetch(table, other, fn -> {other, :alone} end)})
        end)
      end)
    end

    tasks = [both.(:a, :b), both.(:b, :a)]
    for _ <- tasks, do: assert_receive({:begun, _})
    for task <- tasks, do: send(task.pid, :go)
    assert [{:a, _}, {:b, _}] = values = Task.await_many(tasks)
    assert values == for(key <- [:a, :b], do: Cache.fetch(table, key, fn -> :none end))
  end

  test "what was added first is forgotten first, unless it was read since", context do
    table = table(context, 3)
    for key <- 1..3, do: Cache.fetch(table, key, fn -> :old end)
    Cache.fetch(table, 1, fn -> flunk("1 was forgotten") end)
    Cache.fetch(table, 4, fn -> :old end)
    assert Cache.size(table) == 3
    now = for key <- [1, 3, 4, 2], do: Cache.fetch(table, key, fn -> :new end)
    assert now == [:old, :old, :old, :new]
  end

  test "there are never more values than there may be", context do
    table = table(context, 3)

    1..50
    |> Task.async_stream(fn i -> Cache.fetch(table, rem(i, 7), fn -> i end) end)
    |> Stream.run()

    assert Cache.size(table) == 3
  end

  test "a table of no values makes each anew", context do
    table = table(context, 0)
    assert for(value <- 1..3, do: Cache.fetch(table, :key, fn -> value end)) == [1, 2, 3]
    assert Cache.size(table) == 0
  end
end
