defmodule ExBurn.Fuzz.Report do
  @moduledoc """
  Generates a program, checks it, and reports a fault as the smallest program that shows it.
  """

  alias ExBurn.Fuzz.{Check, Code, Generator, Program, Shrink}

  @doc """
  The report of a program that grows from `genes`, or `nil` if all is right, under each of `variants`: options of
  `ExBurn.Defn.Compiler`.
  """
  def of(genes, variants) do
    {program, rights} = Generator.program(genes)

    Enum.find_value(variants, fn opts ->
      fault = Check.fault(program, rights, opts)
      fault && text(program, fault, opts)
    end)
  end

  defp text(program, {kind, text}, opts) do
    small = Shrink.smallest(program, kind, opts)
    {_, small_text} = Check.fault(small, opts) || {kind, text}

    """
    #{small_text}

    of #{Program.size(program)} steps these are left:

    #{Code.script(small, opts)}
    """
  end

  @doc """
  Variants for a seed: all passes, and one of them switched off, or each of them.
  """
  def variants(seed, mode)
  def variants(_seed, :each), do: [[] | Enum.map(passes(), &[passes: [{&1, false}]])]

  def variants(seed, :all),
    do: [[], [passes: [{Enum.at(passes(), rem(seed, length(passes()))), false}]]]

  @doc """
  The passes of the compiler.
  """
  defdelegate passes, to: ExBurn.Defn.Passes, as: :names
end
