defmodule ExBurn.Training.LossScale do
  @moduledoc """
  Scaling of the loss, for models that compute in `f16`: the `:loss_scale` of `ExBurn.fit/3`.

  A gradient below `6.0e-8` is 0 in `f16`. So the loss is multiplied by a factor before the way back, and each gradient is divided
  by it, in single precision, before clipping and the optimizer (one that is a pair of functions takes gradients in the
  parameters' type). Losses that are reported are without it.

    * a number above 0 that `f32` can hold - the factor throughout. Take a power of two, which changes no digit
    * `:dynamic` - the factor begins with `65536.0`. A gradient that is not finite halves it, and its batch changes nothing, as if it
      had not been there, but for its loss in the means. After `2000` steps in a row it is doubled, up to `16777216.0`. At a
      factor of 1 or less a gradient that is not finite is one as without scaling: see `:nan`
    * `{:dynamic, options}` - with other numbers: `:initial`, and `:interval`, how many steps in a row double the factor

  The parameters had better be of `f32`, as those of Axon models are whose policy is
  `Axon.MixedPrecision.create_policy(compute: {:f, 16})`: a small step changes no digit of a parameter of 16 bits. Types with the range of
  `f32`, such as `bf16`, need no scaling.

  Source: Micikevicius et al., Mixed Precision Training, arXiv:1710.03740, section 3.2. Numbers and rule are those of PyTorch's
  `GradScaler`.
  """

  alias ExBurn.Options

  @type t :: number() | :dynamic | {:dynamic, keyword()}

  @typedoc "The factor, steps in a row since it has changed, and how many double it, `nil` for one that stays."
  @type state :: {float(), non_neg_integer(), pos_integer() | nil}

  @defaults [initial: 65_536.0, interval: 2000]

  # Programs take the factor as a number of f32, in which less is coarse or 0, and one over it infinite.
  @least 1.1754943508222875e-38
  @largest 16_777_216

  @doc """
  Whether a value is a choice of it.

  ## Examples

      iex> Enum.map([1024, :dynamic, {:dynamic, initial: 8.0}, 0, {:dynamic, interval: 0}], &ExBurn.Training.LossScale.valid?/1)
      [true, true, true, false, false]
      iex> Enum.map([1.0e-37, 1.0e-39], &ExBurn.Training.LossScale.valid?/1)
      [true, false]

  """
  @spec valid?(term()) :: boolean()
  def valid?(:dynamic), do: true
  def valid?({:dynamic, opts}), do: Keyword.keyword?(opts) and Enum.all?(opts, &option?/1)
  def valid?(number), do: factor?(number)

  defp option?({:initial, value}), do: factor?(value)
  defp option?({:interval, value}), do: Options.positive?(value)
  defp option?(_other), do: false

  defp factor?(value), do: is_number(value) and value >= @least and value <= @largest

  @doc """
  The state that a run begins with, `nil` without scaling.

  ## Examples

      iex> ExBurn.Training.LossScale.start({:dynamic, interval: 100})
      {65536.0, 0, 100}
      iex> ExBurn.Training.LossScale.start(1024)
      {1024.0, 0, nil}

  """
  @spec start(t() | nil) :: state() | nil
  def start(nil), do: nil
  def start(:dynamic), do: start({:dynamic, []})

  def start({:dynamic, opts}) do
    opts = Options.validate!(:fit, opts, @defaults)
    {opts[:initial] * 1.0, 0, opts[:interval]}
  end

  def start(number), do: {number * 1.0, 0, nil}
end
