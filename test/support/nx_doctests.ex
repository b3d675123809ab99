defmodule ExBurn.NxDoctests do
  @moduledoc """
  The examples of Nx's own documentation as tests: `use ExBurn.NxDoctests, except: [{Nx.Random, [normal: 4]}]`.

  `other_digits/0` names those whose printed digits are one order's of sums and products, from which another, such as a
  GPU's, differs by units of the last place: `least_squares/3`, `matrix_power/2` and `lu/1` multiply factors, of which the
  last is exact there where the print is not; `gumbel/2` and `normal/4` print a logarithm and a mean;
  `triangular_solve/3` prints thirds of which double precision had more.

  Left out everywhere is `Nx.Defn.Composite.flatten_list/2`, which compares tensors with `===`, and so references of ours;
  with an Nx after 0.13.1 `qr/2`, whose steps have another order there.
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

  @doc "What a device with another order of sums leaves out."
  def other_digits,
    do: [
      {Nx.LinAlg, [least_squares: 3, matrix_power: 2, lu: 1, triangular_solve: 3]},
      {Nx.Random, [gumbel: 2, normal: 4]}
    ]

  defmacro __using__(opts) do
    quote bind_quoted: [modules: @modules, opts: opts] do
      import ExUnit.DocTest
      import Nx.Defn.Kernel, only: [assert_keys: 2, keyword!: 2]

      newer = if ExBurn.NxSuite.newer?(), do: [{Nx.LinAlg, [qr: 2]}], else: []
      left_out = [{Nx.Defn.Composite, [flatten_list: 2]} | newer ++ (opts[:except] || [])]

      for module <- modules,
          {_module, except} = List.keyfind(left_out, module, 0, {module, []}) do
        doctest module, except: except
      end
    end
  end
end
