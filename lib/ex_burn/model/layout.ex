defmodule ExBurn.Model.Layout do
  @moduledoc """
  How other libraries name a model's tensors and order their axes.

  `:axon` is Axon's own way: `dense_0.kernel` has the inputs along its first axis, a convolution its features along the
  last. `:torch` is PyTorch's: `dense_0.weight` has the outputs along its first axis. PyTorch's convolutions take channels first, so a
  dense layer behind a flattened image reads its inputs in another order there: that order is the model's, no layout
  changes it.
  """

  alias ExBurn.{Error, Model, Options}
  alias ExBurn.Model.State

  @compile {:no_warn_undefined, [Axon]}

  @layouts [:axon, :torch]
  @norms [:batch_norm, :layer_norm, :group_norm, :instance_norm]

  # By Axon's name of a tensor: PyTorch's.
  @names %{
    norm: %{
      "gamma" => "weight",
      "beta" => "bias",
      "mean" => "running_mean",
      "var" => "running_var"
    },
    linear: %{"kernel" => "weight", "bias" => "bias"}
  }

  @typedoc "A tensor: its path in the model, its name elsewhere, and the order of its axes there, `nil` for the same."
  @type entry :: %{path: Model.path(), name: String.t(), axes: [non_neg_integer()] | nil}

  @doc """
  Refuses what is no layout on behalf of `op`.
  """
  @spec validate!(term(), atom()) :: :ok
  def validate!(layout, op),
    do: Options.check!(layout in @layouts, op, :layout, layout, ":axon or :torch")

  @doc """
  The model's tensors that a layout has a place for.
  """
  @spec entries(Model.t(), :axon | :torch, atom()) :: [entry()]
  def entries(model, :axon, _op) do
    for {path, _tensor} <- model.parameters ++ model.states,
        do: %{path: path, name: State.name(path), axes: nil}
  end

  # PyTorch keeps no random keys.
  def entries(model, :torch, op) do
    layers = layers(model, op)

    for {path, tensor} <- model.parameters ++ model.states,
        List.last(path) != "key",
        do: torch(path, tensor, layers, op)
  end

  defp layers(%Model{axon: nil}, op) do
    raise Error,
      op: op,
      reason:
        "layout: :torch depends on the kinds of layers, and a model from a file or a quantized one does not say them; " <>
          "compile the Axon model, or take layout: :axon"
  end

  defp layers(%Model{axon: axon}, _op) do
    {layers, _counts} =
      Axon.reduce_nodes(axon, {%{}, %{}}, fn %{op_name: op} = node, {layers, counts} ->
        layer = {op, node.opts[:channels]}
        {Map.put(layers, node.name.(op, counts), layer), Map.update(counts, op, 1, &(&1 + 1))}
      end)

    layers
  end

  defp torch(path, tensor, layers, op) do
    {layer, [own]} = Enum.split(path, -1)
    # A recurrent layer has maps of tensors.
    kind = layers[State.name(layer)] || layers[hd(path)]

    case known(kind, own, Nx.rank(tensor)) do
      {name, axes} -> %{path: path, name: State.name(layer ++ [name]), axes: axes}
      nil -> raise Error, op: op, reason: unknown(path, kind)
    end
  end

  defp known({op, _channels}, own, _rank) when op in @norms do
    name = @names.norm[own]
    name && {name, nil}
  end

  defp known({op, channels}, own, rank)
       when op in [:dense, :embedding, :conv, :depthwise_conv, :bias] do
    name = @names.linear[own]
    name && {name, axes(op, own, channels, rank)}
  end

  defp known(_kind, _own, _rank), do: nil

  defp axes(:dense, "kernel", _channels, 2), do: [1, 0]

  # Windows, inputs and outputs become outputs, inputs and windows.
  defp axes(op, "kernel", channels, rank)
       when op in [:conv, :depthwise_conv] and channels != :first,
       do: [rank - 1, rank - 2 | Enum.to_list(0..(rank - 3)//1)]

  defp axes(_op, _own, _channels, _rank), do: nil

  defp unknown(path, kind) do
    what = if kind, do: " of a layer of the kind #{inspect(elem(kind, 0))}", else: ""

    "#{State.name(path)}#{what} has no place in layout: :torch, which knows :dense, :conv, :depthwise_conv, " <>
      ":embedding, :batch_norm, :layer_norm, :group_norm and :instance_norm; take layout: :axon"
  end

  @doc """
  A tensor of the model as the layout has it.
  """
  @spec outward(Nx.Tensor.t(), entry()) :: Nx.Tensor.t()
  def outward(tensor, %{axes: nil}), do: tensor
  def outward(tensor, %{axes: axes}), do: Nx.transpose(tensor, axes: axes)

  @doc """
  The opposite of `outward/2`. A tensor of another number of axes stays as it is.
  """
  @spec inward(Nx.Tensor.t(), entry()) :: Nx.Tensor.t()
  def inward(tensor, %{axes: nil}), do: tensor

  def inward(tensor, %{axes: axes}) do
    if Nx.rank(tensor) == length(axes) do
      back = axes |> Enum.with_index() |> Enum.sort() |> Enum.map(&elem(&1, 1))
      Nx.transpose(tensor, axes: back)
    else
      tensor
    end
  end
end
