defmodule ExBurn.Model.Layout do
  @moduledoc """
  How other libraries name a model's tensors and order their axes.

  `:axon` is Axon's own way: `dense_0.kernel` has the inputs along its first axis, a convolution its features along the
  last. `:torch` is PyTorch's, layer by layer:

  | Axon | PyTorch | what differs |
  |---|---|---|
  | `dense` | `Linear` | `weight` has the outputs along its first axis |
  | `bilinear` | `Bilinear` | |
  | `embedding` | `Embedding` | |
  | `conv`, `depthwise_conv` | `Conv1d`, `Conv2d`, `Conv3d` | `weight` is outputs, inputs, windows |
  | `conv_transpose` | `ConvTranspose1d`, … | `weight` is inputs, outputs, windows, and these run backwards |
  | `separable_conv2d`, `separable_conv3d` | `Sequential` of two or three `Conv2d` or `Conv3d` with `groups` | `0.weight`, `1.weight`, … |
  | `lstm`, `gru` | `LSTM`, `GRU` of one layer and direction | `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0` hold all gates |
  | `batch_norm`, `instance_norm` | `BatchNorm1d`, …, `InstanceNorm1d`, … with `affine` and `track_running_stats` | `running_mean`, `running_var` |
  | `layer_norm`, `group_norm`, `rms_norm` | `LayerNorm`, `GroupNorm`, `RMSNorm` | |

  Further layers of an `LSTM` or `GRU` are further layers in Axon: the option `:names` of `ExBurn.import_params/3` says which,
  `%{"rnn.weight_ih_l1" => "lstm_1.weight_ih_l0", …}`. PyTorch adds up two biases where Axon has one: their sum is taken, and
  on the way out the second one is zero. It starts sequences from zeros, Axon from random numbers unless the layer has
  `recurrent_initializer: :zeros`. PyTorch's convolutions take channels first, so a dense layer behind a flattened image reads its
  inputs in another order there: that order is the model's, no layout changes it.
  """

  alias ExBurn.{Error, Model, Options}
  alias ExBurn.Model.Layout.Torch
  alias ExBurn.Model.State

  @compile {:no_warn_undefined, [Axon]}

  @layouts [:axon, :torch]

  @typedoc """
  Tensors that belong together: their paths in the model, names and shapes elsewhere, and the way out and back, each a
  function of a list of tensors.
  """
  @type entry :: %{
          paths: [Model.path()],
          tensors: [{String.t(), tuple()}],
          outward: ([Nx.Tensor.t()] -> [Nx.Tensor.t()]),
          inward: ([Nx.Tensor.t()] -> [Nx.Tensor.t()])
        }

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
    for {path, tensor} <- model.parameters ++ model.states do
      same = &Function.identity/1

      %{
        paths: [path],
        tensors: [{State.name(path), Nx.shape(tensor)}],
        outward: same,
        inward: same
      }
    end
  end

  def entries(model, :torch, op) do
    layers = layers(model, op)

    # PyTorch keeps no random keys.
    (model.parameters ++ model.states)
    |> Enum.reject(fn {path, _tensor} -> List.last(path) == "key" end)
    |> Enum.group_by(fn {path, _tensor} -> layer(path, layers) end)
    |> Enum.flat_map(fn {layer, leaves} ->
      Torch.entries(layer, layers[State.name(layer)], leaves, op)
    end)
  end

  # The gates of a recurrent layer are one level below it.
  defp layer(path, layers) do
    [above, below] = [Enum.drop(path, -2), Enum.drop(path, -1)]
    if above != [] and is_map_key(layers, State.name(above)), do: above, else: below
  end

  defp layers(%Model{axon: nil}, op) do
    raise Error,
      op: op,
      reason:
        "layout: :torch depends on the kinds of layers, and a model from a file or a quantized one does not say them; " <>
          "compile the Axon model, or take layout: :axon"
  end

  defp layers(%Model{axon: axon}, _op), do: kinds(axon, "")

  # Kinds of layers by name. Those in a block are not nodes of the model.
  defp kinds(axon, prefix) do
    {kinds, _counts} =
      Axon.reduce_nodes(axon, {%{}, %{}}, fn %{op_name: op} = node, {kinds, counts} ->
        name = prefix <> node.name.(op, counts)

        kinds =
          kinds |> Map.merge(inside(node, name)) |> Map.put(name, {op, node.opts[:channels]})

        {kinds, Map.update(counts, op, 1, &(&1 + 1))}
      end)

    kinds
  end

  defp inside(%{op: :block, opts: opts, parent: parents}, name) do
    inputs = for {_parent, number} <- Enum.with_index(parents), do: Axon.input("#{number}")

    case apply(opts[:block_fun], inputs) do
      %{__struct__: Axon} = axon -> kinds(axon, name <> ".")
      _other -> %{}
    end
  end

  defp inside(_node, _name), do: %{}
end
