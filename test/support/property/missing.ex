defmodule ExBurn.Property.Missing do
  @moduledoc """
  What the backend does not do yet. Both lists are to be empty.
  """

  @doc """
  Types that no operand has.
  """
  def types, do: []

  @doc """
  Functions whose properties are skipped.
  """
  def functions, do: []
end
