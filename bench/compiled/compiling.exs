defmodule Bench.Compiled.Compiling do
  @moduledoc false

  import Nx.Defn
  import Bench.Compiled.Operands
  alias Bench.Compiled.Transformer

  def rows, do: %{"compile_encoder12" => &encoder12/0}

  # A call is a compilation; the result that is checked is that of what it compiled.
  defp encoder12 do
    layers = List.to_tuple(for number <- 0..11, do: Transformer.layer(number))
    operands = [normal({8, 128, 256}), layers]

    %{
      operands: operands,
      call: &compile/1,
      result: fn operands -> apply(compile(operands), operands) end,
      next: fn _compiled, operands -> {operands, []} end
    }
  end

  defp compile(operands) do
    Nx.Defn.compile(&encoders/2, operands, compiler: ExBurn.Defn.Compiler, cache: false)
  end

  deftransform encoders(x, layers) do
    layers |> Tuple.to_list() |> Enum.reduce(x, &Transformer.encoder(&2, &1))
  end
end
