defmodule ExBurn.Training.Optimizer do
  @moduledoc """
  Optimizers: how a gradient changes the parameters. The engine applies them; here they are chosen and configured.

  | optimizer | update of a parameter | options and defaults |
  |---|---|---|
  | `:sgd` | `-lr * g`; with momentum `t = momentum * t + g` and `-lr * t`, or with Nesterov `-lr * (momentum * t + g)` | `momentum: nil`, `nesterov: false` |
  | `:adam` | `m = b1 * m + (1 - b1) * g`, `v = b2 * v + (1 - b2) * g^2`, then `-lr * m^ / (sqrt(v^ + eps_root) + eps)` with `m^ = m / (1 - b1^n)`, `v^ = v / (1 - b2^n)` in step `n` | `b1: 0.9`, `b2: 0.999`, `eps: 1.0e-8`, `eps_root: 1.0e-15` |

  An optimizer is given as its name or as `{name, options}`; formulas and defaults are those of `Polaris.Optimizers`.
  The learning rate `lr` is an option of `ExBurn.compile/2`.

  Source of Adam: Kingma and Ba, Adam: A Method for Stochastic Optimization, arXiv:1412.6980.
  """

  alias ExBurn.Options

  @options [
    adam: [b1: 0.9, b2: 0.999, eps: 1.0e-8, eps_root: 1.0e-15],
    sgd: [momentum: nil, nesterov: false]
  ]

  @names Keyword.keys(@options)

  @type t :: atom() | {atom(), keyword()}

  @doc """
  Names of the optimizers.

  ## Examples

      iex> ExBurn.Training.Optimizer.names()
      [:adam, :sgd]

  """
  @spec names() :: [atom()]
  def names, do: @names

  @doc """
  The optimizer with all its options, as the engine reads it.

  ## Examples

      iex> ExBurn.Training.Optimizer.fetch!({:sgd, momentum: 0.9})
      {:sgd, %{momentum: 0.9, nesterov: false}}
      iex> ExBurn.Training.Optimizer.fetch!(:adm)
      ** (ExBurn.Error) compile: optimizer: is :adm, expected :adam, {:adam, options} with options of :b1, :b2, :eps, :eps_root or :sgd, {:sgd, options} with options of :momentum, :nesterov

  """
  @spec fetch!(term(), atom()) :: {atom(), map()}
  def fetch!(optimizer, op \\ :compile)
  def fetch!(name, op) when name in @names, do: fetch!({name, []}, op)

  def fetch!({name, opts} = optimizer, op) do
    known = if name in @names, do: Keyword.keys(@options[name]), else: []
    valid? = name in @names and Keyword.keyword?(opts) and Keyword.keys(opts) -- known == []
    Options.check!(valid?, op, :optimizer, optimizer, expected())
    {name, @options[name] |> Keyword.merge(opts) |> Map.new(&option!(&1, op))}
  end

  def fetch!(other, op), do: Options.check!(false, op, :optimizer, other, expected())

  defp expected do
    Enum.map_join(@options, " or ", fn {name, opts} ->
      "#{inspect(name)}, {#{inspect(name)}, options} with options of #{Options.list(Keyword.keys(opts))}"
    end)
  end

  defp option!({:momentum, nil}, _op), do: {:momentum, nil}

  defp option!({:nesterov, value}, op) do
    Options.check!(is_boolean(value), op, :nesterov, value, "true or false")
    {:nesterov, value}
  end

  defp option!({name, value}, op) do
    Options.check!(is_number(value) and value >= 0, op, name, value, "a number of at least 0")
    {name, value * 1.0}
  end
end
