defmodule ExBurn.Training.PartsTest do
  use ExBurn.Case, async: true

  alias ExBurn.Training.{Data, Feed, History, Metric, Options, Schedule}

  doctest Data
  doctest Feed
  doctest History
  doctest Options
  doctest ExBurn.Options
  doctest Schedule

  describe "Schedule" do
    defp rates(schedule, epochs),
      do: for(n <- 1..epochs, do: Schedule.rate(schedule, n, epochs, :fit))

    defp assert_rates(schedule, want) do
      schedule
      |> rates(length(want))
      |> Enum.zip_with(want, &assert_in_delta(&1, &2, 1.0e-9))
    end

    test "exponential and linear" do
      assert_rates({:exponential, 0.1, 0.5}, [0.1, 0.05, 0.025])
      assert_rates({:linear, 1, 3}, [1.0, 1.5, 2.0, 2.5, 3.0])
      assert_rates({:linear, 1, 3}, [1.0])
    end

    test "cosine starts at the base, is half way in the middle and ends at the minimum" do
      assert_rates({:cosine, 1.0, 0.2}, [1.0, 0.6, 0.2])
    end

    test "warmup leads to any schedule" do
      assert_rates({:warmup, 2, {:exponential, 0.4, 0.5}}, [0.2, 0.4, 0.4, 0.2, 0.1])
      assert_rates({:warmup, 4, {:exponential, 0.4, 0.5}}, [0.1, 0.2])
    end

    test "another is refused" do
      for schedule <- [{:step, 0.1, 0, 1}, {:linear, 1}, {:warmup, 1, :x}, nil] do
        assert_raise Error, ~r/^fit: lr_schedule: is .*, expected \{:step/, fn ->
          Schedule.rate(schedule, 2, 3, :fit)
        end
      end
    end
  end

  describe "Feed" do
    test "closes what it enumerates, in the middle too" do
      test = self()
      stream = Stream.resource(fn -> 1 end, &{[&1], &1 + 1}, fn _ -> send(test, :closed) end)
      {1, feed} = stream |> Feed.new() |> Feed.next()
      {2, feed} = Feed.next(feed)
      refute_received :closed
      Feed.close(feed)
      assert_received :closed
    end

    test "gives the last element of a stream that ends with it, and starts anew" do
      feed = 1..10 |> Stream.take(2) |> Feed.new()

      for _epoch <- 1..2, reduce: feed do
        feed ->
          {1, feed} = Feed.next(feed)
          {2, feed} = Feed.next(feed)
          {:end, feed} = Feed.next(feed)
          Feed.rewind(feed)
      end
    end
  end

  describe "Metric accuracy" do
    defp accuracy(y, p), do: :accuracy |> Metric.apply(y, p) |> Nx.to_number()

    test "of class numbers, one-hot targets and positions" do
      p = Nx.tensor([[0.1, 0.7, 0.2], [0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.5, 0.3, 0.2]])
      classes = Nx.tensor([1, 0, 0, 2])
      one_hot = Nx.tensor([[0, 1, 0], [1, 0, 0], [1, 0, 0], [0, 0, 1]])
      for y <- [classes, Nx.new_axis(classes, -1), one_hot], do: assert(accuracy(y, p) == 0.5)
      assert accuracy(Nx.reshape(classes, {2, 2}), Nx.reshape(p, {2, 2, 3})) == 0.5
    end

    test "of probabilities" do
      p = Nx.tensor([[0.7], [0.2], [0.6], [0.9]])
      y = Nx.tensor([1, 0, 0, 1])
      assert accuracy(y, p) == 0.75
      assert accuracy(Nx.new_axis(y, -1), p) == 0.75
    end

    test "a metric can't have a name that the history uses" do
      for name <- [:loss, :epoch, :model] do
        assert_raise Error, ~r/^compile: metrics: is /, fn ->
          Metric.fetch!({name, fn _, _ -> 0 end})
        end
      end
    end

    test "a metric must answer a scalar" do
      assert_raise Error, ~r/^metric: :bad must answer a scalar/, fn ->
        Metric.apply({:bad, fn y, _ -> y end}, Nx.tensor([1]), Nx.tensor([1]))
      end
    end
  end
end
