defmodule ExBurn.LayoutTest do
  @moduledoc """
  Operations on tensors whose axes lie otherwise in memory than their order says.

  Small integers, so that all results are exact.
  """

  use ExUnit.Case, async: true

  import Nx.Defn

  @orders for a <- 0..3,
              b <- 0..3,
              c <- 0..3,
              d <- 0..3,
              Enum.sort([a, b, c, d]) == [0, 1, 2, 3],
              do: [a, b, c, d]
  @shape {3, 4, 5, 2}
  @types [{:f, 32}, {:f, 64}, {:bf, 16}, {:s, 8}, {:u, 64}, {:c, 64}]

  defn elementwise(x, y, bias),
    do: Nx.max(x * y - bias, x) + Nx.select(x > y, x, 0) * Nx.as_type(y, :s32)

  defn complex(x, y, bias), do: (x * y - bias) * x + Nx.conjugate(y)

  # The numbers stand apart, so that it shows where each comes to lie.
  defp image(type, backend, order, start) do
    lengths = Enum.map(order, &elem(@shape, &1))
    count = Tuple.product(@shape)
    back = for axis <- 0..3, do: Enum.find_index(order, &(&1 == axis))
    numbers = Nx.iota({count}, type: :s32, backend: backend)

    numbers
    |> Nx.multiply(37)
    |> Nx.add(start)
    |> Nx.remainder(11)
    |> Nx.as_type(type)
    |> Nx.reshape(List.to_tuple(lengths))
    |> Nx.transpose(axes: back)
  end

  defp same(call) do
    right = call.(Nx.BinaryBackend)
    assert %ExBurn.Backend{} = call.(ExBurn.Backend).data
    assert Nx.to_binary(call.(ExBurn.Backend)) == Nx.to_binary(right)
  end

  for type <- @types do
    test "elementwise functions of #{inspect(type)} in any order of the axes" do
      type = unquote(Macro.escape(type))

      function =
        unquote(
          if elem(type, 0) == :c, do: quote(do: &complex/3), else: quote(do: &elementwise/3)
        )

      for left <- @orders, right <- Enum.take_random(@orders, 3), right <- [left, right] do
        same(fn backend ->
          operands = [
            image(type, backend, left, 1),
            image(type, backend, right, 5),
            Nx.reshape(Nx.iota({4}, type: type, backend: backend), {1, 4, 1, 1})
          ]

          compiler =
            if backend == ExBurn.Backend, do: ExBurn.Defn.Compiler, else: Nx.Defn.Evaluator

          compiled = Nx.Defn.jit_apply(function, operands, compiler: compiler)
          # One operation after the other, too.
          if backend == ExBurn.Backend do
            eager = Nx.Defn.jit_apply(function, operands, compiler: Nx.Defn.Evaluator)
            assert Nx.to_binary(eager) == Nx.to_binary(compiled)
          end

          compiled
        end)
      end
    end
  end

  for {window, options} <- [
        {{1, 1, 2, 2}, [strides: [1, 1, 2, 2]]},
        {{1, 1, 2, 2}, [padding: :same]},
        {{2, 1, 1, 1}, []},
        {{2, 3, 2, 1}, [strides: [1, 2, 1, 1], padding: [{0, 1}, {1, 0}, {0, 0}, {1, 1}]]},
        {{1, 2, 1, 2}, [window_dilations: [1, 2, 1, 1]]}
      ] do
    test "windows #{inspect(window)} #{inspect(options)} in any order of the axes" do
      {window, options} = {unquote(Macro.escape(window)), unquote(options)}

      for order <- @orders, fold <- [:window_max, :window_min, :window_sum, :window_product] do
        same(&apply(Nx, fold, [image({:f, 32}, &1, order, 2), window, options]))
      end
    end
  end

  for fold <- [:window_scatter_max, :window_scatter_min] do
    test "#{fold} in any order of the axes" do
      for order <- @orders,
          other <- Enum.take_random(@orders, 2),
          {window, options} <- scatters() do
        same(fn backend ->
          x = image({:f, 32}, backend, order, 3)
          source = image({:f, 32}, backend, other, 7)
          counts = Nx.shape(Nx.window_max(x, window, options))
          slice = Nx.slice(source, [0, 0, 0, 0], Tuple.to_list(counts))
          apply(Nx, unquote(fold), [x, slice, 1.0, window, options])
        end)
      end
    end
  end

  defp scatters do
    [
      {{1, 1, 2, 2}, [strides: [1, 1, 2, 2], padding: :valid]},
      {{1, 2, 2, 1}, [strides: [1, 1, 1, 1], padding: [{0, 0}, {0, 1}, {1, 0}, {0, 0}]]},
      {{3, 1, 1, 2}, [strides: [1, 2, 1, 1], padding: :valid]}
    ]
  end
end
