defmodule Digits.Report do
  @moduledoc """
  What the demo prints.
  """

  @digits Enum.to_list(0..9)

  @doc "Prints a heading."
  def heading(text),
    do: IO.puts("\n── #{text} #{String.duplicate("─", 74 - String.length(text))}\n")

  @doc "A share of 1 as text."
  def percent(share), do: :erlang.float_to_binary(100.0 * share, decimals: 1) <> " %"

  @doc "An image as text, two characters wide for each pixel."
  def image(pixels) do
    for <<row::binary-8 <- pixels>>, into: "" do
      for(<<ink <- row>>, into: "", do: shade(ink)) <> "\n"
    end
  end

  defp shade(ink), do: String.duplicate(Enum.at([" ", "░", "▒", "▓", "█"], div(ink + 3, 4)), 2)

  @doc "The part of `predicted` that equals `labels`, 0 to 1."
  def accuracy(labels, predicted) do
    right = labels |> Enum.zip(predicted) |> Enum.count(fn {label, digit} -> label == digit end)
    right / length(labels)
  end

  @doc """
  A table of how often each digit (rows) was taken for which (columns).
  """
  def confusion(labels, predicted) do
    counts = labels |> Enum.zip(predicted) |> Enum.frequencies()
    head = "       " <> Enum.map_join(@digits, &cell/1)
    [head | Enum.map(@digits, &confusion_row(&1, counts))] |> Enum.join("\n")
  end

  defp confusion_row(label, counts) do
    "     #{label} " <> Enum.map_join(@digits, &cell(Map.get(counts, {label, &1}, "·")))
  end

  defp cell(content), do: content |> to_string() |> String.pad_leading(4)
end
