defmodule ExBurn.GPU.DoctestTest do
  @moduledoc """
  The examples of Nx's own documentation on a GPU, with `EX_BURN_TEST_DEVICE=gpu`.

  Left out are those that `ExBurn.NxDoctests.other_digits/0` names; they are compared with the CPU in `ExBurn.GPUTest`.
  """

  use ExUnit.Case, async: true

  import ExBurn.TestDevice

  # Before the examples, which take the tags that are there.
  @moduletag skip: skip()

  use ExBurn.NxDoctests, except: ExBurn.NxDoctests.other_digits()

  setup do
    Nx.default_backend({ExBurn.Backend, device: gpu()})
    Nx.Defn.default_options(compiler: ExBurn.Defn.Compiler)
    :ok
  end
end
