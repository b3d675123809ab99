defmodule Digits.Data do
  @moduledoc """
  The handwritten digits of `examples/data`, as lists and as tensors.

  An image is `{pixels, label}`: a binary of 64 bytes, 0 to 16 each, and the digit it shows.
  """

  @file_name Path.expand("../data/digits.bin", __DIR__)

  @doc "All 1,797 images."
  def load do
    for <<pixels::binary-64, label <- File.read!(@file_name)>>, do: {pixels, label}
  end

  @doc """
  Splits `images` into a list to train with and a fifth to test with, `{train, test}`.

  Of each digit every fifth image is for the test, beginning with the third: the split is the same
  every time, and each digit has its share on both sides.
  """
  def split(images) do
    {test, train} = images |> count_within_label() |> Enum.split_with(&(rem(elem(&1, 1), 5) == 2))
    {Enum.map(train, &elem(&1, 0)), Enum.map(test, &elem(&1, 0))}
  end

  # Pairs each image with the number of images of the same digit before it.
  defp count_within_label(images) do
    {pairs, _seen} =
      Enum.map_reduce(images, %{}, fn {_pixels, label} = image, seen ->
        {{image, Map.get(seen, label, 0)}, Map.update(seen, label, 1, &(&1 + 1))}
      end)

    pairs
  end

  @doc """
  The images as two tensors: pixels between 0 and 1, `f32[n][64]`, and labels, `s64[n]`.
  """
  def tensors(images) do
    {pixels, labels} = Enum.unzip(images)
    x = pixels |> IO.iodata_to_binary() |> Nx.from_binary(:u8) |> Nx.reshape({:auto, 64})
    {Nx.divide(x, 16), Nx.tensor(labels, type: :s64)}
  end
end
