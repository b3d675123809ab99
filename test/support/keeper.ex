defmodule ExBurn.Keeper do
  @moduledoc """
  A process on another node that keeps a tensor, for tests.
  """

  @doc """
  The tensor 0.0, 1.0, … of `shape`, made and kept on `node` as long as the caller lives.
  """
  @spec iota(node(), tuple()) :: Nx.Tensor.t()
  def iota(node, shape) do
    pid = Node.spawn_link(node, __MODULE__, :keep, [self(), shape])
    receive do: ({^pid, tensor} -> tensor)
  end

  @doc false
  def keep(owner, shape) do
    tensor = Nx.iota(shape, type: :f32, backend: ExBurn.Backend)
    send(owner, {self(), tensor})
    receive do: (:never -> tensor)
  end
end
