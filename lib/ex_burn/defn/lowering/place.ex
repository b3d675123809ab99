defmodule ExBurn.Defn.Lowering.Place do
  @moduledoc """
  A place in the tree of a scope's `cond`s: the scope itself, or the inside of one `cond`, which lies in another place.

  Chained `cond`s lie within each other as deep as the chain is long, so each place also knows one further out, chosen as in a
  skew-binary list: the way from any place to any one around it takes logarithmically many steps.
  """

  @enforce_keys [:cond, :depth]
  defstruct [:cond, :depth, :around, :far]

  @type t :: %__MODULE__{
          cond: term(),
          depth: non_neg_integer(),
          around: t() | nil,
          far: t() | nil
        }

  @doc """
  The scope itself.
  """
  @spec outermost() :: t()
  def outermost, do: %__MODULE__{cond: nil, depth: 0}

  @doc """
  The inside of a `cond` that is computed at `place`.
  """
  @spec inside(t(), term()) :: t()
  def inside(%__MODULE__{} = place, cond_id),
    do: %__MODULE__{cond: cond_id, depth: place.depth + 1, around: place, far: far(place)}

  # Two ways of one length become one of twice that and a step.
  defp far(%{far: %{far: %{} = further} = far} = place)
       when place.depth - far.depth == far.depth - further.depth,
       do: further

  defp far(place), do: place

  @doc """
  The innermost place around two.

  ## Examples

      iex> alias ExBurn.Defn.Lowering.Place
      iex> outer = Place.inside(Place.outermost(), :outer)
      iex> inner = outer |> Place.inside(:middle) |> Place.inside(:inner)
      iex> Place.common(inner, Place.inside(outer, :other)).cond
      :outer

  """
  @spec common(t(), t()) :: t()
  def common(%{cond: same} = place, %{cond: same}), do: place
  def common(%{depth: 0} = outermost, _place), do: outermost
  def common(_place, %{depth: 0} = outermost), do: outermost

  def common(one, other) do
    depth = min(one.depth, other.depth)
    meet(outwards(one, depth), outwards(other, depth))
  end

  defp outwards(%{depth: depth} = place, depth), do: place

  defp outwards(%{far: far} = place, depth) when far.depth < depth,
    do: outwards(place.around, depth)

  defp outwards(place, depth), do: outwards(place.far, depth)

  # Of two places of one depth, those far out have one depth too.
  defp meet(%{cond: same} = place, %{cond: same}), do: place

  defp meet(one, other) do
    if one.far.cond == other.far.cond,
      do: meet(one.around, other.around),
      else: meet(one.far, other.far)
  end
end
