defmodule ExBurn.Model.InitialKeys do
  @moduledoc """
  Random keys for the initializers of an Axon model that depend on the model and the seed alone.

  Axon makes the key of a parameter from the seed and the name of its layer. Layers without a name are counted in the order of
  a map, which is that of their creation up to 32 of them and changes from model to model beyond; and a block's layers get their
  seed from the clock. Here all are counted in the order of their creation, those of a block after the block's name. So the keys
  are Axon's own wherever Axon makes the same ones again.
  """

  @doc """
  The Axon model with initializers that take the keys of `seed`, whatever keys they are given.

  ## Examples

      iex> block = Axon.block(&Axon.dense(&1, 2))
      iex> axon = ExBurn.Model.InitialKeys.put(block.(Axon.input("x", shape: {nil, 2})), 1)
      iex> kernel = fn -> axon |> ExBurn.compile() |> ExBurn.parameters() |> get_in(["block_0", "dense_0", "kernel"]) end
      iex> Nx.to_binary(kernel.()) == Nx.to_binary(kernel.())
      true

  """
  @spec put(struct(), non_neg_integer()) :: struct()
  def put(axon, seed), do: put(axon, seed, "")

  defp put(%{nodes: nodes} = axon, seed, prefix) do
    in_order = nodes |> Map.values() |> Enum.sort_by(& &1.id)
    names = names(in_order, prefix)
    blocks = blocks(in_order, names, seed)
    numbers = for node <- in_order, p <- node.parameters, do: number(p, names[node.id])
    keys = numbers |> Enum.reject(&is_nil/1) |> keys(seed)

    %{
      axon
      | nodes: Map.new(nodes, fn {id, node} -> {id, node(node, names[id], keys, blocks)} end)
    }
  end

  # Axon's way to count: by operations, not by the names of operations.
  defp names(in_order, prefix) do
    {names, _counts} =
      Enum.map_reduce(in_order, %{}, fn %{id: id, op: op, name: name}, counts ->
        {{id, prefix <> name.(op, counts)}, Map.update(counts, op, 1, &(&1 + 1))}
      end)

    Map.new(names)
  end

  # A block that is used in several places is one block, which Axon builds once.
  defp blocks(in_order, names, seed) do
    for %{op: :block, id: id, parent: parents, opts: opts} <- Enum.reverse(in_order), into: %{} do
      inputs =
        for i <- Enum.take(0..length(parents), length(parents)), do: Axon.input("subgraph#{i}")

      inner = opts[:block_fun] |> apply(inputs) |> put(seed, names[id] <> ".")
      {opts[:block_id], constant(length(inputs), inner)}
    end
  end

  # A function of as many arguments as Axon gives a block, at most 128, which answers `value`.
  for count <- 0..128 do
    ignored = List.duplicate({:_, [], nil}, count)
    defp constant(unquote(count), value), do: fn unquote_splicing(ignored) -> value end
  end

  defp number(%{initializer: initializer} = parameter, layer) when is_function(initializer, 3) do
    <<number::32, _rest::binary>> = :erlang.md5("#{layer}.#{parameter.name}")
    number
  end

  defp number(_parameter, _layer), do: nil

  defp keys([], _seed), do: %{}

  defp keys(numbers, seed) do
    fold = &Nx.Random.fold_in(Nx.Random.key(seed), &1)
    numbers = Enum.uniq(numbers)

    bits =
      Nx.with_default_backend(Nx.BinaryBackend, fn ->
        data = Nx.tensor(numbers, type: :u32)
        fold |> Nx.Defn.jit_apply([data], compiler: Nx.Defn.Evaluator) |> Nx.to_binary()
      end)

    pairs = for <<key::binary-size(8) <- bits>>, do: key
    Map.new(Enum.zip(numbers, pairs))
  end

  defp node(%{op: :block, opts: opts} = node, _name, _keys, blocks),
    do: %{node | opts: Keyword.put(opts, :block_fun, blocks[opts[:block_id]])}

  defp node(%{parameters: parameters} = node, name, keys, _blocks),
    do: %{node | parameters: Enum.map(parameters, &parameter(&1, keys[number(&1, name)]))}

  defp parameter(parameter, nil), do: parameter

  defp parameter(%{initializer: initializer} = parameter, bits) do
    key = Nx.from_binary(bits, :u32, backend: Nx.BinaryBackend)
    %{parameter | initializer: fn shape, type, _key -> initializer.(shape, type, key) end}
  end
end
