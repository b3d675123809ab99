defmodule ExBurn.Training.CustomGradientTest do
  use ExUnit.Case, async: true

  import ExBurn.Oracle
  import Nx.Defn

  alias ExBurn.{Error, GradientCases, Model, Training}

  defmodule Block do
    defstruct []
  end

  # Here `y` is read by functions of gradients alone.
  defn alone(y, p), do: Nx.sum(custom_grad(Nx.sin(p), [p], fn g -> [g * y] end))

  # The upstream gradient has none of the names of what it is the gradient of.
  defn with_names(y, p) do
    y = Nx.rename(y, [:row, :column])
    named = custom_grad(Nx.rename(Nx.sin(p), [:batch, :unit]), [p], fn g -> [g * y] end)
    Nx.sum(named)
  end

  defn of_numbers(y, p),
    do: Nx.sum(custom_grad(Nx.iota({4, 2}, type: :f32), [p], fn g -> [g * y] end))

  defn several_inputs(y, p),
    do: Nx.sum(custom_grad(Nx.sin(p), [p, Nx.cos(p)], fn g -> [g * y, y] end))

  defn in_branch(y, p),
    do: Nx.sum(if(Nx.sum(p) > -100, do: custom_grad(Nx.sin(p), [p], &[&1 * y]), else: p))

  defn around_branch(y, p) do
    around = Nx.exp(y)
    Nx.sum(if(Nx.sum(p) > -100, do: custom_grad(Nx.sin(p), [p], &[&1 * around]), else: p))
  end

  defn in_loop(y, p) do
    {_, last, _} =
      while({i = 0, p, y}, i < 3, do: {i + 1, custom_grad(Nx.sin(p), [p], &[&1 * y]), y})

    Nx.sum(last)
  end

  defn in_branch_of_loop(y, p) do
    {_, last, _} =
      while {i = 0, p, y}, i < 3 do
        {i + 1, if(i > 0, do: custom_grad(Nx.sin(p), [p], &[&1 * y]), else: p), y}
      end

    Nx.sum(last)
  end

  defn with_branch(y, p),
    do: Nx.sum(custom_grad(Nx.sin(p), [p], &[if(Nx.sum(y) > 0, do: &1 * y, else: &1)]))

  defn with_loop(y, p), do: Nx.sum(custom_grad(Nx.sin(p), [p], &[scaled_twice(&1, y)]))

  # What the gradient's branch reads, the loss does too, or not.
  defn with_branch_on_loop(y, p) do
    twice = scaled_twice(p, y)
    same = custom_grad(Nx.sin(p), [p], &[if(Nx.sum(y) > -100, do: &1 * twice, else: &1)])
    Nx.sum(same)
  end

  defn with_branch_on_read_loop(y, p) do
    twice = scaled_twice(p, y)
    same = custom_grad(Nx.sin(p), [p], &[if(Nx.sum(y) > -100, do: &1 * twice, else: &1)])
    Nx.sum(same) + Nx.sum(twice)
  end

  defnp scaled_twice(g, y) do
    {_, g, _} = while({i = 0, g, y}, i < 2, do: {i + 1, g * y, y})
    g
  end

  defn of_custom(y, p) do
    inner = custom_grad(Nx.sin(p), [p], &[&1 * y])
    Nx.sum(custom_grad(Nx.exp(inner), [inner], &[&1 * y + p]))
  end

  defn with_custom(y, p) do
    Nx.sum(custom_grad(Nx.sin(p), [p], fn g -> [custom_grad(g * p, [p], &[&1 * y]) * y] end))
  end

  def in_block(y, p), do: block([p, y], fn _, p, y -> own(p, y) end)
  def around_block(y, p), do: block([p], fn _, p -> own(p, y) end)

  # The block has a parameter at the place of `y`, and of its type.
  def around_second_in_block(y, p), do: block([p, Nx.sin(p)], fn _, _, q -> own(q, y) end)

  def in_block_of_block(y, p) do
    block([p], fn _, p ->
      Nx.block(%Block{}, [p], Nx.to_template(p), fn _, p -> own(p, y) end)
    end)
  end

  def with_block(y, p) do
    gradient =
      &[Nx.block(%Block{}, [&1, y], Nx.to_template(y), fn _, g, y -> Nx.multiply(g, y) end)]

    p |> Nx.sin() |> Nx.Defn.Kernel.custom_grad([p], gradient) |> Nx.sum()
  end

  defp block(operands, fun),
    do: %Block{} |> Nx.block(operands, Nx.to_template(hd(operands)), fun) |> Nx.sum()

  defp own(p, y), do: Nx.Defn.Kernel.custom_grad(Nx.sin(p), [p], &[Nx.multiply(&1, y)])

  @losses [
    alone: &__MODULE__.alone/2,
    with_names: &__MODULE__.with_names/2,
    of_numbers: &__MODULE__.of_numbers/2,
    several_inputs: &__MODULE__.several_inputs/2,
    in_branch: &__MODULE__.in_branch/2,
    around_branch: &__MODULE__.around_branch/2,
    in_loop: &__MODULE__.in_loop/2,
    in_branch_of_loop: &__MODULE__.in_branch_of_loop/2,
    with_branch: &__MODULE__.with_branch/2,
    with_loop: &__MODULE__.with_loop/2,
    with_branch_on_loop: &__MODULE__.with_branch_on_loop/2,
    with_branch_on_read_loop: &__MODULE__.with_branch_on_read_loop/2,
    of_custom: &__MODULE__.of_custom/2,
    with_custom: &__MODULE__.with_custom/2,
    in_block: &__MODULE__.in_block/2,
    around_block: &__MODULE__.around_block/2,
    around_second_in_block: &__MODULE__.around_second_in_block/2,
    in_block_of_block: &__MODULE__.in_block_of_block/2,
    with_block: &__MODULE__.with_block/2
  ]

  # Depthwise convolutions of several channels are differentiated by a tape, not by rules.
  for {name, loss} <- @losses, layer <- [:dense, :depthwise_conv] do
    test "reads what its function alone reads: #{name}, #{layer}" do
      loss = unquote(loss)
      model = unquote(layer) |> layers() |> Model.compile(loss: loss, seed: 5)
      data = {GradientCases.random({4, 3, 2}, 9), GradientCases.random({4, 2}, 7)}
      want = gradients(model, data, loss)

      for opts <- [[], [gradient_checkpointing: true]],
          do: assert_relative(Training.compute_gradients(model, data, opts), want, 1.0e-5)
    end
  end

  defp layers(layer) do
    input = Axon.input("x", shape: {nil, 3, 2})
    opts = if layer == :dense, do: [], else: [kernel_size: 2]
    Axon |> apply(layer, [input, 2, opts]) |> Axon.flatten() |> Axon.dense(2)
  end

  # The gradient of `slope`, which only the other's gradient reads, is none.
  defp sloped do
    sloped = fn x, factor, slope, _opts ->
      x
      |> Nx.multiply(factor)
      |> Nx.Defn.Kernel.custom_grad([factor], &[Nx.sum(Nx.multiply(&1, slope), axes: [0])])
    end

    parameters = [
      Axon.param("factor", fn _ -> {2} end, initializer: :ones),
      Axon.param("slope", fn _ -> {2} end, initializer: Axon.Initializers.full(3.0))
    ]

    Axon.layer(sloped, [Axon.input("x", shape: {nil, 2}) | parameters], name: "sloped")
  end

  test "of a layer reads the layer's other parameter, and fit learns by it" do
    loss = &Nx.sum(Nx.multiply(&1, &2))
    model = ExBurn.compile(sloped(), loss: loss, optimizer: :sgd, learning_rate: 0.5)
    data = {Nx.tensor([[1.0, 2.0], [5.0, 7.0]]), Nx.tensor([[0.25, 0.5], [0.5, 1.0]])}

    # 3 * (0.25 + 0.5) and 3 * (0.5 + 1), whatever x is.
    assert %{"sloped" => %{"factor" => factor, "slope" => slope}} =
             Training.compute_gradients(model, data)

    assert Nx.to_flat_list(factor) == [2.25, 4.5]
    assert Nx.to_flat_list(slope) == [0.0, 0.0]

    fitted = Training.fit(model, data, epochs: 1, batch_size: 2, verbose: false)
    assert %{"sloped" => %{"factor" => factor, "slope" => slope}} = parameters(fitted)
    assert Nx.to_flat_list(factor) == [1 - 0.5 * 2.25, 1 - 0.5 * 4.5]
    assert Nx.to_flat_list(slope) == [3.0, 3.0]
  end

  test "that reads what its loop does not see is refused" do
    model = Model.compile(sloped(), loss: fn y, p -> p |> repeated(y) |> Nx.sum() end)
    data = {Nx.iota({2, 2}, type: :f32), Nx.iota({2, 2}, type: :f32)}

    assert_raise Error, ~r/^while: .* make that value a part of the loop's state$/, fn ->
      Training.compute_gradients(model, data)
    end

    # Of what the function does with the upstream gradient, Nx says the same.
    model = Model.compile(sloped(), loss: fn y, p -> Nx.sum(repeated(p, y, times: true)) end)

    assert_raise Error, ~r/different contexts.*must be explicitly given as arguments/s, fn ->
      Training.compute_gradients(model, data)
    end
  end

  defn repeated(p, y, opts \\ []) do
    {_, p} = while({i = 0, p}, i < 2, do: {i + 1, reading_around(p, around(y, opts))})
    p
  end

  deftransformp(around(y, opts),
    do: if(opts[:times], do: &[Nx.multiply(&1, y)], else: fn _ -> [y] end)
  )

  deftransformp(reading_around(p, fun), do: Nx.Defn.Kernel.custom_grad(Nx.sin(p), [p], fun))
end
