defmodule ExBurn.Training.Optimizer do
  @moduledoc """
  Optimizers: how a gradient changes the parameters. The engine applies them; here they are chosen and configured.

  An optimizer is given as its name or as `{name, options}`. The learning rate `lr` is an option of `ExBurn.compile/2`.
  With `p` a parameter, `g` its gradient, `n` the number of the step from 1, and `m`, `v`, `t` what is remembered, from 0:

  | optimizer | what is added to a parameter | options and defaults |
  |---|---|---|
  | `:sgd` | `-lr * g`; with momentum `t = momentum * t + g` and `-lr * t`, or with Nesterov `-lr * (momentum * t + g)` | `momentum: nil`, `nesterov: false` |
  | `:adam` | `m = b1 * m + (1 - b1) * g`, `v = b2 * v + (1 - b2) * g^2`, then `-lr * a` with `a = m^ / (sqrt(v^ + eps_root) + eps)`, `m^ = m / (1 - b1^n)`, `v^ = v / (1 - b2^n)` | `b1: 0.9`, `b2: 0.999`, `eps: 1.0e-8`, `eps_root: 1.0e-15` |
  | `:adamw` | `-lr * (a + decay * p)` | as `:adam`, and `decay: 0.01` |
  | `:lamb` | `-lr * u * \|p\| / \|u\|` with `u = a + decay * p` and Euclidean norms of the whole tensor, at least `min_norm`; `-lr * u` if one is 0 | as `:adam`, and `decay: 0.0`, `min_norm: 0.0` |
  | `:rmsprop` | `v = decay * v + (1 - decay) * g^2`, then `u = -lr * g / sqrt(v + eps)`; centered, with `m = decay * m + (1 - decay) * g`, `v - m^2` for `v` below the root; with momentum `t = momentum * t + u` and `t`, or with Nesterov `momentum * t + u` | `decay: 0.9`, `eps: 1.0e-8`, `initial_scale: 0.0` (of `v`), `centered: false`, `momentum: nil`, `nesterov: false` |
  | `:adagrad` | `v = v + g^2`, then `-lr * g / sqrt(v + eps)`, or 0 where `v` is | `eps: 1.0e-7`, `initial_accumulator_value: 0.1` (of `v`) |
  | `:lion` | `-lr * (sign(b1 * m + (1 - b1) * g) + decay * p)`, then `m = b2 * m + (1 - b2) * g` | `b1: 0.9`, `b2: 0.99`, `decay: 0.0` |
  | `:muon` | of tensors of two or more axes, as matrices with as many columns as the last axis is long: `t = momentum * t + (1 - momentum) * g`, then `-lr * (0.2 * sqrt(max(rows, columns)) * o + decay * p)` where `o` is nearly the orthogonal matrix closest to `t`, or with Nesterov to `momentum * t + (1 - momentum) * g`, by Newton-Schulz iterations; vectors go as under `:adamw` | `momentum: 0.95`, `nesterov: true`, `steps: 5`, `eps: 1.0e-7`, `decay: 0.0`, and of vectors `b1: 0.9`, `b2: 0.999` |

  Formulas and defaults are those of `Polaris.Optimizers`, which has no decay by default for `:adamw`, and neither `:lion`
  nor `:muon`. Moments are kept in `f32`, and in `f64` of `f64` parameters.

  A pair `{init, update}`, as the functions of `Polaris.Optimizers` and `Polaris.Updates` answer it, is an optimizer too. It
  is traced once and runs as one program. It brings its own learning rate, so that of the model and an `:lr_schedule` do
  not apply.

  Sources: Kingma and Ba, Adam, arXiv:1412.6980. Loshchilov and Hutter, Decoupled Weight Decay Regularization,
  arXiv:1711.05101. You et al., Large Batch Optimization for Deep Learning, arXiv:1904.00962. Tieleman and Hinton, Neural
  Networks for Machine Learning, lecture 6.5. Duchi, Hazan and Singer, Adaptive Subgradient Methods, JMLR 12 (2011). Chen et
  al., Symbolic Discovery of Optimization Algorithms, arXiv:2302.06675. Jordan et al., Muon (2024); Liu et al., Muon is
  Scalable for LLM Training, arXiv:2502.16982, equation 4, for the length of its steps.
  """

  alias ExBurn.Options

  @adam [b1: 0.9, b2: 0.999, eps: 1.0e-8, eps_root: 1.0e-15]

  @options [
    adagrad: [eps: 1.0e-7, initial_accumulator_value: 0.1],
    adam: @adam,
    adamw: @adam ++ [decay: 0.01],
    lamb: @adam ++ [decay: 0.0, min_norm: 0.0],
    lion: [b1: 0.9, b2: 0.99, decay: 0.0],
    muon: [momentum: 0.95, nesterov: true, steps: 5, eps: 1.0e-7, decay: 0.0, b1: 0.9, b2: 0.999],
    rmsprop: [
      decay: 0.9,
      eps: 1.0e-8,
      initial_scale: 0.0,
      centered: false,
      momentum: nil,
      nesterov: false
    ],
    sgd: [momentum: nil, nesterov: false]
  ]

  @names Keyword.keys(@options)

  # Optimizers whose option `:decay` is a decay of weights.
  @decaying [:adamw, :lamb, :lion, :muon]

  @type t :: atom() | {atom(), keyword()} | {function(), function()}

  @doc """
  Names of the optimizers.

  ## Examples

      iex> ExBurn.Training.Optimizer.names()
      [:adagrad, :adam, :adamw, :lamb, :lion, :muon, :rmsprop, :sgd]

  """
  @spec names() :: [atom()]
  def names, do: @names

  @doc """
  Whether the optimizer is a pair of functions.

  ## Examples

      iex> ExBurn.Training.Optimizer.pair?(:adam)
      false

  """
  @spec pair?(term()) :: boolean()
  def pair?({init, update}), do: is_function(init, 1) and is_function(update, 3)
  def pair?(_other), do: false

  @doc """
  The optimizer with all its options, as the engine reads it, or `nil` for a pair of functions.

  ## Examples

      iex> ExBurn.Training.Optimizer.fetch!({:sgd, momentum: 0.9})
      {:sgd, %{momentum: 0.9, nesterov: false}}
      iex> ExBurn.Training.Optimizer.fetch!(:adm)
      ** (ExBurn.Error) compile: optimizer: is :adm, expected one of :adagrad, :adam, :adamw, :lamb, :lion, :muon, :rmsprop, :sgd, alone or as {name, options}, or a pair {init, update}

      iex> ExBurn.Training.Optimizer.fetch!({:sgd, b1: 0.9})
      ** (ExBurn.Error) compile: optimizer: is {:sgd, [b1: 0.9]}, expected options of :momentum, :nesterov

  """
  @spec fetch!(term(), atom()) :: {atom(), map()} | nil
  def fetch!(optimizer, op \\ :compile)
  def fetch!(name, op) when name in @names, do: fetch!({name, []}, op)

  def fetch!({name, opts} = optimizer, op) when name in @names do
    defaults = @options[name]
    known? = Keyword.keyword?(opts) and Keyword.keys(opts) -- Keyword.keys(defaults) == []
    expected = "options of #{Options.list(Keyword.keys(defaults))}"
    Options.check!(known?, op, :optimizer, optimizer, expected)
    options = defaults |> Keyword.merge(opts) |> Map.new(&option!(&1, op))
    nesterov? = match?(%{nesterov: true, momentum: nil}, options)
    Options.check!(not nesterov?, op, :nesterov, true, "a momentum: beside it")
    {name, options}
  end

  def fetch!(other, op) do
    expected =
      "one of #{Options.list(@names)}, alone or as {name, options}, or a pair {init, update}"

    Options.check!(pair?(other), op, :optimizer, other, expected)
    nil
  end

  @doc """
  The optimizer with a decay of weights of its own, `{:ok, optimizer}`, or `:none` when it has no such option.

  ## Examples

      iex> {:ok, {:lion, options}} = ExBurn.Training.Optimizer.put_decay({:lion, %{decay: 0.0}}, 0.1)
      iex> options
      %{decay: 0.1}
      iex> ExBurn.Training.Optimizer.put_decay({:sgd, %{}}, 0.1)
      :none

  """
  @spec put_decay({atom(), map()} | nil, number()) :: {:ok, {atom(), map()}} | :none
  def put_decay({name, options}, decay) when name in @decaying,
    do: {:ok, {name, %{options | decay: decay * 1.0}}}

  def put_decay(_other, _decay), do: :none

  defp option!({:momentum, nil}, _op), do: {:momentum, nil}

  defp option!({name, value}, op) when name in [:nesterov, :centered] do
    Options.check!(is_boolean(value), op, name, value, "true or false")
    {name, value}
  end

  defp option!({:steps, value}, op) do
    valid? = is_integer(value) and value in 1..100
    Options.check!(valid?, op, :steps, value, "an integer from 1 to 100")
    {:steps, value}
  end

  defp option!({name, value}, op) when name in [:b1, :b2, :momentum] do
    valid? = is_number(value) and value >= 0 and value < 1
    Options.check!(valid?, op, name, value, "a number of at least 0 and below 1")
    {name, value * 1.0}
  end

  defp option!({name, value}, op) do
    Options.check!(Options.float?(value), op, name, value, Options.float(value))
    {name, value * 1.0}
  end
end
