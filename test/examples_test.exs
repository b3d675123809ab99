defmodule ExBurn.ExamplesTest do
  # The demo writes in a temporary folder and starts a named serving.
  use ExUnit.Case, async: false

  import ExUnit.CaptureIO

  @examples Path.expand("../examples", __DIR__)

  for file <- ~w(data report), do: Code.require_file("digits/#{file}.exs", @examples)

  alias Digits.{Data, Report}

  describe "the digits" do
    test "are those that UCI counts in its test part" do
      counts = Data.load() |> Enum.frequencies_by(fn {_pixels, label} -> label end)
      assert Enum.map(0..9, &counts[&1]) == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    end

    test "have 64 pixels from 0 to 16" do
      for {pixels, _label} <- Data.load() do
        assert byte_size(pixels) == 64
        assert Enum.all?(:binary.bin_to_list(pixels), &(&1 in 0..16))
      end
    end

    test "are split so that each image is on one side and each digit has a fifth in the test" do
      images = Data.load()
      {train, test} = Data.split(images)
      assert Enum.sort(train ++ test) == Enum.sort(images)

      all = Enum.frequencies_by(images, &elem(&1, 1))

      for {digit, count} <- Enum.frequencies_by(test, &elem(&1, 1)) do
        assert_in_delta count, all[digit] / 5, 1
      end
    end

    test "become tensors between 0 and 1" do
      {x, y} = Data.tensors([{:binary.copy(<<0, 8, 12, 16>>, 16), 7}])
      assert Nx.to_flat_list(x[0][0..3]) == [0.0, 0.5, 0.75, 1.0]
      assert {x.shape, y} == {{1, 64}, Nx.tensor([7], type: :s64)}
    end
  end

  test "the report counts what is right and what is confused" do
    assert Report.accuracy([1, 2, 3, 3], [1, 2, 3, 8]) == 0.75

    rows =
      [1, 2, 3, 3]
      |> Report.confusion([1, 2, 3, 8])
      |> String.split("\n")
      |> Enum.map(&String.split/1)

    assert Enum.at(rows, 0) == Enum.map(0..9, &to_string/1)
    assert Enum.at(rows, 4) == ~w(3 · · · 1 · · · · 1 ·)
  end

  test "the demo comes to its good end" do
    output = capture_io(fn -> Code.require_file("digits.exs", @examples) end)
    assert output =~ "Test accuracy of the convolutional network"
    refute output =~ "✗"
  end
end
