defmodule ExBurn.Defn.Passes do
  @moduledoc """
  The passes over a program that make it faster, and which of them to leave out.

  All are on. `passes: [cse: false]` leaves one out, as an option of `ExBurn.Defn.Compiler` for one function or by
  `config :ex_burn, passes: [cse: false]` for all that say nothing else. `fusion: false` is short for
  `passes: [fusion: false]`, and `fusion: [softmax: false]` leaves out one of the patterns of `ExBurn.Fusion`.

  The configuration is read when a function is compiled; `ExBurn.Defn.Cache.clear/0` makes that happen again.

  What a program computes does not depend on the passes, but for the last place of sums that `:products` and `:sequences` put
  together and `:rows` takes apart. Leaving one out is for looking into things.

  `:recording` is no pass: a GPU that runs a small program for the third time records its kernels, and is asked for all of them at
  once from then on. What is recorded works on memory of its own, into which a run copies its inputs.
  """

  alias ExBurn.Fusion

  @names [
    :constant_folding,
    :cse,
    :dead_code,
    :algebraic,
    :layout,
    :fusion,
    :patterns,
    :hoisting,
    :unrolling,
    :sequences,
    :products,
    :rows,
    :liveness,
    :recording
  ]

  @doc """
  The names of all passes.
  """
  @spec names() :: [atom()]
  def names, do: @names

  @doc """
  The names of the passes and patterns that the options and the configuration leave out, as the engine takes them.

  ## Examples

      iex> ExBurn.Defn.Passes.disabled(passes: [cse: false, layout: true], fusion: false)
      ["cse", "fusion"]

      iex> ExBurn.Defn.Passes.disabled(fusion: [softmax: false])
      ["pattern:softmax"]

      iex> ExBurn.Defn.Passes.disabled(passes: [magic: false])
      ** (ArgumentError) unknown pass :magic; the passes are :constant_folding, :cse, :dead_code, :algebraic, :layout, \
  :fusion, :patterns, :hoisting, :unrolling, :sequences, :products, :rows, :liveness, :recording

  """
  @spec disabled(keyword()) :: [String.t()]
  def disabled(opts) do
    fusion = [Application.get_env(:ex_burn, :fusion, []), Keyword.get(opts, :fusion, [])]
    Enum.sort(passes_off(opts, fusion) ++ Fusion.disabled(Enum.filter(fusion, &is_list/1)))
  end

  defp passes_off(opts, fusion) do
    [configured, given] =
      for value <- fusion, do: if(is_list(value), do: [], else: [fusion: value])

    passes = [Application.get_env(:ex_burn, :passes, []), Keyword.get(opts, :passes, [])]

    Enum.zip_with(passes, [configured, given], &Keyword.merge(validate!(&1), validate!(&2)))
    |> Enum.reduce(&Keyword.merge(&2, &1))
    |> Enum.reject(fn {_name, on?} -> on? end)
    |> Enum.map(fn {name, _on?} -> Atom.to_string(name) end)
  end

  defp validate!(passes) do
    if not Keyword.keyword?(passes) do
      raise ArgumentError,
            "passes: is #{inspect(passes)}, expected a keyword list such as [fusion: false]"
    end

    Enum.each(passes, &validate_pass!/1)
    passes
  end

  defp validate_pass!({name, on?}) when name in @names and is_boolean(on?), do: :ok

  defp validate_pass!({name, on?}) when name in @names,
    do: raise(ArgumentError, "pass #{inspect(name)} is #{inspect(on?)}, expected true or false")

  defp validate_pass!({name, _on?}) do
    known = Enum.map_join(@names, ", ", &inspect/1)
    raise ArgumentError, "unknown pass #{inspect(name)}; the passes are #{known}"
  end
end
