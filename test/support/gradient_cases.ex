defmodule ExBurn.GradientCases do
  @moduledoc """
  Layers and activations whose gradients are compared: `%{name: , model: , x: }`.

  Every case starts with a trainable factor for each element of the input, so that gradients of layers without parameters
  are seen, and the gradients of layers with parameters by their input too.
  """

  @activations [
    :celu,
    :elu,
    :exp,
    :gelu,
    :hard_sigmoid,
    :hard_silu,
    :hard_tanh,
    :leaky_relu,
    :linear,
    :log_sigmoid,
    :log_softmax,
    :log_sumexp,
    :mish,
    :relu,
    :relu6,
    :selu,
    :sigmoid,
    :silu,
    :softmax,
    :softplus,
    :softsign,
    :tanh
  ]

  @doc """
  All cases.
  """
  def all do
    activations() ++
      linear() ++
      convolutions() ++
      pools() ++ norms() ++ dropouts() ++ shapes() ++ combinators() ++ recurrent()
  end

  defp activations do
    for name <- @activations, do: layer(name, {3, 5}, &Axon.activation(&1, name))
  end

  defp linear do
    [
      layer(:dense, {3, 4}, &Axon.dense(&1, 5)),
      layer(:dense_without_bias, {2, 3, 4}, &Axon.dense(&1, 5, use_bias: false)),
      layer(:bias, {3, 4}, &Axon.bias/1),
      bilinear(),
      embedding()
    ]
  end

  defp bilinear do
    {left, right} = {scaled("left", {nil, 3}), scaled("right", {nil, 4})}
    x = %{"left" => random({2, 3}, 1), "right" => random({2, 4}, 2)}
    %{name: :bilinear, model: Axon.bilinear(left, right, 2), x: x}
  end

  defp embedding do
    model = "x" |> Axon.input(shape: {nil, 3}) |> Axon.embedding(6, 4)
    %{name: :embedding, model: model, x: Nx.tensor([[0, 5, 2], [2, 2, 1]], type: :s64)}
  end

  defp convolutions do
    [
      layer(:conv_1d, {2, 7, 3}, &Axon.conv(&1, 4, kernel_size: 3)),
      layer(:conv_2d, {2, 6, 5, 3}, &Axon.conv(&1, 4, kernel_size: {3, 2}, padding: :same)),
      layer(:conv_3d, {1, 4, 4, 3, 2}, &Axon.conv(&1, 3, kernel_size: 2)),
      layer(:conv_strided, {2, 7, 7, 2}, &Axon.conv(&1, 3, kernel_size: 3, strides: 2)),
      layer(:conv_dilated, {2, 7, 7, 2}, &Axon.conv(&1, 3, kernel_size: 2, kernel_dilation: 2)),
      layer(
        :conv_padded,
        {1, 5, 5, 2},
        &Axon.conv(&1, 2, kernel_size: 3, padding: [{2, 1}, {0, 3}])
      ),
      layer(
        :conv_channels_first,
        {2, 3, 6, 5},
        &Axon.conv(&1, 4, kernel_size: 3, channels: :first)
      ),
      layer(
        :conv_grouped,
        {2, 5, 5, 4},
        &Axon.conv(&1, 6, kernel_size: 3, feature_group_size: 2)
      ),
      layer(:conv_transpose, {2, 4, 4, 3}, &Axon.conv_transpose(&1, 2, kernel_size: 3)),
      layer(
        :conv_transpose_strided,
        {1, 4, 3, 2},
        &Axon.conv_transpose(&1, 3, kernel_size: 3, strides: 2, padding: :same)
      ),
      layer(:depthwise_conv, {2, 5, 5, 3}, &Axon.depthwise_conv(&1, 2, kernel_size: 3)),
      layer(:separable_conv2d, {2, 5, 5, 3}, &Axon.separable_conv2d(&1, 2, kernel_size: 3)),
      layer(:separable_conv3d, {1, 4, 4, 4, 2}, &Axon.separable_conv3d(&1, 2, kernel_size: 2))
    ]
  end

  defp pools do
    [
      layer(:max_pool, {2, 6, 6, 3}, &Axon.max_pool(&1, kernel_size: 2)),
      layer(
        :max_pool_overlapping,
        {2, 7, 7, 2},
        # Nx takes the padding for zeros when it looks for the largest element, so only positive ones compare.
        &(&1 |> Axon.exp() |> Axon.max_pool(kernel_size: 3, strides: 2, padding: :same))
      ),
      layer(:max_pool_1d, {2, 6, 3}, &Axon.max_pool(&1, kernel_size: 3)),
      layer(:avg_pool, {2, 6, 6, 3}, &Axon.avg_pool(&1, kernel_size: 2)),
      layer(
        :avg_pool_overlapping,
        {2, 7, 7, 2},
        &Axon.avg_pool(&1, kernel_size: 3, strides: 2, padding: :same)
      ),
      layer(:lp_pool, {2, 6, 6, 2}, &Axon.lp_pool(&1, kernel_size: 2, norm: 2)),
      layer(:adaptive_avg_pool, {2, 7, 7, 2}, &Axon.adaptive_avg_pool(&1, output_size: {3, 3})),
      layer(:adaptive_max_pool, {2, 7, 7, 2}, &Axon.adaptive_max_pool(&1, output_size: {3, 3})),
      layer(:global_avg_pool, {2, 5, 4, 3}, &Axon.global_avg_pool/1),
      layer(:global_max_pool, {2, 5, 4, 3}, &Axon.global_max_pool/1),
      layer(:global_lp_pool, {2, 5, 4, 3}, &Axon.global_lp_pool/1),
      # With channels last Axon 0.8 takes a length of the filter for another and refuses it.
      layer(:blur_pool, {1, 2, 6, 6}, &Axon.blur_pool(&1, channels: :first))
    ]
  end

  defp norms do
    [
      layer(:batch_norm, {4, 3}, &(&1 |> Axon.tanh() |> Axon.batch_norm())),
      layer(:batch_norm_image, {3, 4, 4, 2}, &Axon.batch_norm/1),
      layer(:layer_norm, {3, 6}, &Axon.layer_norm/1),
      layer(:group_norm, {2, 4, 4, 6}, &Axon.group_norm(&1, 3)),
      layer(:instance_norm, {2, 4, 4, 3}, &Axon.instance_norm/1),
      layer(:rms_norm, {3, 6}, &Axon.rms_norm(&1, shift: 1.0))
    ]
  end

  defp dropouts do
    [
      layer(:dropout, {4, 6}, &Axon.dropout(&1, rate: 0.4, seed: 3)),
      layer(:spatial_dropout, {2, 4, 4, 5}, &Axon.spatial_dropout(&1, rate: 0.4, seed: 3)),
      layer(:alpha_dropout, {4, 6}, &Axon.alpha_dropout(&1, rate: 0.4, seed: 3)),
      layer(
        :feature_alpha_dropout,
        {2, 4, 4, 5},
        &Axon.feature_alpha_dropout(&1, rate: 0.4, seed: 3)
      )
    ]
  end

  defp shapes do
    [
      layer(:flatten, {2, 3, 4}, &Axon.flatten/1),
      layer(:reshape, {2, 3, 4}, &Axon.reshape(&1, {:batch, 4, 3})),
      layer(:transpose, {2, 3, 4}, &Axon.transpose(&1, [0, 2, 1])),
      layer(:pad, {2, 3, 4}, &Axon.pad(&1, [{1, 2}])),
      layer(:resize, {1, 3, 3, 2}, &Axon.resize(&1, {5, 4}, method: :bilinear))
    ]
  end

  defp combinators do
    split = fn x ->
      {left, right} = Axon.split(x, 2)
      Axon.multiply(Axon.tanh(left), right)
    end

    # Its gradient is one that Nx gives as a function.
    inverse = fn t ->
      t |> Nx.dot([0], t, [0]) |> Nx.add(Nx.multiply(8, Nx.eye(4))) |> Nx.LinAlg.invert()
    end

    custom = [layer(:inverse, {3, 4}, &Axon.nx(&1, fn t -> Nx.dot(t, inverse.(t)) end))]
    [layer(:split, {3, 4}, split) | custom] ++ combined()
  end

  defp combined do
    for {name, fun} <- [
          concatenate: &Axon.concatenate/2,
          add: &Axon.add/2,
          subtract: &Axon.subtract/2,
          multiply: &Axon.multiply/2
        ] do
      layer(name, {3, 4}, fn x -> fun.(Axon.dense(x, 4), Axon.tanh(x)) end)
    end
  end

  defp recurrent do
    sequence = &(&1 |> elem(0) |> Axon.flatten())

    [
      layer(:lstm, {2, 3, 4}, &sequence.(Axon.lstm(&1, 5, unroll: :static))),
      layer(:gru, {2, 3, 4}, &sequence.(Axon.gru(&1, 5, unroll: :static))),
      layer(:bidirectional, {2, 3, 4}, fn x ->
        forward = &Axon.lstm(&1, 3, unroll: :static)

        x
        |> Axon.bidirectional(forward, &Nx.concatenate([&1, &2], axis: -1))
        |> Axon.nx(&elem(&1, 0))
        |> Axon.flatten()
      end),
      layer(
        :conv_lstm,
        {2, 3, 2, 4, 4},
        &sequence.(Axon.conv_lstm(&1, 2, kernel_size: 3, padding: :same, unroll: :static))
      )
    ]
  end

  defp layer(name, shape, fun) do
    %{name: name, model: "x" |> scaled(put_elem(shape, 0, nil)) |> fun.(), x: random(shape, 7)}
  end

  defp scaled(name, shape) do
    uniform = Axon.Initializers.uniform(scale: 0.5)
    factor = Axon.param("factor", &Tuple.delete_at(&1, 0), initializer: uniform)
    scale = fn x, factor, _opts -> Nx.multiply(x, Nx.add(factor, 1)) end
    Axon.layer(scale, [Axon.input(name, shape: shape), factor], name: "scale_#{name}")
  end

  @doc """
  Numbers from -2 to 2, the same for the same seed.
  """
  def random(shape, seed) do
    {random, _key} = seed |> Nx.Random.key() |> Nx.Random.uniform(-2.0, 2.0, shape: shape)
    random
  end
end
