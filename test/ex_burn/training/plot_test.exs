defmodule ExBurn.Training.PlotTest do
  use ExUnit.Case, async: true

  alias ExBurn.Training

  defp entry(epoch, loss, val_loss \\ nil), do: %{epoch: epoch, loss: loss, val_loss: val_loss}

  # Characters of the drawing, row by row, without labels.
  defp cells(plot) do
    for line <- String.split(plot, "\n"),
        [_, row] <- [String.split(line, "┤")],
        do: String.graphemes(row)
  end

  defp dots(plot) do
    plot |> cells() |> List.flatten() |> Enum.count(&(&1 != "⠀"))
  end

  test "a falling loss runs from the upper left to the lower right" do
    plot = Training.plot([entry(1, 2.0), entry(2, 1.0)])
    rows = cells(plot)
    assert length(rows) == 12
    assert Enum.all?(rows, &(length(&1) == 60))
    assert [first | _] = Enum.map(rows, fn row -> Enum.find_index(row, &(&1 != "⠀")) end)
    assert first == 0
    assert rows |> List.last() |> List.last() != "⠀"
    assert rows |> hd() |> List.last() == "⠀"
    assert rows |> List.last() |> hd() == "⠀"
    # The line has no gaps: each column is drawn.
    for column <- 0..59, do: assert(Enum.any?(rows, &(Enum.at(&1, column) != "⠀")))
  end

  test "the axis names the largest and the smallest loss and the epochs" do
    plot = Training.plot(for n <- 1..25, do: entry(n, 1 / n))
    lines = String.split(plot, "\n")
    assert hd(lines) =~ "1.0000┤"
    assert Enum.at(lines, 11) =~ "0.0400┤"
    assert Enum.at(lines, 13) =~ ~r/ 1 +25$/
    assert plot =~ "loss by epoch"
    refute plot =~ "val_loss"
  end

  test "what is no history is refused" do
    for other <- [:none, [%{loss: 1.0}], %{epoch: 1, loss: 1.0}] do
      error = assert_raise ExBurn.Error, fn -> Training.plot(other) end
      assert Exception.message(error) =~ "expected the list that fit_with_progress answers"
    end
  end

  test "the validation loss is drawn too, dotted" do
    plot = Training.plot([entry(1, 1.0, 2.0), entry(2, 1.0, 2.0)])
    assert plot =~ "val_loss"
    [top | rest] = cells(plot)
    assert Enum.all?(List.last(rest), &(&1 != "⠀"))
    assert Enum.count(top, &(&1 != "⠀")) == 30
  end

  test "a constant loss, one epoch, values that are not finite, no epochs" do
    assert dots(Training.plot([entry(1, 1.0), entry(2, 1.0)])) == 60
    assert dots(Training.plot([entry(1, 1.0)])) == 1
    assert dots(Training.plot([entry(1, 1.0, :nan), entry(2, 0.5, :infinity)])) > 0
    assert Training.plot([]) == "no epochs to plot\n"
  end

  test "losses as large and as small as floats can be" do
    for {high, low} <- [
          {1.7e308, -1.7e308},
          {1.7e308, 0.0},
          {1.0e-323, 5.0e-324},
          {-1, -(10 ** 300)}
        ] do
      rows = cells(Training.plot([entry(1, high), entry(2, low)]))
      assert rows |> hd() |> hd() != "⠀"
      assert rows |> List.last() |> List.last() != "⠀"
    end

    one = Training.plot([entry(1, 1.0), entry(2, 10 ** 400), entry(3, 1.0)])
    assert hd(String.split(one, "\n")) =~ "1.0000┤"
  end

  test "nothing finite is nothing to plot" do
    assert Training.plot([entry(1, :nan, :infinity), entry(2, nil)]) == "no epochs to plot\n"
  end

  test "as Vega-Lite it has a point for each finite value, by what it is" do
    history = [
      %{
        epoch: 1,
        loss: 1.0,
        val_loss: :nan,
        accuracy: 0.5,
        val_accuracy: 0.25,
        learning_rate: 0.1
      },
      %{epoch: 2, loss: 0.5, val_loss: 0.75, accuracy: 1.0, val_accuracy: 0.5, learning_rate: 0.1}
    ]

    spec = ExBurn.Training.plot(history, as: :vega_lite)
    values = for p <- spec["data"]["values"], do: {p["epoch"], p["what"], p["data"], p["value"]}

    assert Enum.sort(values) == [
             {1, "accuracy", "training", 0.5},
             {1, "accuracy", "validation", 0.25},
             {1, "loss", "training", 1.0},
             {2, "accuracy", "training", 1.0},
             {2, "accuracy", "validation", 0.5},
             {2, "loss", "training", 0.5},
             {2, "loss", "validation", 0.75}
           ]

    assert Jason.decode!(Jason.encode!(spec)) == spec

    assert_raise ExBurn.Error, "plot: as: is :png, expected :text or :vega_lite", fn ->
      ExBurn.Training.plot(history, as: :png)
    end
  end
end
