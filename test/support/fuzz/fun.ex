defmodule ExBurn.Fuzz.Fun do
  @moduledoc """
  A function among the arguments of a step: the numbers of its parameters, its steps and the numbers of its results.

  Bodies of branches and gradients see all values around them; those of loops and folds see the program's inputs that are
  captured, as `defn` has it.
  """

  defstruct params: [], steps: [], results: []
end
