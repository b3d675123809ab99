defmodule ExBurn.Donation do
  @moduledoc """
  Tensors whose memory the next compiled function may take.
  """

  alias ExBurn.Backend
  alias Nx.Tensor, as: T

  @doc """
  Lets the next function compiled by `ExBurn.Defn.Compiler` that gets these tensors, and reads them, take their memory.

  Its results may be written over them: a training step then updates parameters in place, and a cache that grows by a row
  is not copied. They cannot be used after that, whether or not the function succeeded: that raises `ExBurn.Error`.
  `container` is a tensor of any type and shape or an `Nx.Container` of such; anything else raises as that protocol does.
  Tensors of other backends stay as they are, and so does memory that someone else sees, such as a binary
  or a view. A local pointer to a tensor ends with it: what was made over the pointer sees the results.

  ## Examples

      iex> step = Nx.Defn.jit(&Nx.add/2, compiler: ExBurn.Defn.Compiler)
      iex> sum = Nx.tensor([1, 2], backend: ExBurn.Backend)
      iex> Nx.to_list(step.(ExBurn.donate(sum), 1))
      [2, 3]
      iex> Nx.to_list(sum)
      ** (ExBurn.Error) to_binary: the tensor has been deallocated

  """
  @spec donate(Nx.Container.t()) :: Nx.Container.t()
  def donate(container), do: Nx.Defn.Composite.traverse(container, &mark/1)

  defp mark(%T{data: %Backend{} = data} = t), do: %{t | data: %{data | donated?: true}}
  defp mark(other), do: other

  @doc """
  Whether the next compiled function that gets the tensor takes its memory. `Nx.donatable/1`, where this Nx has it, says
  so too.

  ## Examples

      iex> tensor = Nx.tensor([1, 2], backend: ExBurn.Backend)
      iex> {ExBurn.Donation.donated?(tensor), ExBurn.Donation.donated?(ExBurn.donate(tensor))}
      {false, true}

  """
  @spec donated?(Nx.Tensor.t() | integer()) :: boolean()
  def donated?(%T{data: %Backend{donated?: true}}), do: true
  def donated?(%T{data: %Backend{}} = t), do: Map.get(t, :donatable?, false)
  def donated?(_other), do: false
end
