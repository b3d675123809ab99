defmodule ExBurn.Nx.DoctestTest do
  @moduledoc """
  The examples of Nx's own documentation, on this backend and through this compiler.

  Left out are these:

    * `Nx.Defn.Composite.flatten_list/2` compares tensors with `===`, and so references of ours
    * `Nx.erf_inv/1` of `f64` prints a polynomial of single precision, right to 8 digits, where ours is right to the last
    * `Nx.erfc/1` and `Nx.log1p/1` of `f64` differ by one unit in the last place, of 3 numbers each in one
  """

  use ExUnit.Case, async: true

  import Nx.Defn.Kernel, only: [assert_keys: 2, keyword!: 2]

  setup do
    Nx.default_backend(ExBurn.Backend)
    Nx.Defn.default_options(compiler: ExBurn.Defn.Compiler)
    :ok
  end

  doctest Nx, except: [erf_inv: 1, erfc: 1, log1p: 1]
  doctest Nx.Batch
  doctest Nx.Constants
  doctest Nx.Defn
  doctest Nx.Defn.Composite, except: [flatten_list: 2]
  doctest Nx.Defn.Graph
  doctest Nx.Defn.Kernel
  doctest Nx.Floating
  doctest Nx.LinAlg
  doctest Nx.Random
  doctest Nx.Shape
  doctest Nx.Type
end
