defmodule ExBurn.NxDoctests do
  @moduledoc """
  The examples of Nx's own documentation as tests: `use ExBurn.NxDoctests, except: [{Nx.Random, [normal: 4]}]`.

  Left out everywhere is `Nx.Defn.Composite.flatten_list/2`, which compares tensors with `===`, and so references of ours.
  """

  @modules [
    Nx,
    Nx.Batch,
    Nx.Constants,
    Nx.Defn,
    Nx.Defn.Composite,
    Nx.Defn.Kernel,
    Nx.Floating,
    Nx.LinAlg,
    Nx.Random,
    Nx.Shape,
    Nx.Type
  ]

  defmacro __using__(opts) do
    quote bind_quoted: [modules: @modules, opts: opts] do
      import ExUnit.DocTest
      import Nx.Defn.Kernel, only: [assert_keys: 2, keyword!: 2]

      left_out = [{Nx.Defn.Composite, [flatten_list: 2]} | opts[:except] || []]

      for module <- modules,
          {_module, except} = List.keyfind(left_out, module, 0, {module, []}) do
        doctest module, except: except
      end
    end
  end
end
