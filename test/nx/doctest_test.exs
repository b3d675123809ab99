defmodule ExBurn.Nx.DoctestTest do
  @moduledoc """
  The examples of Nx's own documentation, on this backend and through this compiler.

  Left out is `Nx.Defn.Composite.flatten_list/2`, which compares tensors with `===`, and so references of ours.
  """

  use ExUnit.Case, async: true

  import Nx.Defn.Kernel, only: [assert_keys: 2, keyword!: 2]

  setup do
    Nx.default_backend(ExBurn.Backend)
    Nx.Defn.default_options(compiler: ExBurn.Defn.Compiler)
    :ok
  end

  doctest Nx
  doctest Nx.Batch
  doctest Nx.Constants
  doctest Nx.Defn
  doctest Nx.Defn.Composite, except: [flatten_list: 2]
  doctest Nx.Defn.Kernel
  doctest Nx.Floating
  doctest Nx.LinAlg
  doctest Nx.Random
  doctest Nx.Shape
  doctest Nx.Type
end

defmodule ExBurn.Nx.GraphDoctestTest do
  # Not beside other tests: an example numbers parameters by the order of references, which is the order they were made in
  # only while the process stays on one scheduler.
  use ExUnit.Case, async: false

  setup do: Nx.default_backend(ExBurn.Backend) && :ok

  doctest Nx.Defn.Graph
end
