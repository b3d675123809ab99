defmodule ExBurn.Model.Options do
  @moduledoc """
  The options of `ExBurn.compile/2`, checked.
  """

  alias ExBurn.{Device, Options}

  @losses [:cross_entropy, :mse, :binary_cross_entropy]
  @optimizers [adam: [:b1, :b2, :eps, :eps_root], sgd: [:momentum, :nesterov]]
  @metrics [:accuracy]

  @doc """
  Names of the losses.
  """
  def losses, do: @losses

  @doc """
  Names of the optimizers, each with the names of its options.
  """
  def optimizers, do: @optimizers

  @doc """
  Names of the metrics.
  """
  def metrics, do: @metrics

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
    loss!(opts[:loss])
    optimizer!(opts[:optimizer])
    metrics!(opts[:metrics])
    learning_rate!(opts[:learning_rate])
    seed!(opts[:seed])

    opts
    |> Keyword.update!(:learning_rate, &(&1 * 1.0))
    |> Keyword.update!(:device, &Device.validate!/1)
  end

  defp loss!(loss) do
    valid? = loss == nil or loss in @losses or is_function(loss, 2)

    check!(
      valid?,
      :loss,
      loss,
      "#{Options.list(@losses)} or a function of targets and predictions"
    )
  end

  defp optimizer!({name, opts} = optimizer) do
    known = @optimizers[name]
    valid? = known != nil and Keyword.keyword?(opts) and Keyword.keys(opts) -- known == []
    check!(valid?, :optimizer, optimizer, optimizers_text())
  end

  defp optimizer!(name),
    do: check!(Keyword.has_key?(@optimizers, name), :optimizer, name, optimizers_text())

  defp optimizers_text do
    Enum.map_join(@optimizers, " or ", fn {name, opts} ->
      "#{inspect(name)}, {#{inspect(name)}, options} with options of #{Options.list(opts)}"
    end)
  end

  defp metrics!(metrics) do
    valid? = is_list(metrics) and metrics -- @metrics == []
    check!(valid?, :metrics, metrics, "a list of #{Options.list(@metrics)}")
  end

  defp learning_rate!(rate),
    do: check!(is_number(rate) and rate >= 0, :learning_rate, rate, "a number of at least 0")

  defp seed!(seed) do
    valid? = is_integer(seed) and seed >= 0 and seed < 2 ** 64
    check!(valid?, :seed, seed, "an integer from 0 to 2^64 - 1")
  end

  defp check!(valid?, name, value, expected),
    do: Options.check!(valid?, :compile, name, value, expected)
end
