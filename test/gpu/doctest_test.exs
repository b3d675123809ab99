defmodule ExBurn.GPU.DoctestTest do
  @moduledoc """
  The examples of Nx's own documentation on the first GPU, with `EX_BURN_TEST_DEVICE=gpu`.

  Left out are those whose printed digits are not what other orders of sums and products give, by units of the last place:
  `least_squares/3`, `matrix_power/2` and `lu/1` multiply factors, of which the last is exact here where the print is not;
  `gumbel/2` and `normal/4` print a logarithm and a mean. They are compared with the CPU in `ExBurn.GPUTest`.
  """

  use ExUnit.Case, async: true

  use ExBurn.NxDoctests,
    except: [
      {Nx.LinAlg, [least_squares: 3, matrix_power: 2, lu: 1]},
      {Nx.Random, [gumbel: 2, normal: 4]}
    ]

  if System.get_env("EX_BURN_TEST_DEVICE") != "gpu",
    do: @moduletag(skip: "runs with EX_BURN_TEST_DEVICE=gpu")

  setup do
    Nx.default_backend({ExBurn.Backend, device: :gpu})
    Nx.Defn.default_options(compiler: ExBurn.Defn.Compiler)
    :ok
  end
end
