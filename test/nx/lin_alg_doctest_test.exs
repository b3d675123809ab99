defmodule ExBurn.Nx.LinAlgDoctestTest do
  use ExUnit.Case, async: true

  setup do
    Nx.default_backend(ExBurn.Backend)
    :ok
  end

  doctest Nx.LinAlg, except: []
end
