defmodule ExBurn.Backend.Reading do
  @moduledoc """
  From a tensor in native memory, here or on another node, to what Elixir reads: binaries, text, batches.
  """

  alias ExBurn.{Backend, Error, NIF}
  alias ExBurn.Defn.Recording
  alias Nx.Tensor, as: T

  # Copying this many bytes ends within a millisecond.
  @light_bytes 256 * 1024

  @doc """
  The bits of the first `limit` elements. Only the node that made a tensor can read it.
  """
  @spec to_binary(Nx.Tensor.t(), non_neg_integer()) :: bitstring()
  def to_binary(t, limit)

  def to_binary(%T{data: %Backend{ref: ref, device: device}, type: {_, size}}, limit)
      when node(ref) == node() do
    binary =
      if device == :cpu and limit * max(size, 8) <= 8 * @light_bytes,
        do: Error.unwrap!(NIF.tensor_to_binary(ref, limit)),
        else: Error.unwrap!(NIF.tensor_to_binary_dirty(ref, limit))

    if size < 8, do: cut(binary, limit * size), else: binary
  end

  def to_binary(%T{data: %Backend{ref: {:recorded, recorded}}}, _limit),
    do: <<Recording.ask(recorded)>>

  def to_binary(t, limit), do: remote(:to_binary, t, [limit])

  @doc """
  A stream of batches like `out`, which `Nx.to_batched/3` describes.
  """
  @spec to_batched(Nx.Tensor.t(), Nx.Tensor.t(), keyword()) :: Enumerable.t()
  def to_batched(out, t, opts) do
    batch = elem(out.shape, 0)
    rows = elem(t.shape, 0)
    whole = div(rows, batch)
    full = Stream.map(0..(whole - 1)//1, &Nx.slice_along_axis(t, &1 * batch, batch, axis: 0))

    case {rem(rows, batch), opts[:leftover]} do
      {0, _} -> full
      {_, :discard} -> full
      {left, :repeat} -> Stream.concat(full, [leftover(t, whole * batch, left, batch)])
    end
  end

  # The last batch is filled up from the start.
  defp leftover(t, start, left, batch) do
    tail = Nx.slice_along_axis(t, start, left, axis: 0)
    filler = Stream.cycle([t]) |> Enum.take(div(batch, elem(t.shape, 0)) + 1)
    [tail | filler] |> Nx.concatenate(axis: 0) |> Nx.slice_along_axis(0, batch, axis: 0)
  end

  @doc """
  The tensor as text, for which only what is printed is copied.
  """
  @spec inspect(Nx.Tensor.t(), Inspect.Opts.t()) :: Inspect.Algebra.t()
  def inspect(t, opts)

  def inspect(%T{data: %Backend{ref: {:recorded, _}}}, _opts), do: Recording.unknown!()

  # A tensor without memory can still be printed, in an error message say.
  def inspect(%T{} = t, opts) do
    limit = if opts.limit == :infinity, do: Nx.size(t), else: min(opts.limit + 1, Nx.size(t))
    {t, binary} = printable(t, to_binary(t, limit))
    Nx.Backend.inspect(t, binary, opts)
  rescue
    error in Error -> "(#{Exception.message(error)})"
  end

  # Nx prints elements of whole bytes only.
  defp printable(%T{type: {:u, size}} = t, bits) when size < 8,
    do: {%{t | type: {:u, 8}}, for(<<n::size(size) <- bits>>, into: <<>>, do: <<n>>)}

  defp printable(%T{type: {:s, size}} = t, bits) when size < 8,
    do: {%{t | type: {:s, 8}}, for(<<n::signed-size(size) <- bits>>, into: <<>>, do: <<n>>)}

  defp printable(t, binary), do: {t, binary}

  defp cut(binary, size) do
    <<bits::bitstring-size(size), _padding::bitstring>> = binary
    bits
  end

  @doc """
  What the callback `op` of `ExBurn.Backend` answers on the node of a tensor. An error there is an error here.
  """
  @spec remote(atom(), Nx.Tensor.t(), [term()]) :: term()
  def remote(op, t, args \\ [])

  def remote(_op, %T{data: %Backend{ref: {:recorded, _}}}, _args), do: Recording.unknown!()

  def remote(op, %T{data: %Backend{ref: ref}} = t, args) do
    :erpc.call(node(ref), Backend, op, [t | args])
  rescue
    error in ErlangError ->
      case error.original do
        {:exception, %{__exception__: true} = reason, _stack} ->
          reraise reason, __STACKTRACE__

        reason ->
          reraise Error, [op: op, reason: unreachable(node(ref), reason)], __STACKTRACE__
      end
  end

  # A reference from elsewhere keeps nothing alive; where its memory was freed it refers to nothing.
  defp unreachable(node, {:exception, :badarg, [{NIF, _, _, _} | _]}) do
    "the tensor was on #{node}, where no process holds it any more; " <>
      "it lives as long as one on its own node has it"
  end

  defp unreachable(node, reason),
    do: "the tensor is on #{node}, which does not answer: #{inspect(reason)}"
end
