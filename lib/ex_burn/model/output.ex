defmodule ExBurn.Model.Output do
  @moduledoc """
  How the results of a program are arranged: `{:tensor, position}`, `{:tuple, outputs}` or `{:map, [{key, output}]}`.

  A compiled model answers what the Axon model answers. In a file the keys of maps are strings, and a loaded model answers
  maps with strings as keys, since a file must not make atoms.
  """

  alias Nx.Tensor, as: T

  @type t ::
          {:tensor, non_neg_integer()} | {:tuple, [t()]} | {:map, [{atom() | String.t(), t()}]}

  @doc """
  The arrangement of a container, with its tensors in order.

  ## Examples

      iex> ExBurn.Model.Output.describe({:x, %{b: :y, a: :z}}, &is_atom/1)
      {{:tuple, [{:tensor, 0}, {:map, [a: {:tensor, 1}, b: {:tensor, 2}]}]}, [:x, :z, :y]}

  """
  @spec describe(term(), (term() -> boolean())) :: {t(), [term()]}
  def describe(container, leaf? \\ &match?(%T{}, &1)) do
    {output, leaves} = walk(container, [], leaf?)
    {output, Enum.reverse(leaves)}
  end

  defp walk(container, leaves, leaf?) do
    cond do
      leaf?.(container) ->
        {{:tensor, length(leaves)}, [container | leaves]}

      is_tuple(container) ->
        {parts, leaves} =
          container |> Tuple.to_list() |> Enum.map_reduce(leaves, &walk(&1, &2, leaf?))

        {{:tuple, parts}, leaves}

      is_map(container) and not is_struct(container) ->
        {parts, leaves} =
          container
          |> Enum.sort()
          |> Enum.map_reduce(leaves, fn {key, value}, leaves ->
            {part, leaves} = walk(value, leaves, leaf?)
            {{key, part}, leaves}
          end)

        {{:map, parts}, leaves}

      true ->
        raise ExBurn.Error,
          op: :compile,
          reason:
            "the model answers #{ExBurn.Options.short(container)}, expected tensors in tuples and maps"
    end
  end

  @doc """
  The container with `leaves`, a tuple, in their places.

  ## Examples

      iex> ExBurn.Model.Output.fill({:map, [{"a", {:tensor, 1}}, {"b", {:tensor, 0}}]}, {:x, :y})
      %{"a" => :y, "b" => :x}

  """
  @spec fill(t(), tuple()) :: term()
  def fill({:tensor, position}, leaves), do: elem(leaves, position)
  def fill({:tuple, parts}, leaves), do: parts |> Enum.map(&fill(&1, leaves)) |> List.to_tuple()

  def fill({:map, parts}, leaves),
    do: Map.new(parts, fn {key, part} -> {key, fill(part, leaves)} end)

  @doc """
  With strings as keys of maps.

  ## Examples

      iex> ExBurn.Model.Output.with_text_keys({:map, [mean: {:tensor, 0}]})
      {:map, [{"mean", {:tensor, 0}}]}

  """
  @spec with_text_keys(t()) :: t()
  def with_text_keys({:tensor, position}), do: {:tensor, position}
  def with_text_keys({:tuple, parts}), do: {:tuple, Enum.map(parts, &with_text_keys/1)}

  def with_text_keys({:map, parts}),
    do: {:map, Enum.map(parts, fn {key, part} -> {to_string(key), with_text_keys(part)} end)}

  @doc """
  The arrangement that a file tells of, which the native part has checked.

  ## Examples

      iex> ExBurn.Model.Output.from_plain(%{"tuple" => [%{"tensor" => 0}, %{"map" => [["x", %{"tensor" => 1}]]}]})
      {:tuple, [{:tensor, 0}, {:map, [{"x", {:tensor, 1}}]}]}

  """
  @spec from_plain(map()) :: t()
  def from_plain(%{"tensor" => position}), do: {:tensor, position}
  def from_plain(%{"tuple" => parts}), do: {:tuple, Enum.map(parts, &from_plain/1)}

  def from_plain(%{"map" => parts}),
    do: {:map, Enum.map(parts, fn [key, part] -> {key, from_plain(part)} end)}

  @doc """
  The positions of its tensors.

  ## Examples

      iex> ExBurn.Model.Output.positions({:tuple, [{:tensor, 0}, {:tensor, 1}]})
      [0, 1]

  """
  @spec positions(t()) :: [non_neg_integer()]
  def positions({:tensor, position}), do: [position]
  def positions({:tuple, parts}), do: Enum.flat_map(parts, &positions/1)
  def positions({:map, parts}), do: Enum.flat_map(parts, &positions(elem(&1, 1)))
end
