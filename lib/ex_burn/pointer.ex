defmodule ExBurn.Pointer do
  @moduledoc false

  # The memory of tensors for code outside of the engine: `Nx.to_pointer/2` and `Nx.from_pointer/5`.

  alias ExBurn.{Backend, Error, NIF, Options, Type}
  alias Nx.Tensor, as: T

  @doc """
  The pointer to a tensor on this node.
  """
  @spec of(T.t(), keyword()) :: Nx.Pointer.t()
  def of(%T{data: %Backend{ref: ref}}, opts) when node(ref) == node() do
    opts = Options.validate!(:to_pointer, opts, mode: :local, permissions: 0o400)
    permissions = opts[:permissions]
    valid? = is_integer(permissions) and permissions in 0..0o7777
    Options.check!(valid?, :to_pointer, :permissions, permissions, "mode bits such as 0o400")

    case opts[:mode] do
      :local ->
        {address, size} = Error.unwrap!(NIF.tensor_address(ref))
        %Nx.Pointer{kind: :local, address: address, data_size: size}

      :ipc ->
        {name, size} = Error.unwrap!(NIF.tensor_share(ref, permissions))
        %Nx.Pointer{kind: :ipc, handle: name, data_size: size}

      mode ->
        Options.check!(false, :to_pointer, :mode, mode, ":local or :ipc")
    end
  end

  def of(%T{data: %Backend{ref: ref}}, _opts) when is_reference(ref) do
    raise Error,
      op: :to_pointer,
      reason: "the tensor is on #{node(ref)}, expected one of this node"
  end

  def of(recorded, _opts), do: Backend.ref(recorded)

  @doc """
  The native reference of a tensor of `bytes` bytes over what the pointer names.
  """
  @spec ref(Nx.Pointer.t(), T.t(), non_neg_integer()) :: reference()
  def ref(%Nx.Pointer{data_size: size}, template, bytes) when size not in [nil, bytes] do
    raise Error,
      op: :from_pointer,
      reason: "the pointer's data_size is #{inspect(size)}, #{describe(template)} takes #{bytes}"
  end

  def ref(%Nx.Pointer{kind: :local, address: address}, template, _bytes)
      when is_integer(address) and address in 0..0xFFFF_FFFF_FFFF_FFFF,
      do: Error.unwrap!(NIF.tensor_from_address(Type.of(template), address))

  def ref(%Nx.Pointer{kind: :ipc, handle: handle}, template, _bytes) when is_binary(handle) do
    if String.valid?(handle),
      do: Error.unwrap!(NIF.tensor_from_shared(Type.of(template), handle)),
      else: invalid!(handle)
  end

  def ref(pointer, _template, _bytes), do: invalid!(pointer)

  defp invalid!(got) do
    raise Error,
      op: :from_pointer,
      reason:
        "got #{inspect(got)}, expected an Nx.Pointer of kind :local with an address or of kind :ipc with a handle"
  end

  defp describe(%T{type: type, shape: shape}),
    do: "a tensor of #{Nx.Type.to_string(type)} and shape #{inspect(shape)}"
end
