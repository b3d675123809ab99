defmodule ExBurn.Properties.LinearTest do
  use ExBurn.Property, async: true

  import StreamData

  property "dot" do
    same({Nx, :dot}, dotted(:any, :moderate), {:sum, 16})
  end

  property "dot of integers", do: same({Nx, :dot}, dotted(:int, :any))

  property "dot over axes, in batches" do
    same({Nx, :dot}, contracted([:int, :wide_float, :complex]), {:sum, 32})
  end

  property "outer" do
    same(
      {Nx, :outer},
      bind(
        {types(:any), types(:any), shape(rank: [0, 1, 2], largest: 3),
         shape(rank: [0, 1, 2], largest: 3)},
        fn {a, b, left, right} ->
          map(
            {operand(a, left, range: :moderate), operand(b, right, range: :moderate)},
            &Tuple.to_list/1
          )
        end
      ),
      {:ulp, 4}
    )
  end

  property "conv", do: same({Nx, :conv}, convolution(), {:sum, 64})

  property "conv in other orders of axes" do
    same({Nx, :conv}, permuted(), {:sum, 64})
  end

  defp dotted(kind, range) do
    bind(
      {types(kind), types(kind), integer(1..5), shape(rank: [0, 1, 2], largest: 3),
       shape(rank: [0, 1, 2], largest: 3), vector()},
      fn {a, b, n, left, right, vector} ->
        left = Tuple.insert_at(left, tuple_size(left), n)
        right = Tuple.insert_at(right, max(tuple_size(right) - 1, 0), n)

        map(
          {operand(a, left, range: range, vector: vector, names: false),
           operand(b, right, range: range, names: false)},
          &Tuple.to_list/1
        )
      end
    )
  end

  # Sizes of batch axes, contracted axes and free axes; the contracted and free ones stand in any order.
  defp contracted(kind) do
    sizes = fn counts -> bind(member_of(counts), &list_of(integer(1..3), length: &1)) end

    bind({sizes.([0, 1, 2]), sizes.([0, 1, 2]), sizes.([0, 1, 2]), sizes.([0, 1, 2])}, fn {batch,
                                                                                           contract,
                                                                                           free,
                                                                                           other} ->
      bind(
        {arranged(batch, contract, free), arranged(batch, contract, other), types(kind),
         types(kind)},
        fn {{left, c1}, {right, c2}, a, b} ->
          axes = Enum.to_list(0..(length(batch) - 1)//1)

          map(
            {operand(a, left, range: :moderate, names: false),
             operand(b, right, range: :moderate, names: false)},
            fn {l, r} -> [l, c1, axes, r, c2, axes] end
          )
        end
      )
    end)
  end

  # A shape and where in it the contracted axes are, in the order of `contract`.
  defp arranged(batch, contract, free) do
    rest = contract ++ free

    map(order(length(rest)), fn order ->
      shape = batch ++ Enum.map(order, &Enum.at(rest, &1))

      places =
        for i <- 0..(length(contract) - 1)//1,
            do: length(batch) + Enum.find_index(order, &(&1 == i))

      {List.to_tuple(shape), places}
    end)
  end

  defp convolution do
    bind(
      {integer(1..2), member_of([{1, 1}, {1, 1}, {2, 1}, {3, 1}, {1, 2}]), integer(1..2),
       integer(1..2)},
      fn {spatial, {feature_groups, batch_groups}, channels, filters} ->
        bind(
          {list_of(integer(2..5), length: spatial), list_of(integer(1..2), length: spatial),
           integer(1..2)},
          fn {sizes, window, batch} ->
            input = List.to_tuple([batch * batch_groups, channels * feature_groups | sizes])
            kernel = List.to_tuple([filters * feature_groups * batch_groups, channels | window])

            bind(
              {types([:int, :wide_float, {:bf, 16}, {:f, 16}]), types([:int, :wide_float])},
              fn {a, b} ->
                map(
                  {operand(a, input, range: :moderate, names: false),
                   operand(b, kernel, range: :moderate, names: false), conv_options(spatial)},
                  fn {t, k, opts} ->
                    [
                      t,
                      k,
                      [feature_group_size: feature_groups, batch_group_size: batch_groups] ++ opts
                    ]
                  end
                )
              end
            )
          end
        )
      end
    )
  end

  defp conv_options(spatial) do
    each = list_of(integer(1..2), length: spatial)
    sides = list_of({integer(-1..2), integer(0..2)}, length: spatial)

    options(
      strides: one_of([integer(1..3), each]),
      padding: one_of([constant(:same), constant(:valid), sides]),
      input_dilation: each,
      kernel_dilation: each
    )
  end

  defp permuted do
    bind({order(4), order(4), order(4)}, fn {input, kernel, output} ->
      shape = fn sizes, order ->
        order |> Enum.zip(sizes) |> Enum.sort() |> Enum.map(&elem(&1, 1)) |> List.to_tuple()
      end

      bind({types(:wide_float), types(:complex)}, fn {real, complex} ->
        bind(member_of([real, real, complex]), fn type ->
          t = operand(type, shape.([2, 2, 4, 3], input), range: :moderate, names: false)
          k = operand(type, shape.([3, 2, 2, 2], kernel), range: :moderate, names: false)

          map({t, k}, fn {t, k} ->
            [
              t,
              k,
              [input_permutation: input, kernel_permutation: kernel, output_permutation: output]
            ]
          end)
        end)
      end)
    end)
  end
end
