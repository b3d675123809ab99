defmodule Digits.Networks do
  @moduledoc """
  Two networks that take a row of 64 pixels and answer a score for each digit.
  """

  @doc "One hidden layer, which sees the pixels as a mere list."
  def mlp do
    Axon.input("pixels", shape: {nil, 64})
    |> Axon.dense(128, activation: :relu)
    |> Axon.dense(10)
  end

  @doc "Two convolutions, which see them as a picture."
  def cnn do
    Axon.input("pixels", shape: {nil, 64})
    |> Axon.reshape({:batch, 8, 8, 1})
    |> convolution(16)
    |> Axon.max_pool(kernel_size: 2)
    |> convolution(32)
    |> Axon.flatten()
    |> Axon.dropout(rate: 0.3)
    |> Axon.dense(10)
  end

  defp convolution(x, filters) do
    x
    |> Axon.conv(filters, kernel_size: 3, padding: :same)
    |> Axon.batch_norm()
    |> Axon.relu()
  end

  @doc "A network with its initial parameters and how to train it."
  def compile(network) do
    ExBurn.compile(network,
      loss: :cross_entropy,
      optimizer: :adam,
      metrics: [:accuracy],
      seed: 42
    )
  end
end
