defmodule ExBurn.Model.Layout.Gates do
  @moduledoc """
  LSTM and GRU between Axon, which has a tensor for each gate, and PyTorch, which joins them: see `ExBurn.Model.Layout`.
  """

  alias ExBurn.Model
  alias ExBurn.Model.Layout
  alias ExBurn.Model.State

  # In PyTorch's order.
  @gates %{lstm: ~w(i f g o), gru: ~w(r z n)}

  @doc """
  The entries of a recurrent layer at `path` with these parameters.
  """
  @spec entries(Model.path(), :lstm | :gru, Model.leaves()) :: [Layout.entry()]
  def entries(path, kind, leaves) do
    leaves = Map.new(leaves)
    input = kernel(path, "input_kernel", "wi", "weight_ih_l0", kind, leaves)
    hidden = kernel(path, "hidden_kernel", "wh", "weight_hh_l0", kind, leaves)
    [input, hidden | bias(path, kind, leaves)]
  end

  defp kernel(path, own, prefix, name, kind, leaves) do
    paths = for gate <- @gates[kind], do: path ++ [own, prefix <> gate]
    {inputs, units} = Nx.shape(leaves[hd(paths)])
    count = length(paths)

    %{
      paths: paths,
      tensors: [{State.name(path ++ [name]), {count * units, inputs}}],
      outward: fn kernels -> [kernels |> Nx.concatenate(axis: 1) |> Nx.transpose()] end,
      inward: fn [weight] -> weight |> Nx.transpose() |> parts(count, 1) end
    }
  end

  defp bias(path, kind, leaves) do
    own = if kind == :gru, do: ~w(br bz bin bhn), else: ~w(bi bf bg bo)
    paths = for name <- own, do: path ++ ["bias", name]

    case leaves[hd(paths)] do
      nil ->
        []

      first ->
        shape = {length(@gates[kind]) * Nx.size(first)}
        names = for name <- ~w(bias_ih_l0 bias_hh_l0), do: {State.name(path ++ [name]), shape}
        {outward, inward} = biases(kind)
        [%{paths: paths, tensors: names, outward: outward, inward: inward}]
    end
  end

  # PyTorch has a bias for the input and one for the hidden state. They are added, but for the last gate of a GRU.
  defp biases(:lstm) do
    outward = fn biases ->
      input = Nx.concatenate(biases)
      [input, zeros(input)]
    end

    {outward, fn [input, hidden] -> input |> Nx.add(hidden) |> parts(4, 0) end}
  end

  defp biases(:gru) do
    outward = fn [reset, update, input, hidden] ->
      none = zeros(reset)
      [Nx.concatenate([reset, update, input]), Nx.concatenate([none, none, hidden])]
    end

    inward = fn [input, hidden] ->
      [reset, update, _sum] = input |> Nx.add(hidden) |> parts(3, 0)
      [reset, update, last(input), last(hidden)]
    end

    {outward, inward}
  end

  defp zeros(like), do: Nx.broadcast(Nx.tensor(0, type: like.type), like)
  defp last(bias), do: bias |> parts(3, 0) |> List.last()

  defp parts(tensor, count, axis) do
    length = div(Nx.axis_size(tensor, axis), count)
    for n <- 0..(count - 1), do: Nx.slice_along_axis(tensor, n * length, length, axis: axis)
  end
end
