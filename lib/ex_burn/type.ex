defmodule ExBurn.Type do
  @moduledoc """
  Element types and shapes as the engine writes them.

  The engine names types by one atom (`:f32`, `:u8`, `:bf16`, `:f8_e4m3fn`, `:c64` …) where Nx uses a pair, and writes
  shapes as lists.
  """

  @names for {kind, sizes} <- [
               u: [2, 4, 8, 16, 32, 64],
               s: [2, 4, 8, 16, 32, 64],
               f: [8, 16, 32, 64],
               c: [64, 128]
             ],
             size <- sizes,
             do: {{kind, size}, :"#{kind}#{size}"}

  @table @names ++ [{{:bf, 16}, :bf16}, {{:f8_e4m3fn, 8}, :f8_e4m3fn}]

  @doc """
  All types.

  ## Examples

      iex> length(ExBurn.Type.all())
      20

  """
  @spec all() :: [Nx.Type.t()]
  def all, do: unquote(Enum.map(@table, &elem(&1, 0)))

  @doc """
  The engine's name of an Nx type.

  ## Examples

      iex> ExBurn.Type.name({:bf, 16})
      :bf16

  """
  @spec name(Nx.Type.t()) :: atom()
  def name(type)
  for {type, name} <- @table, do: def(name(unquote(type)), do: unquote(name))

  @doc """
  The Nx type of an engine's name, given as an atom or a string.

  ## Examples

      iex> ExBurn.Type.from_name(:u8)
      {:u, 8}
      iex> ExBurn.Type.from_name("f8_e4m3fn")
      {:f8_e4m3fn, 8}

  """
  @spec from_name(atom() | String.t()) :: Nx.Type.t()
  def from_name(name)

  for {type, name} <- @table do
    def from_name(unquote(name)), do: unquote(type)
    def from_name(unquote(Atom.to_string(name))), do: unquote(type)
  end

  @doc """
  Type and shape of a tensor, or of anything with `:type` and `:shape`, as a pair.

  ## Examples

      iex> ExBurn.Type.of(Nx.template({2, 3}, :f32))
      {:f32, [2, 3]}

  """
  @spec of(%{type: Nx.Type.t(), shape: tuple()}) :: {atom(), [non_neg_integer()]}
  def of(%{type: type, shape: shape}), do: {name(type), Tuple.to_list(shape)}
end
