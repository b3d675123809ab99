defmodule ExBurn.Training.Options do
  @moduledoc """
  Options of the training functions, checked once.
  """

  @fit [
    epochs: 10,
    batch_size: 32,
    shuffle: true,
    seed: nil,
    validation_data: nil,
    callbacks: [],
    verbose: true,
    lr_schedule: nil
  ]

  @doc """
  Options of `ExBurn.Training.fit/3` as a map, with defaults.

  ## Examples

      iex> ExBurn.Training.Options.fit!([epochs: 3], 7).seed
      7
      iex> ExBurn.Training.Options.fit!([batch_size: 0], 7)
      ** (ExBurn.Error) fit: batch_size: is 0, expected a positive integer

  """
  @spec fit!(keyword(), non_neg_integer()) :: map()
  def fit!(opts, seed), do: validate!(opts, Keyword.put(@fit, :seed, seed), :fit)

  @doc """
  `opts` over `defaults` as a map, refusing unknown names and wrong values.

  ## Examples

      iex> ExBurn.Training.Options.validate!([epoch: 3], [epochs: 1, batch_size: 32], :fit)
      ** (ExBurn.Error) fit: unknown option :epoch; known options are :batch_size, :epochs

  """
  @spec validate!(keyword(), keyword(), atom()) :: map()
  def validate!(opts, defaults, op) do
    opts = ExBurn.Options.validate!(op, opts, defaults)

    for {name, value} <- opts,
        do: ExBurn.Options.check!(valid?(name, value), op, name, value, expected(name))

    Map.new(opts)
  end

  defp valid?(name, value) when name in [:epochs, :batch_size],
    do: is_integer(value) and value > 0

  defp valid?(name, value) when name in [:shuffle, :verbose], do: is_boolean(value)
  defp valid?(:seed, value), do: is_integer(value) and value >= 0 and value < 2 ** 64

  defp valid?(:callbacks, value),
    do: is_list(value) and Enum.all?(value, &is_function(&1, 2))

  defp valid?(:validation_data, value),
    do: value == nil or match?({_, _}, value) or (is_float(value) and value > 0 and value < 1)

  defp valid?(:learning_rate, value), do: is_number(value) and value >= 0

  # Left to ExBurn.Training.Schedule.
  defp valid?(:lr_schedule, _value), do: true

  defp expected(name) when name in [:epochs, :batch_size], do: "a positive integer"
  defp expected(name) when name in [:shuffle, :verbose], do: "true or false"
  defp expected(:seed), do: "an integer from 0 to 2^64 - 1"
  defp expected(:callbacks), do: "a list of functions of an event and a state"

  defp expected(:learning_rate), do: "a number of at least 0"
  defp expected(:lr_schedule), do: "a schedule"

  defp expected(:validation_data),
    do: "{x, y} or the share of the rows to hold out, between 0.0 and 1.0"
end
