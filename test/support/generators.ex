defmodule ExBurn.Generators do
  @moduledoc """
  Random tensors for property tests, on `Nx.BinaryBackend`.
  """

  import StreamData

  @integers ~w(u8 u16 u32 u64 s8 s16 s32 s64)a

  @doc """
  A type that both backends compute in.
  """
  def type, do: member_of(@integers ++ [:f32, :f64])

  @doc """
  Lengths of one to three axes.
  """
  def shape, do: integer(1..5) |> list_of(min_length: 1, max_length: 3) |> map(&List.to_tuple/1)

  @doc """
  A tensor of `shape` and `type` with the numbers where functions have corners: extremes, zeros of both signs, infinities,
  NaN, and many ties.
  """
  def tensor(shape, type), do: filled(shape, type, corners(type))

  @doc """
  A tensor of small numbers, whose sums are exact in every float type.
  """
  def small_tensor(shape, type), do: filled(shape, type, small(type))

  @doc """
  A scalar tensor.
  """
  def scalar(type), do: tensor({}, type)

  @doc """
  A tensor of indices below `limit`.
  """
  def indices(shape, limit) do
    bind(member_of([:u8, :s32, :s64, :u64]), &filled(shape, &1, integer(0..(limit - 1))))
  end

  defp filled(shape, type, numbers) do
    numbers
    |> list_of(length: Tuple.product(shape))
    |> map(&(&1 |> Nx.tensor(type: type, backend: Nx.BinaryBackend) |> Nx.reshape(shape)))
  end

  defp corners(type) when type in @integers do
    [low, high] =
      for bound <- [:min, :max], do: Nx.Constants |> apply(bound, [type]) |> Nx.to_number()

    frequency([{1, member_of([low, low + 1, high - 1, high])}, {2, small(type)}])
  end

  defp corners(_float),
    do: member_of([:nan, :infinity, :neg_infinity, 0.0, -0.0, 1.0, -1.0, 1.5, -2.0, 2.0, 3.0])

  defp small(type) when type in ~w(u8 u16 u32 u64)a, do: integer(0..3)
  defp small(type) when type in @integers, do: integer(-3..3)
  defp small(_float), do: map(integer(-6..6), &(&1 / 2))
end
