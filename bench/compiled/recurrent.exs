defmodule Bench.Compiled.Recurrent do
  @moduledoc false

  import Nx.Defn
  import Bench.Compiled.Operands

  @steps 64
  @units 128

  def rows do
    %{
      "lstm_fwd" => fn ->
        operands = [normal({@steps, 32, @units}) | weights([{128, 512}, {128, 512}, {512}])]
        %{function: &lstm/4, operands: operands}
      end
    }
  end

  # The output of every step. The gates stand in the order input, forget, cell, output.
  defn lstm(x, input, recurrent, bias) do
    start = Nx.broadcast(0.0, {Nx.axis_size(x, 1), @units})
    outputs = Nx.broadcast(0.0, Nx.shape(x))

    {_, outputs, _, _, _, _, _, _} =
      while {i = 0, outputs, h = start, c = start, x, input, recurrent, bias}, i < @steps do
        gates = Nx.dot(x[i], input) + Nx.dot(h, recurrent) + bias
        {h, c} = cell(gates, c)
        outputs = Nx.put_slice(outputs, [i, 0, 0], Nx.new_axis(h, 0))
        {i + 1, outputs, h, c, x, input, recurrent, bias}
      end

    outputs
  end

  defnp cell(gates, c) do
    input = Nx.sigmoid(gates[[.., 0..127]])
    forget = Nx.sigmoid(gates[[.., 128..255]])
    candidate = Nx.tanh(gates[[.., 256..383]])
    output = Nx.sigmoid(gates[[.., 384..511]])
    c = forget * c + input * candidate
    {output * Nx.tanh(c), c}
  end
end
