defmodule ExBurn.Backend do
  @moduledoc """
  A `Nx.Backend` whose tensors live in native memory and whose operations run in the engine.

      Nx.default_backend(ExBurn.Backend)
      Nx.add(Nx.tensor([1, 2]), 3)

  Each callback is one instruction (`ExBurn.Instruction`) and one native call.

  ## Options

    * `:device` - where tensors are made, see `ExBurn.Device`. Defaults to the default device

  An operation runs where its first operand on a GPU is, else on the CPU.

  ## Types

  All types of Nx. Sub-byte integers and 8-bit floats are stored as such and computed in wider types, with one rounding
  or wrapping at the end; complex numbers are computed in 64 bits. Nothing falls back to another backend.

  Functions of `f32` are within one unit of the last place of the right value, those of `f64` are as good as the C library's.
  `Nx.erf_inv/1` alone is not: it is the polynomial that Nx defines it by, which is right to 7 digits, in `f64` too.

  Decompositions of real `f32` matrices of up to 5 rows and columns take the steps of Nx's own definitions and print the digits
  of Nx's documentation; larger ones, `f64` and complex ones are those of a library. So is a small one where the definition
  is wrong, but for one thing: the vector in U of a singular value of 0 may be shorter than 1, as Nx has it.

  A division of integers by zero raises `ArithmeticError`, as `Nx.BinaryBackend` does; of a power of integers with a negative
  exponent the whole part stays, where that raises: `Nx.pow(2, -1)` is 0, and 0 to such a power raises.

  Tensors of other backends are accepted as operands and copied. So are tensors of this backend that live on another node;
  the process there has to keep them.

  ## Functions of the user

  `Nx.reduce/4` and `Nx.window_reduce/5` run their function once for each way through it, not for each element, to see what it
  does (`ExBurn.Defn.Recording`), and then do that natively to all elements. A function that reads numbers into Elixir, such
  as `Nx.to_number(x) + 1`, is called on each element; and so is one with a `while` whose end depends on the elements when
  `Nx.Defn.Evaluator` runs it. `ExBurn.Defn.Compiler` has no such exception.

  While a function is run so, its arguments are tensors without values: what it sends to other processes or keeps, as a hook may
  that `Nx.Defn.Evaluator` runs, raises `ExBurn.Error` when it is used there. A number that Elixir draws at random is drawn once,
  not for each element.

  A function gets elements in the type of the result, as `Nx.Defn` has it: of a tensor of `u8` and a start of 300 they are `s32`,
  where `Nx.BinaryBackend` gives it `u8`.

  A function of elementwise operations on real numbers becomes a loop, which takes some ten nanoseconds for an element and
  operation, and less where many results are folded side by side. Any other function, such as one of complex numbers or
  of products of small matrices, is run as a program on each element, which takes some microseconds. A fold of Nx's own,
  such as `Nx.sum/2`, takes less than a nanosecond.

  ## Memory

  `Nx.to_binary/1` answers a binary over the tensor's own memory, and `Nx.from_binary/3` makes a tensor over the binary,
  unless

    * it is small,
    * it is less than half of what it would keep alive: a slice of a tensor, a part of a binary,
    * its elements do not lie in order, as in a transposed tensor, or are not aligned.

  Neither is ever written to: an operation reuses memory only when nothing else does.

  Memory comes back when nobody refers to it any more; the VM sees how large tensors are and collects garbage accordingly.
  `Nx.backend_deallocate/1` gives it back at once, except what a binary shares.

  ## Pointers

  `Nx.to_pointer/2` knows `:mode`, which is `:local` or `:ipc`, and `:permissions`, the mode bits of the shared memory
  (`0o400`, read by the owner). A local pointer is valid until the tensor is deallocated or collected, so keep it in use.
  For `:ipc` the tensor moves into POSIX shared memory, once; the handle is its name, which goes with the tensor, while a
  process that opened it before can read on.

  `Nx.from_pointer/5` makes a tensor over the memory, for which the caller vouches: it has to outlive the tensor. Memory that
  cannot be read is refused where the system tells, on Linux. Elements of less than a byte take one byte.
  """

  @behaviour Nx.Backend

  alias ExBurn.Backend.Reading
  alias ExBurn.Defn.Recording
  alias ExBurn.{Cost, Device, Error, Fallback, Instruction, NIF, Pointer, Type}
  alias Nx.Tensor, as: T

  @enforce_keys [:ref]
  defstruct [:ref, :memory, device: :cpu, donated?: false]

  @typedoc """
  A tensor's native reference, or what stands for one while `ExBurn.Defn.Recording` records; and for large tensors a binary
  that stands for their memory: the VM counts its size and collects garbage in time, while what is behind a reference is
  invisible to it.
  """
  @type t :: %__MODULE__{
          ref: reference() | {:recorded, tuple()},
          memory: binary() | nil,
          device: Device.t(),
          donated?: boolean()
        }

  @traced [compiler: ExBurn.Defn.Compiler]

  # Copying this many bytes ends within a millisecond.
  @light_bytes 256 * 1024

  # Tensors of this many bytes have their memory counted, and share it with the binary they are made from.
  @large_bytes 32 * 1024

  @impl true
  def init([device: :cpu] = opts), do: opts

  def init(opts) do
    case Keyword.validate(opts, [:device]) do
      {:ok, []} -> [device: Device.default()]
      {:ok, [device: device]} -> [device: Device.validate!(device)]
      {:error, unknown} -> unknown_options!(unknown)
    end
  end

  defp unknown_options!(unknown) do
    raise ArgumentError, "unknown options #{inspect(unknown)}, ExBurn.Backend knows :device"
  end

  ## Single instructions

  callbacks =
    for(name <- Instruction.unary(), do: {name, 1}) ++
      for(name <- Instruction.binary(), do: {name, 2}) ++
      [as_type: 1, bitcast: 1, reshape: 1, select: 3, clip: 3] ++
      [squeeze: 2, broadcast: 3, transpose: 2, reverse: 2, pad: 3, concatenate: 2, stack: 2] ++
      [slice: 4, put_slice: 3, gather: 3, indexed_add: 4, indexed_put: 4] ++
      [dot: 6, conv: 3, triangular_solve: 3, fft: 2, ifft: 2] ++
      [all: 2, any: 2, sum: 2, product: 2, reduce_max: 2, reduce_min: 2] ++
      [argmax: 2, argmin: 2, sort: 2, argsort: 2] ++
      [window_sum: 3, window_product: 3, window_max: 3, window_min: 3] ++
      [window_scatter_max: 5, window_scatter_min: 5]

  for {name, arity} <- callbacks do
    args = Macro.generate_arguments(arity, __MODULE__)

    @impl true
    def unquote(name)(out, unquote_splicing(args)),
      do: run(out, Instruction.build(unquote(name), out, [unquote_splicing(args)]))
  end

  @impl true
  def constant(out, number, opts), do: create(out, :constant, [number], opts)

  @impl true
  def eye(out, opts), do: create(out, :eye, [], opts)

  @impl true
  def iota(out, axis, opts), do: create(out, :iota, [axis], opts)

  # Nx checks the options of a default backend with `init/1`, but not those of a single tensor.
  defp create(out, name, args, opts) do
    [device: device] = init(opts)
    out |> run(Instruction.build(name, out, args)) |> place(device)
  end

  # The tensor on a device.
  defp place(%T{data: %__MODULE__{device: device}} = t, device), do: t
  defp place(%T{data: %__MODULE__{ref: {:recorded, _}}} = t, _device), do: t

  defp place(%T{data: %__MODULE__{ref: ref}} = t, device) do
    {kind, index} = Device.parts(device)
    put(t, Error.unwrap!(NIF.tensor_to_device(ref, kind, index)), device)
  end

  @impl true
  def reduce(out, t, acc, opts, fun) do
    opts = Keyword.take(opts, [:axes, :keep_axes])
    op = &{:custom_reduce, %{axes: opts[:axes], keep_axes: opts[:keep_axes] || false, body: &1}}

    case Recording.body(fun, out.type) do
      {:ok, body, captures} ->
        run(out, {op.(body), [t, acc | captures]})

      unknown ->
        opts = [type: out.type] ++ opts

        trace =
          &Nx.Defn.jit_apply(fn t, acc -> Nx.reduce(t, acc, opts, &1) end, [t, acc], @traced)

        call = &Nx.BinaryBackend.reduce(out, on_binary(t), on_binary(acc), opts, &1)
        branching(out, fun, unknown, trace, call)
    end
  end

  @impl true
  def window_reduce(out, t, acc, dimensions, opts, fun) do
    windows = Instruction.windows(dimensions, opts)

    case Recording.body(fun, out.type) do
      {:ok, body, captures} ->
        run(out, {{:custom_window_reduce, %{windows: windows, body: body}}, [t, acc | captures]})

      unknown ->
        reduce = &Nx.window_reduce(&1, &2, dimensions, opts, &3)
        trace = &Nx.Defn.jit_apply(fn t, acc -> reduce.(t, acc, &1) end, [t, acc], @traced)
        call = &reduce.(on_binary(t), on_binary(acc), &1)
        branching(out, fun, unknown, trace, call)
    end
  end

  # A function that can't be recorded is traced as `defn`, where its loops may go on as long as they like. One that can't be
  # traced either has to be called on each element: it reads numbers into Elixir, goes on after exceptions, or is a loop of
  # `Nx.Defn.Evaluator`'s, which has traced it already and alone knows its end.
  defp branching(out, fun, :untraceable, _trace, call), do: each(out, fun, call)

  defp branching(out, fun, :unknown, trace, call) do
    trace.(fun)
  rescue
    # What the engine says of the program.
    error in [Error, ArithmeticError] -> reraise error, __STACKTRACE__
    # What can't be traced, as a value that is read or a tensor from around the function.
    _error -> each(out, fun, call)
  else
    result -> %{out | data: result.data}
  end

  defp each(out, fun, call) do
    typed = fn x, acc ->
      [x, acc] = Enum.map([x, acc], &Nx.as_type(&1, out.type))
      fun.(x, acc) |> Nx.to_tensor() |> Nx.as_type(out.type) |> on_binary()
    end

    put(out, ref(call.(typed)))
  end

  defp on_binary(t), do: Nx.backend_copy(t, Nx.BinaryBackend)

  @impl true
  def block(struct, output, args, fun) do
    operands = Enum.take_while(args, &(not is_list(&1)))

    case instruction(struct, operands) do
      :default -> Nx.with_default_backend(__MODULE__, fn -> apply(fun, [struct | args]) end)
      instruction -> run(output, instruction)
    end
  end

  # Complex numbers have no order: Nx's own function says so.
  defp instruction(%Nx.Block.TopK{}, [%T{type: {:c, _}} | _]), do: :default

  defp instruction(struct, operands), do: Instruction.block(struct, operands)

  # A tuple of outputs makes a tuple of results.
  defp run(%T{} = out, {op, operands}) do
    device = device_of_all(operands)
    [ref] = run_refs(op, operands, [Type.of(out)], device)
    put(out, ref, device)
  end

  defp run(outs, {op, operands}) when is_tuple(outs) do
    outs = Tuple.to_list(outs)
    device = device_of_all(operands)
    refs = run_refs(op, operands, Enum.map(outs, &Type.of/1), device)

    outs |> Enum.zip_with(refs, &put(&1, &2, device)) |> List.to_tuple()
  end

  # The first GPU that an operand is on, else the CPU.
  defp device_of_all([%T{data: %__MODULE__{device: device}} | _]) when device != :cpu, do: device
  defp device_of_all([_ | operands]), do: device_of_all(operands)
  defp device_of_all([]), do: :cpu

  defp run_refs(op, operands, types, device) do
    if Enum.any?(operands, &Recording.recorded?/1),
      do: Recording.emit(op, operands, types),
      else: run_native(op, operands, types, device)
  end

  defp run_native(op, operands, types, :cpu) do
    cost = Cost.alone(op, Enum.map(operands, &type/1), types)
    refs = Enum.map(operands, &ref/1)

    if Cost.brief?(cost),
      do: Error.unwrap!(NIF.instruction_run(op, refs, types)),
      else: Error.unwrap!(NIF.instruction_run_dirty(op, refs, types))
  end

  defp run_native(op, operands, types, device) do
    {kind, index} = Device.parts(device)
    refs = Enum.map(operands, &ref/1)
    result = NIF.instruction_run_on(op, refs, types, kind, index)
    Fallback.report(device)
    Error.unwrap!(result)
  end

  defp type(%T{} = t), do: Type.of(t)
  defp type(integer) when is_integer(integer), do: {:s64, []}

  @doc """
  The tensor that `template` describes over the memory of a native reference.

  ## Examples

      iex> t = Nx.tensor([1, 2], type: :s32, backend: ExBurn.Backend)
      iex> again = ExBurn.Backend.put(Nx.template({2}, :s32), ExBurn.Backend.ref(t))
      iex> Nx.to_list(again)
      [1, 2]

  """
  @spec put(Nx.Tensor.t(), reference(), Device.t()) :: Nx.Tensor.t()
  def put(%T{} = template, ref, device \\ :cpu) do
    bytes = bytes(template)
    memory = if bytes >= @large_bytes, do: NIF.memory_stand_in(bytes)
    %{template | data: %__MODULE__{ref: ref, memory: memory, device: device}}
  end

  @doc """
  The device that a tensor is on: the CPU where it is of another backend.
  """
  @spec device(Nx.Tensor.t()) :: Device.t()
  def device(%T{data: %__MODULE__{device: device}}), do: device
  def device(%T{}), do: :cpu

  # Native memory holds one element of less than a byte in each byte.
  defp bytes(%T{type: {_, bits}, shape: shape}), do: Tuple.product(shape) * div(bits + 7, 8)

  @doc """
  The native reference of a tensor, which is copied if it lives on another backend or another node. An integer stands for an
  `s64` scalar.
  """
  @spec ref(Nx.Tensor.t() | integer()) :: reference()
  def ref(%T{data: %__MODULE__{ref: ref}}) when node(ref) == node(), do: ref
  def ref(%T{data: %__MODULE__{}} = t), do: upload(t, to_binary(t, Nx.size(t)))

  def ref(%T{data: %Nx.TemplateBackend{}} = t) do
    raise Error,
      op: :from_nx,
      reason: "got #{ExBurn.Options.short(t)}, a template, expected a tensor with values"
  end

  def ref(%T{data: %Nx.Defn.Expr{}}) do
    raise Error,
      op: :from_nx,
      reason:
        "got an expression, expected a tensor with values; a compiled function that another one calls " <>
          "while it is traced is a part of that with on_conflict: :reuse"
  end

  def ref(%T{data: %backend{}} = t) do
    t = Nx.devectorize(t)
    upload(t, backend.to_binary(t, Nx.size(t)))
  end

  def ref(integer) when is_integer(integer),
    do: upload(%T{type: {:s, 64}, shape: {}, names: []}, <<integer::64-native>>)

  @doc """
  The native reference of a new tensor like `template` from its elements' bits, row by row. See "Memory" above.

  A number of bits other than the template's raises `ExBurn.Error`.

  ## Examples

      iex> template = Nx.template({3}, :u4)
      iex> ref = ExBurn.Backend.upload(template, <<1::4, 2::4, 3::4>>)
      iex> template |> ExBurn.Backend.put(ref) |> Nx.to_flat_list()
      [1, 2, 3]

  """
  @spec upload(Nx.Tensor.t(), bitstring()) :: reference()
  def upload(template, bits)

  # Nx writes elements of less than a byte one after the other; the last byte may not be full.
  def upload(%T{type: {_, size}} = t, bits) when size < 8 do
    padding = rem(8 - rem(bit_size(bits), 8), 8)
    Error.unwrap!(NIF.tensor_from_binary_dirty(Type.of(t), <<bits::bitstring, 0::size(padding)>>))
  end

  def upload(t, binary) do
    cond do
      byte_size(binary) >= @large_bytes and whole?(binary) ->
        Error.unwrap!(NIF.tensor_over_binary(Type.of(t), binary))

      byte_size(binary) <= @light_bytes ->
        Error.unwrap!(NIF.tensor_from_binary(Type.of(t), binary))

      true ->
        Error.unwrap!(NIF.tensor_from_binary_dirty(Type.of(t), binary))
    end
  end

  # A tensor over a small part of a binary would keep all of it.
  defp whole?(binary), do: :binary.referenced_byte_size(binary) <= 2 * byte_size(binary)

  ## Transfer

  @impl true
  def from_binary(out, binary, opts) do
    [device: device] = init(opts)
    out |> put(upload(out, binary)) |> place(device)
  end

  @impl true
  def backend_copy(t, Nx.Tensor, opts), do: backend_copy(t, Nx.BinaryBackend, opts)

  def backend_copy(%T{data: %__MODULE__{ref: ref}} = t, __MODULE__, opts)
      when node(ref) == node() do
    [device: device] = init(opts)

    if device == t.data.device and device == :cpu,
      do: put(t, Error.unwrap!(NIF.tensor_copy(ref))),
      else: place(t, device)
  end

  def backend_copy(t, backend, opts), do: backend.from_binary(t, to_binary(t, Nx.size(t)), opts)

  @impl true
  def backend_transfer(%T{data: %__MODULE__{ref: ref}} = t, __MODULE__, opts)
      when is_tuple(ref) or node(ref) == node() do
    [device: device] = init(opts)
    moved = place(t, device)
    # The original of a copy is given up, as where another backend takes it.
    if is_reference(ref) and moved.data.ref != ref, do: NIF.tensor_free(ref)
    moved
  end

  def backend_transfer(t, backend, opts) do
    copy = backend_copy(t, backend, opts)
    backend_deallocate(t)
    copy
  end

  @impl true
  def backend_deallocate(%T{data: %__MODULE__{ref: ref}}) when node(ref) == node() do
    if NIF.tensor_free(ref), do: :ok, else: :already_deallocated
  end

  def backend_deallocate(t), do: Reading.remote(:backend_deallocate, t)

  @impl true
  defdelegate to_binary(t, limit), to: Reading

  @impl true
  defdelegate to_batched(out, t, opts), to: Reading

  @impl true
  defdelegate inspect(t, opts), to: Reading

  @impl true
  def to_pointer(t, opts), do: Pointer.of(t, opts)

  @impl true
  def from_pointer(pointer, type, shape, backend_opts, opts) do
    init(backend_opts)
    template = Nx.template(shape, type, names: opts[:names])
    put(template, Pointer.ref(pointer, template, bytes(template)))
  end
end
