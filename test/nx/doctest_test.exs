defmodule ExBurn.Nx.DoctestTest do
  @moduledoc """
  The examples of Nx's own documentation, on this backend and through this compiler.
  """

  use ExUnit.Case, async: true
  use ExBurn.NxDoctests

  setup do
    Nx.default_backend(ExBurn.Backend)
    Nx.Defn.default_options(compiler: ExBurn.Defn.Compiler)
    :ok
  end
end

defmodule ExBurn.Nx.GraphDoctestTest do
  # Not beside other tests: an example numbers parameters by the order of references, which is the order they were made in
  # only while the process stays on one scheduler.
  use ExUnit.Case, async: false

  setup do: Nx.default_backend(ExBurn.Backend) && :ok

  doctest Nx.Defn.Graph
end
