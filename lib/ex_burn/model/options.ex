defmodule ExBurn.Model.Options do
  @moduledoc """
  The options of `ExBurn.compile/2`, checked.
  """

  alias ExBurn.{Device, Options}
  alias ExBurn.Training.{History, Loss, Metric, Optimizer}

  @doc """
  The options with defaults, or `ExBurn.Error`.

  ## Examples

      iex> ExBurn.Model.Options.validate!(loss: :mse)[:optimizer]
      :adam

      iex> ExBurn.Model.Options.validate!(lost: :mse)
      ** (ExBurn.Error) compile: unknown option :lost; known options are :device, :inputs, :learning_rate, :loss, :metrics, :optimizer, :seed

  """
  @spec validate!(keyword()) :: keyword()
  def validate!(opts) do
    defaults = [
      loss: nil,
      optimizer: :adam,
      learning_rate: 1.0e-3,
      metrics: [],
      device: Device.default(),
      seed: 42,
      inputs: %{}
    ]

    opts = Options.validate!(:compile, opts, defaults)
    if opts[:loss] != nil, do: Loss.fetch!(opts[:loss])
    Optimizer.fetch!(opts[:optimizer])
    metrics!(opts[:metrics])
    learning_rate!(opts[:learning_rate])
    seed!(opts[:seed])

    opts
    |> Keyword.update!(:learning_rate, &(&1 * 1.0))
    |> Keyword.update!(:device, &Device.validate!/1)
  end

  defp metrics!(metrics) do
    check!(Options.list_of?(metrics, fn _ -> true end), :metrics, metrics, "a list")
    names = for metric <- metrics, do: metric |> Metric.fetch!() |> Metric.name()
    check!(names == Enum.uniq(names), :metrics, names, "metrics of different names")
    validation = Enum.map(names, &History.val/1)
    expected = "no metric that is named as another one over validation data"
    check!(names -- validation == names, :metrics, names, expected)
  end

  defp learning_rate!(rate),
    do: check!(Options.float?(rate), :learning_rate, rate, Options.float(rate))

  defp seed!(seed) do
    valid? = is_integer(seed) and seed >= 0 and seed < 2 ** 64
    check!(valid?, :seed, seed, "an integer from 0 to 2^64 - 1")
  end

  defp check!(valid?, name, value, expected),
    do: Options.check!(valid?, :compile, name, value, expected)
end
