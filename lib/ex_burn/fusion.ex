defmodule ExBurn.Fusion do
  @moduledoc """
  What the compiler recognises in a function and runs as one.

  Elementwise operations that read each other's results, and folds of rows between them, are fused: they become one
  operation, which passes over the memory once. `ExBurn.Fusion` names what such an operation computes. `found/3` tells
  what there is in a function, and `ExBurn.explain/3` shows the names in the program.

  All patterns are on. `fusion: [softmax: false]` switches one off, as an option of `ExBurn.Defn.Compiler` for one function
  or by `config :ex_burn, fusion: [softmax: false]` for all that say nothing else. Its operations then run one by one, or,
  where a fused operation is a part of the pattern only, next to the rest of it. `fusion: false` fuses nothing. What a
  function computes stays the same but for rounding.
  """

  alias ExBurn.Defn.{Compiler, Passes}

  @patterns [
    attention: "a product of matrices, a softmax of its rows, and a product with the weights",
    cross_entropy:
      "logarithms of probabilities at one-hot or integer targets, or of sums of exponentials less the targets' logits",
    softmax: "exponentials of a row by their sum",
    log_softmax: "the logarithm of a softmax",
    layer_norm: "a row less its mean, by its standard deviation, however that is written",
    rms_norm: "a row by the root of its mean square",
    linear: "a product of matrices with a bias, and what is done to each element then",
    conv: "a convolution with a bias or a normalisation, and what is done to each element then",
    gelu: "the Gaussian error linear unit, by erf, tanh or the sigmoid that stands for tanh",
    silu: "a value by its sigmoid, or by that of a multiple of it",
    sigmoid: "a sigmoid after other operations",
    tanh: "a tanh after other operations",
    relu: "the larger of a value and zero, or that up to six, after other operations",
    sgd: "a parameter less a part of its gradient",
    adam: "a step of Adam with its moments",
    adamw: "a step of Adam with weight decay",
    rmsprop: "a parameter less a gradient by the root of the mean of its squares",
    adagrad: "a parameter less a gradient by the root of the sum of its squares",
    embedding: "rows of a table by their numbers",
    elementwise: "any other chain of elementwise operations"
  ]

  @names Keyword.keys(@patterns)

  @doc """
  The patterns, each with a sentence on what it is.

  ## Examples

      iex> ExBurn.Fusion.patterns()[:softmax]
      "exponentials of a row by their sum"

  """
  @spec patterns() :: [{atom(), String.t()}]
  def patterns, do: @patterns

  @doc """
  The patterns found in a function for arguments of these types: how often each, and the shapes of the results.

  The options are those of `ExBurn.Defn.Compiler`.

  ## Examples

      iex> softmax = fn x ->
      ...>   exp = Nx.exp(Nx.subtract(x, Nx.reduce_max(x, axes: [1], keep_axes: true)))
      ...>   Nx.divide(exp, Nx.sum(exp, axes: [1], keep_axes: true))
      ...> end
      iex> ExBurn.Fusion.found(softmax, [Nx.template({4, 10}, :f32)])
      [%{pattern: :softmax, count: 1, shapes: [{4, 10}]}]
      iex> ExBurn.Fusion.found(softmax, [Nx.template({4, 10}, :f32)], fusion: [softmax: false])
      []

  """
  @spec found(function(), [Nx.Container.t()], keyword()) ::
          [%{pattern: atom(), count: pos_integer(), shapes: [tuple()]}]
  def found(fun, args, opts \\ []) do
    by_name = fun |> Compiler.found(args, opts) |> Enum.group_by(&elem(&1, 0), &elem(&1, 1))
    off = Passes.disabled(opts)

    for name <- @names,
        "patterns" not in off and switch(name) not in off,
        types = by_name[Atom.to_string(name)] do
      shapes = Enum.map(types, fn {_type, shape} -> List.to_tuple(shape) end)
      %{pattern: name, count: length(types), shapes: Enum.uniq(shapes)}
    end
  end

  @doc """
  The names, as the engine takes them, of the patterns that are off in these lists, of which the last counts.

  ## Examples

      iex> ExBurn.Fusion.disabled([[softmax: false, gelu: false], [gelu: true]])
      ["pattern:softmax"]

      iex> ExBurn.Fusion.disabled([[magic: false]])
      ** (ArgumentError) unknown pattern :magic; the patterns are :attention, :cross_entropy, :softmax, :log_softmax, \
  :layer_norm, :rms_norm, :linear, :conv, :gelu, :silu, :sigmoid, :tanh, :relu, :sgd, :adam, :adamw, :rmsprop, \
  :adagrad, :embedding, :elementwise

  """
  @spec disabled([keyword()]) :: [String.t()]
  def disabled(lists) do
    lists
    |> Enum.map(&validate!/1)
    |> Enum.reduce([], &Keyword.merge(&2, &1))
    |> Enum.reject(fn {_name, on?} -> on? end)
    |> Enum.map(fn {name, _on?} -> switch(name) end)
  end

  defp switch(name), do: "pattern:#{name}"

  defp validate!(patterns) do
    if not Keyword.keyword?(patterns) do
      raise ArgumentError,
            "fusion: is #{inspect(patterns)}, expected true, false or a keyword list such as [softmax: false]"
    end

    Enum.each(patterns, &validate_pattern!/1)
    patterns
  end

  defp validate_pattern!({name, on?}) when name in @names and is_boolean(on?), do: :ok

  defp validate_pattern!({name, on?}) when name in @names,
    do:
      raise(ArgumentError, "pattern #{inspect(name)} is #{inspect(on?)}, expected true or false")

  defp validate_pattern!({name, _on?}) do
    known = Enum.map_join(@names, ", ", &inspect/1)
    raise ArgumentError, "unknown pattern #{inspect(name)}; the patterns are #{known}"
  end
end
