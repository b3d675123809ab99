defmodule ExBurn.Tensor do
  @moduledoc """
  Tensors of the native part, with no Nx in the way.

  A `%ExBurn.Tensor{}` names memory on a device. `from_nx/1` and `to_nx/1` go to `Nx.Tensor` and back; between
  `ExBurn.Backend` and this module nothing is copied. Types are written as Nx writes them, `:f32` or `{:f, 32}`, shapes as
  tuples.
  """

  alias ExBurn.{Backend, Error, Instruction, NIF, Type}
  alias Nx.Tensor, as: T

  @enforce_keys [:ref, :type, :shape]
  defstruct [:ref, :type, :shape]

  @type t :: %__MODULE__{ref: reference(), type: Nx.Type.t(), shape: tuple()}

  @doc """
  A tensor of zeros.

  ## Examples

      iex> ExBurn.Tensor.zeros({2, 3}, :f32) |> ExBurn.Tensor.shape()
      {2, 3}

  """
  @spec zeros(tuple(), Nx.Type.t() | atom()) :: t()
  def zeros(shape, type), do: full(:zeros, shape, type, 0)

  @doc """
  A tensor of ones.

  ## Examples

      iex> {:ok, tensor} = ExBurn.Tensor.ones({2}, :u8) |> ExBurn.Tensor.to_nx()
      iex> Nx.to_list(tensor)
      [1, 1]

  """
  @spec ones(tuple(), Nx.Type.t() | atom()) :: t()
  def ones(shape, type), do: full(:ones, shape, type, 1)

  defp full(op, shape, type, number) do
    template = template!(op, shape, type)
    instruction = {:constant, %{bytes: Instruction.element_bytes(template.type, number)}}
    [ref] = Error.unwrap!(NIF.instruction_run_dirty(instruction, [], [Type.of(template)]))
    of(ref, template)
  end

  @doc """
  Random numbers, evenly from 0 up to but not including 1. The type is a float.

  Each call draws others; for a stream that can be repeated, see `Nx.Random`.

  ## Examples

      iex> {:ok, tensor} = ExBurn.Tensor.rand({100}, :f32) |> ExBurn.Tensor.to_nx()
      iex> Enum.all?(Nx.to_list(tensor), &(&1 >= 0 and &1 < 1))
      true

  """
  @spec rand(tuple(), Nx.Type.t() | atom()) :: t()
  def rand(shape, type) do
    template = template!(:rand, shape, type)

    if not Nx.Type.float?(template.type) do
      raise Error, op: :rand, reason: "type is #{inspect(type)}, expected a float such as :f32"
    end

    draw = fn key ->
      {numbers, _key} = Nx.Random.uniform(key, shape: template.shape, type: template.type)
      numbers
    end

    key = Nx.from_binary(:crypto.strong_rand_bytes(8), :u32, backend: Backend)
    %T{data: %Backend{ref: ref}} = Nx.Defn.jit_apply(draw, [key], compiler: ExBurn.Defn.Compiler)
    of(ref, template)
  end

  @doc """
  The tensor of an `Nx.Tensor`. One on another backend is copied.

  ## Examples

      iex> {:ok, tensor} = ExBurn.Tensor.from_nx(Nx.tensor([1, 2]))
      iex> ExBurn.Tensor.type(tensor)
      {:s, 32}

  """
  @spec from_nx(Nx.Tensor.t()) :: {:ok, t()} | {:error, Error.t()}
  def from_nx(%T{} = tensor), do: ok(fn -> of(Backend.ref(tensor), tensor) end)

  @doc """
  The `Nx.Tensor` on `ExBurn.Backend` over the same memory.

  ## Examples

      iex> {:ok, tensor} = ExBurn.Tensor.to_nx(ExBurn.Tensor.zeros({2}, :s64))
      iex> Nx.to_list(tensor)
      [0, 0]

  """
  @spec to_nx(t()) :: {:ok, Nx.Tensor.t()} | {:error, Error.t()}
  def to_nx(%__MODULE__{ref: ref} = tensor) do
    ok(fn ->
      Error.unwrap!(NIF.tensor_type(ref))
      names = List.duplicate(nil, tuple_size(tensor.shape))
      Backend.put(%T{type: tensor.type, shape: tensor.shape, names: names}, ref)
    end)
  end

  @doc """
  A tensor of `type` and `shape` from its elements' bytes, row by row, in the byte order of the machine. Elements of less
  than a byte are packed, as in `Nx.from_binary/3`.

  ## Examples

      iex> {:ok, tensor} = ExBurn.Tensor.from_binary(<<1, 2, 3>>, :u8, {3})
      iex> ExBurn.Tensor.shape(tensor)
      {3}
      iex> {:error, error} = ExBurn.Tensor.from_binary(<<1, 2>>, :u8, {3})
      iex> Exception.message(error)
      "from_binary: 2 bytes do not make a tensor of u8[3]"

  """
  @spec from_binary(bitstring(), Nx.Type.t() | atom(), tuple()) ::
          {:ok, t()} | {:error, Error.t()}
  def from_binary(bits, type, shape) when is_bitstring(bits) do
    ok(fn ->
      template = template!(:from_binary, shape, type)
      of(Backend.upload(template, bits), template)
    end)
  end

  @doc """
  Gives the memory back now; using the tensor again is an error. Without it, that happens by garbage collection.

  ## Examples

      iex> tensor = ExBurn.Tensor.zeros({2}, :f32)
      iex> ExBurn.Tensor.free(tensor)
      :ok
      iex> {:error, error} = ExBurn.Tensor.to_nx(tensor)
      iex> error.reason
      :deallocated

  """
  @spec free(t()) :: :ok
  def free(%__MODULE__{ref: ref}) do
    NIF.tensor_free(ref)
    :ok
  end

  @doc """
  The shape.

  ## Examples

      iex> ExBurn.Tensor.shape(ExBurn.Tensor.zeros({}, :f32))
      {}

  """
  @spec shape(t()) :: tuple()
  def shape(%__MODULE__{shape: shape}), do: shape

  @doc """
  The element type.

  ## Examples

      iex> ExBurn.Tensor.type(ExBurn.Tensor.zeros({2}, :bf16))
      {:bf, 16}

  """
  @spec type(t()) :: Nx.Type.t()
  def type(%__MODULE__{type: type}), do: type

  defp of(ref, %{type: type, shape: shape}),
    do: %__MODULE__{ref: ref, type: type, shape: shape}

  defp template!(op, shape, type) do
    Nx.template(Nx.shape(shape), type)
  rescue
    error in [ArgumentError, FunctionClauseError] ->
      reraise Error,
              [op: op, reason: error |> Exception.message() |> String.split("\n") |> hd()],
              __STACKTRACE__
  end

  defp ok(fun) do
    {:ok, fun.()}
  rescue
    error in Error -> {:error, error}
  end
end
