defmodule ExBurn.Training.Options do
  @moduledoc """
  Options of the training functions, checked once.
  """

  alias ExBurn.Error
  alias ExBurn.Training.{Feed, LossScale, Weights}

  @fit [
    epochs: 10,
    batch_size: 32,
    shuffle: true,
    seed: nil,
    validation_data: nil,
    callbacks: [],
    verbose: true,
    lr_schedule: nil,
    clip_norm: nil,
    clip_value: nil,
    weight_decay: 0.0,
    accumulate_gradients: 1,
    class_weights: nil,
    device: nil,
    nan: :stop,
    gradients: :autodiff,
    gradient_checkpointing: false,
    loss_scale: nil,
    resume: nil
  ]

  # Gradients of f32 that are cut to less are all 0, and nothing would be learnt; to more, they are not cut.
  @least_bound 1.1754943508222875e-38
  @largest_bound 3.4028234663852886e38

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
  `opts` over `defaults` as a map, refusing unknown names, wrong values and those that don't go together.

  ## Examples

      iex> ExBurn.Training.Options.validate!([epoch: 3], [epochs: 1, batch_size: 32], :fit)
      ** (ExBurn.Error) fit: unknown option :epoch; known options are :batch_size, :epochs

  """
  @spec validate!(keyword(), keyword(), atom()) :: map()
  def validate!(opts, defaults, op) do
    opts = ExBurn.Options.validate!(op, opts, defaults)

    for {name, value} <- opts,
        do: ExBurn.Options.check!(valid?(name, value), op, name, value, expected(name, value))

    opts |> Map.new() |> check_together!(op)
  end

  # The program that Nx derives holds the backward pass: there is nothing left to leave out.
  defp check_together!(%{gradients: :symbolic, gradient_checkpointing: how}, op)
       when how != false do
    raise Error,
      op: op,
      reason:
        "gradient_checkpointing: is #{inspect(how)}, but it is of gradients: :autodiff, and gradients: is :symbolic"
  end

  defp check_together!(opts, _op), do: opts

  defp valid?(name, value) when name in [:epochs, :batch_size, :accumulate_gradients, :repeat],
    do: ExBurn.Options.positive?(value)

  defp valid?(name, value) when name in [:shuffle, :verbose], do: is_boolean(value)
  defp valid?(:seed, value), do: is_integer(value) and value >= 0 and value < 2 ** 64

  defp valid?(:callbacks, value),
    do: ExBurn.Options.list_of?(value, &is_function(&1, 2))

  defp valid?(:validation_data, value),
    do:
      value == nil or match?({_, _}, value) or match?({_, _, _}, value) or
        (is_float(value) and value > 0 and value < 1) or Feed.batches?(value)

  defp valid?(name, value) when name in [:learning_rate, :weight_decay],
    do: ExBurn.Options.float?(value)

  defp valid?(name, value) when name in [:clip_norm, :clip_value],
    do: value == nil or (is_number(value) and value >= @least_bound and value <= @largest_bound)

  defp valid?(:class_weights, value), do: value == nil or Weights.classes?(value)
  defp valid?(:loss_scale, value), do: value == nil or LossScale.valid?(value)
  defp valid?(:nan, value), do: value in [:stop, :skip]
  defp valid?(:gradient_checkpointing, {:every, count}), do: ExBurn.Options.positive?(count)
  defp valid?(:gradient_checkpointing, value), do: is_boolean(value)
  defp valid?(:gradients, value), do: value in [:autodiff, :symbolic]
  defp valid?(:resume, value), do: value == nil or (is_binary(value) and value != "")

  # Left to ExBurn.Training.Schedule and ExBurn.Device.
  defp valid?(name, _value) when name in [:lr_schedule, :device], do: true

  defp expected(name, value) when name in [:epochs, :batch_size, :accumulate_gradients, :repeat],
    do: ExBurn.Options.positive(value)

  defp expected(name, value) when name in [:learning_rate, :weight_decay],
    do: ExBurn.Options.float(value)

  defp expected(name, _value), do: expected(name)

  defp expected(name) when name in [:shuffle, :verbose], do: "true or false"
  defp expected(:seed), do: "an integer from 0 to 2^64 - 1"
  defp expected(:callbacks), do: "a list of functions of an event and a state"

  defp expected(:lr_schedule), do: "a schedule"
  defp expected(:device), do: "a device"

  defp expected(name) when name in [:clip_norm, :clip_value],
    do: "a number above 0 that f32 can hold, from 1.2e-38 to 3.4e38, or nil"

  defp expected(:loss_scale),
    do:
      "a number above 0 that f32 can hold, from 1.2e-38 to 16777216, :dynamic, {:dynamic, initial: such a number, interval: a positive integer below 2^63} or nil"

  defp expected(:nan), do: ":stop or :skip"

  defp expected(:gradient_checkpointing),
    do: "true, false or {:every, a positive number of operations below 2^63}"

  defp expected(:gradients), do: ":autodiff or :symbolic"
  defp expected(:resume), do: "the path of a directory of checkpoints or of one of them, or nil"

  defp expected(:class_weights),
    do:
      "weights of at least 0 that f32 can hold (0, or from 1.2e-38 to 3.4e38), as a map by class number or as a list, or nil"

  defp expected(:validation_data),
    do:
      "{x, y}, {x, y, weights}, an enumerable of such batches or the share of the rows to hold out, between 0.0 and 1.0"
end
