defmodule ExBurn.OverflowTest do
  # Elements are folded in parts. Parts that overflow must not spoil a result that is a number one element after the other.
  use ExBurn.Case, async: true

  setup do: Nx.default_backend(ExBurn.Backend) && :ok

  for count <- [1, 16, 32, 65, 5000, 100_000] do
    test "sums of #{count} numbers and their opposites" do
      pairs = Nx.tile(Nx.tensor([1.0e308, -1.0e308], type: :f64), [unquote(count)])
      assert Nx.to_number(Nx.sum(pairs)) == 0.0

      columns = Nx.reshape(pairs, {unquote(count), 2}) |> Nx.slice_along_axis(0, 1, axis: 1)
      infinite = Nx.to_number(Nx.sum(columns))
      assert infinite == if(unquote(count) == 1, do: 1.0e308, else: :infinity)
    end

    test "products of zero and #{count} large numbers" do
      numbers =
        Nx.concatenate([
          Nx.tensor([0.0], type: :f64),
          Nx.broadcast(Nx.tensor(1.0e10, type: :f64), {unquote(count)})
        ])

      assert Nx.to_number(Nx.product(numbers)) == 0.0
      assert numbers |> Nx.cumulative_product() |> Nx.any() |> Nx.to_number() == 0
    end
  end

  test "what is no number stays none" do
    for count <- [3, 100, 200_000] do
      t = Nx.put_slice(Nx.broadcast(1.0, {count}), [1], Nx.tensor([:nan]))
      assert Nx.to_number(Nx.sum(t)) == :nan
      assert Nx.to_number(Nx.product(t)) == :nan
      sums = Nx.cumulative_sum(t)
      assert Nx.to_number(sums[0]) == 1.0
      assert Nx.to_number(Nx.sum(Nx.is_nan(sums))) == count - 1
    end
  end

  test "convolutions of long integers are exact where f32 holds the result" do
    t = Nx.tensor([[[16_777_217, 16_777_216]]], type: :s64)
    assert Nx.to_flat_list(Nx.conv(t, Nx.tensor([[[1, -1]]], type: :s64))) == [1.0]
  end

  test "errors of complex extrema name the function" do
    t = Nx.tensor([Complex.new(1, 2), Complex.new(1, 3)])
    assert_raise ExBurn.Error, ~r/cumulative_max/, fn -> Nx.cumulative_max(t) end
  end
end
