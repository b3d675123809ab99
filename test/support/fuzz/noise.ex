defmodule ExBurn.Fuzz.Noise do
  @moduledoc """
  Tensors with a rounding error in each element: one unit in the last place up or down, at random.

  Zeros and numbers that are not finite stay as they are, and so do integers.
  """

  alias ExBurn.Property.Number
  alias Nx.Tensor, as: T

  # The bits of the exponent: where all are set the number is not finite.
  @exponents %{
    {:f, 64} => 0x7FF0000000000000,
    {:f, 32} => 0x7F800000,
    {:f, 16} => 0x7C00,
    {:bf, 16} => 0x7F80,
    {:f, 8} => 0x7C,
    {:f8_e4m3fn, 8} => 0x7F
  }

  @doc """
  The tensor of `Nx.BinaryBackend` with noise.
  """
  def add(%T{type: {kind, _}} = t) when kind in [:u, :s], do: t

  def add(%T{type: {:c, size}, data: %Nx.BinaryBackend{state: bytes} = data} = t) do
    half = div(size, 2)

    bytes =
      for <<number::binary-size(div(size, 8)) <- bytes>>, into: <<>>, do: complex(number, half)

    %{t | data: %{data | state: bytes}}
  end

  def add(%T{type: {_, size} = type, data: %Nx.BinaryBackend{state: bytes} = data} = t) do
    infinite = Map.fetch!(@exponents, type)

    bytes =
      for <<n::size(size)-native <- bytes>>,
        into: <<>>,
        do: <<nudge(n, infinite, size)::size(size)-native>>

    %{t | data: %{data | state: bytes}}
  end

  @doc """
  The tensor of `Nx.BinaryBackend` with zeros of any sign.
  """
  def zeros(%T{type: {kind, _}} = t) when kind in [:u, :s], do: t

  def zeros(%T{type: {kind, size}, data: %Nx.BinaryBackend{state: bytes} = data} = t) do
    size = if kind == :c, do: div(size, 2), else: size

    bytes =
      for <<n::size(size)-native <- bytes>>,
        into: <<>>,
        do: <<sign_zero(n, size)::size(size)-native>>

    %{t | data: %{data | state: bytes}}
  end

  defp sign_zero(n, size) do
    negative = Bitwise.bsl(1, size - 1)
    if n in [0, negative], do: Enum.random([0, negative]), else: n
  end

  defp nudge(n, infinite, size) do
    magnitude = Bitwise.band(n, Bitwise.bsl(1, size - 1) - 1)
    moved = magnitude + sign()

    if magnitude == 0 or moved == 0 or magnitude >= infinite or moved >= infinite,
      do: n,
      else: n - magnitude + moved
  end

  # An error of a part is small beside the whole number.
  defp complex(number, half) do
    case number do
      <<re::float-size(half)-native, im::float-size(half)-native>> ->
        step = 2 * Number.eps({:f, half}) * max(abs(re), abs(im))

        <<re + sign() * step::float-size(half)-native,
          im + sign() * step::float-size(half)-native>>

      _not_finite ->
        number
    end
  end

  defp sign, do: 2 * :rand.uniform(2) - 3
end
