defmodule ExBurn.Model.Layout.Torch do
  @moduledoc """
  PyTorch's names and axes of a layer's tensors, and the way there and back: see `ExBurn.Model.Layout`.
  """

  alias ExBurn.{Error, Model}
  alias ExBurn.Model.Layout
  alias ExBurn.Model.Layout.Gates
  alias ExBurn.Model.State

  # By the kind of a layer: its tensors, PyTorch's names of them, and how their axes differ.
  @norm %{"gamma" => {"weight", :same}, "beta" => {"bias", :same}}
  @tracked Map.merge(@norm, %{"mean" => {"running_mean", :same}, "var" => {"running_var", :same}})
  @conv %{"kernel" => {"weight", :window}, "bias" => {"bias", :same}}
  @same %{"kernel" => {"weight", :same}, "bias" => {"bias", :same}}

  separable = fn count ->
    for n <- 1..count,
        {own, theirs, axes} <- [{"kernel", "weight", :window}, {"bias", "bias", :same}],
        into: %{},
        do: {"#{own}_#{n}", {"#{n - 1}.#{theirs}", axes}}
  end

  @layers %{
    dense: %{"kernel" => {"weight", :turned}, "bias" => {"bias", :same}},
    bilinear: @same,
    embedding: @same,
    bias: @same,
    conv: @conv,
    depthwise_conv: @conv,
    conv_transpose: %{"kernel" => {"weight", :turned_window}, "bias" => {"bias", :same}},
    separable_conv2d: separable.(2),
    separable_conv3d: separable.(3),
    batch_norm: @tracked,
    instance_norm: @tracked,
    layer_norm: @norm,
    rms_norm: @norm,
    group_norm: @norm
  }

  @recurrent [:lstm, :gru]
  @kinds (Map.keys(@layers) ++ @recurrent) |> Enum.sort() |> Enum.map_join(", ", &inspect/1)

  @doc """
  The entries of a layer at `path`, of the kind `{op, channels}`, with these parameters and states.
  """
  @spec entries(Model.path(), {atom(), atom()} | nil, Model.leaves(), atom()) :: [Layout.entry()]
  def entries(path, {kind, _channels}, leaves, _op) when kind in @recurrent,
    do: Gates.entries(path, kind, leaves)

  def entries(path, kind, leaves, op) do
    for {[_ | _] = own_path, tensor} <- leaves do
      case known(kind, List.last(own_path)) do
        {name, how} ->
          {_kind, channels} = kind
          moved(own_path, State.name(path ++ [name]), tensor, axes(how, channels, tensor))

        nil ->
          raise Error, op: op, reason: unknown(own_path, kind)
      end
    end
  end

  defp known({kind, _channels}, own), do: @layers[kind][own]
  defp known(nil, _own), do: nil

  defp unknown(path, kind) do
    what = if kind, do: " of a layer of the kind #{inspect(elem(kind, 0))}", else: ""

    "#{State.name(path)}#{what} has no place in layout: :torch, which knows #{@kinds}; take layout: :axon"
  end

  # The axes in PyTorch's order, and those of them that run backwards.
  defp axes(:same, _channels, tensor), do: {Nx.axes(tensor), []}
  defp axes(:turned, _channels, _tensor), do: {[1, 0], []}

  defp axes(:window, :first, tensor), do: {Nx.axes(tensor), []}

  defp axes(:window, _last, tensor) do
    {windows, [inputs, outputs]} = Enum.split(Nx.axes(tensor), -2)
    {[outputs, inputs | windows], []}
  end

  defp axes(:turned_window, channels, tensor) do
    {[outputs, inputs | windows], []} = axes(:window, channels, tensor)
    {[inputs, outputs | windows], Enum.drop(Nx.axes(tensor), 2)}
  end

  defp moved(path, name, tensor, {axes, backwards}) do
    shape = Nx.shape(tensor)
    back = axes |> Enum.with_index() |> Enum.sort() |> Enum.map(&elem(&1, 1))

    %{
      paths: [path],
      tensors: [{name, axes |> Enum.map(&elem(shape, &1)) |> List.to_tuple()}],
      outward: fn [own] -> [own |> Nx.transpose(axes: axes) |> Nx.reverse(axes: backwards)] end,
      inward: fn [theirs] ->
        [theirs |> Nx.reverse(axes: backwards) |> Nx.transpose(axes: back)]
      end
    }
  end
end
