defmodule ExBurn.GPU.DoctestTest do
  @moduledoc """
  The examples of Nx's own documentation on the first GPU, with `EX_BURN_TEST_DEVICE=gpu`.

  Left out are those that `ExBurn.NxDoctests.other_digits/0` names; they are compared with the CPU in `ExBurn.GPUTest`.
  """

  use ExUnit.Case, async: true

  # Before the examples, which take the tags that are there.
  if System.get_env("EX_BURN_TEST_DEVICE") != "gpu",
    do: @moduletag(skip: "runs with EX_BURN_TEST_DEVICE=gpu")

  use ExBurn.NxDoctests, except: ExBurn.NxDoctests.other_digits()

  setup do
    Nx.default_backend({ExBurn.Backend, device: :gpu})
    Nx.Defn.default_options(compiler: ExBurn.Defn.Compiler)
    :ok
  end
end
