defmodule ExBurn.Instruction do
  @moduledoc """
  From an Nx operation to an instruction of the engine.

  `Nx.Backend` callbacks and the nodes of `Nx.Defn.Expr` name the same operations and carry the same arguments, so this
  one translation serves both: `ExBurn.Backend` runs the instruction, `ExBurn.Defn.Lowering` adds it to a program.

  An instruction is `{op, operands}`: `op` is the engine's operation with its attributes (`:reshape`,
  `{:unary, :exp}`, `{:dot, %{…}}`: see `Op` in `native/engine/src/program/op.rs`) and `operands` lists the tensors it
  reads, or integers that stand for `s64` scalars.
  """

  alias Nx.Block.LinAlg
  alias Nx.Tensor, as: T

  @type op :: atom() | {atom(), term()}
  @type operand :: Nx.Tensor.t() | integer()

  @unary ~w(abs acos acosh asin asinh atan atanh bitwise_not cbrt ceil conjugate cos cosh count_leading_zeros erf erf_inv
            erfc exp expm1 floor imag is_infinity is_nan log log1p negate population_count real round rsqrt sigmoid sign
            sin sinh sqrt tan tanh)a

  @binary ~w(add atan2 bitwise_and bitwise_or bitwise_xor divide equal greater greater_equal left_shift less less_equal
             logical_and logical_or logical_xor max min multiply not_equal pow quotient remainder right_shift subtract)a

  @plain %{as_type: :cast, bitcast: :bitcast, reshape: :reshape, select: :select, clip: :clip}

  @folds %{all: :all, any: :any, sum: :sum, product: :product, reduce_max: :max, reduce_min: :min}
  @windows %{window_sum: :sum, window_product: :product, window_max: :max, window_min: :min}
  @scatters %{window_scatter_max: :max, window_scatter_min: :min}
  @arg_reductions %{argmax: :max, argmin: :min}
  @indexed ~w(gather indexed_add indexed_put)a

  @doc """
  Names of the elementwise operations of one operand.
  """
  def unary, do: @unary

  @doc """
  Names of the elementwise operations of two operands.
  """
  def binary, do: @binary

  @doc """
  The instruction of the Nx operation `name`, whose result is `out` and whose arguments are `args`, without the output.

  ## Examples

      iex> x = Nx.iota({2, 3})
      iex> {op, [_operand]} = ExBurn.Instruction.build(:sum, Nx.template({2}, :s32), [x, [axes: [1], keep_axes: false]])
      iex> op
      {:reduce, %{fold: :sum, axes: [1], keep_axes: false}}

  """
  @spec build(atom(), Nx.Tensor.t(), [term()]) :: {op(), [operand()]}
  def build(name, out, args)

  def build(name, _out, [t]) when name in @unary, do: {{:unary, name}, [t]}
  def build(name, _out, [l, r]) when name in @binary, do: {{:binary, name}, [l, r]}
  def build(name, _out, args) when is_map_key(@plain, name), do: {@plain[name], args}

  def build(:constant, out, [number]),
    do: {{:constant, %{bytes: element_bytes(out.type, number)}}, []}

  def build(:eye, _out, []), do: {:eye, []}
  def build(:iota, _out, [axis]), do: {{:iota, %{axis: axis}}, []}

  def build(:squeeze, _out, [t, _axes]), do: {:reshape, [t]}
  def build(:broadcast, _out, [t, _shape, axes]), do: {{:broadcast, %{axes: axes}}, [t]}
  def build(:transpose, _out, [t, axes]), do: {{:transpose, %{axes: axes}}, [t]}
  def build(:reverse, _out, [t, axes]), do: {{:reverse, %{axes: axes}}, [t]}
  def build(:pad, _out, [t, value, config]), do: {{:pad, %{config: config}}, [t, value]}

  def build(name, _out, [tensors, axis]) when name in [:concatenate, :stack],
    do: {{name, %{axis: axis}}, tensors}

  # Nx holds starts that are numbers from above.
  def build(:slice, _out, [t, starts, lengths, strides]) do
    if Enum.all?(starts, &is_integer/1) do
      starts = Enum.map(starts, &max(&1, 0))
      {{:slice, %{starts: starts, lengths: lengths, strides: strides}}, [t]}
    else
      {{:dynamic_slice, %{lengths: lengths, strides: strides}}, [t | starts]}
    end
  end

  def build(:put_slice, _out, [t, starts, slice]), do: {:put_slice, [t, slice | starts]}

  def build(name, _out, args) when name in @indexed do
    {tensors, [opts]} = Enum.split(args, -1)
    {{name, %{axes: opts[:axes] || axes(hd(tensors))}}, tensors}
  end

  def build(:dot, _out, [l, l_contract, l_batch, r, r_contract, r_batch]) do
    attrs = %{
      lhs_contract: l_contract,
      lhs_batch: l_batch,
      rhs_contract: r_contract,
      rhs_batch: r_batch
    }

    {{:dot, attrs}, [l, r]}
  end

  def build(:conv, _out, [t, kernel, opts]) do
    keys = ~w(strides padding input_dilation kernel_dilation feature_group_size batch_group_size
              input_permutation kernel_permutation output_permutation)a

    {{:conv, opts |> Keyword.take(keys) |> Map.new()}, [t, kernel]}
  end

  def build(:triangular_solve, _out, [a, b, opts]) do
    {{:triangular_solve, opts |> Keyword.take([:lower, :left_side, :transform_a]) |> Map.new()},
     [a, b]}
  end

  def build(name, _out, [t, opts]) when is_map_key(@folds, name) do
    {{:reduce, %{fold: @folds[name], axes: opts[:axes], keep_axes: opts[:keep_axes] || false}},
     [t]}
  end

  def build(name, _out, [t, opts]) when is_map_key(@arg_reductions, name) do
    attrs = %{
      extremum: @arg_reductions[name],
      axis: opts[:axis],
      # All axes at once leave none to keep.
      keep_axis: (opts[:axis] != nil and opts[:keep_axis]) || false,
      tie_break: opts[:tie_break] || :low
    }

    {{:arg_reduce, attrs}, [t]}
  end

  def build(name, _out, [t, opts]) when name in [:sort, :argsort],
    do: {{name, %{axis: opts[:axis], direction: opts[:direction]}}, [t]}

  def build(name, _out, [t, dimensions, opts]) when is_map_key(@windows, name),
    do: {{:window_reduce, %{fold: @windows[name], windows: windows(dimensions, opts)}}, [t]}

  def build(name, _out, [t, source, init, dimensions, opts]) when is_map_key(@scatters, name),
    do:
      {{:window_scatter, %{extremum: @scatters[name], windows: windows(dimensions, opts)}},
       [t, source, init]}

  def build(name, out, [t, opts]) when name in [:fft, :ifft] do
    axis = opts[:axis] || tuple_size(out.shape) - 1
    {{:fft, %{transform: name, eps: opts[:eps] * 1.0, length: opts[:length], axis: axis}}, [t]}
  end

  defp axes(%T{shape: shape}), do: Enum.to_list(0..(tuple_size(shape) - 1)//1)

  @doc """
  The engine's form of the windows that Nx gives as dimensions and options.

  ## Examples

      iex> ExBurn.Instruction.windows({2}, padding: [{0, 1}], strides: [1])
      %{dimensions: [2], padding: [{0, 1}], strides: [1], dilations: [1]}

  """
  @spec windows(tuple(), keyword()) :: map()
  def windows(dimensions, opts) do
    rank = tuple_size(dimensions)

    %{
      dimensions: Tuple.to_list(dimensions),
      padding: opts[:padding],
      strides: opts[:strides],
      dilations: opts[:window_dilations] || List.duplicate(1, rank)
    }
  end

  @doc """
  The instruction of a `Nx.Block`, or `:default` when its default function is to run instead.

  `args` are the block's arguments without trailing options; a block of several results gives several outputs.

  ## Examples

      iex> ExBurn.Instruction.block(%Nx.Block.TopK{k: 2}, [:tensor])
      {{:top_k, %{k: 2}}, [:tensor]}

      iex> ExBurn.Instruction.block(%Nx.Block.LinAlg.Determinant{}, [:tensor])
      {{:linalg, :determinant}, [:tensor]}

      iex> ExBurn.Instruction.block(%URI{}, [:tensor])
      :default

  """
  @spec block(struct(), [operand()]) :: {op(), [operand()]} | :default
  def block(block, args)
  def block(%Nx.Block.LogicalNot{}, args), do: {{:unary, :logical_not}, args}
  def block(%Nx.Block.Phase{}, args), do: {{:unary, :phase}, args}

  def block(%Nx.Block.AllClose{equal_nan: equal_nan, rtol: rtol, atol: atol}, args),
    do: {{:all_close, %{equal_nan: !!equal_nan, rtol: rtol * 1.0, atol: atol * 1.0}}, args}

  def block(%Nx.Block.Take{axis: axis}, args), do: {{:take, %{axis: axis}}, args}

  def block(%Nx.Block.TakeAlongAxis{axis: axis}, args),
    do: {{:take_along_axis, %{axis: axis}}, args}

  def block(%Nx.Block.TopK{k: k}, args), do: {{:top_k, %{k: k}}, args}

  for {module, fold} <- [
        CumulativeSum: :sum,
        CumulativeProduct: :product,
        CumulativeMin: :min,
        CumulativeMax: :max
      ] do
    def block(
          %{__struct__: unquote(Module.concat(Nx.Block, module)), axis: axis, reverse: reverse},
          args
        ),
        do: {{:cumulative, %{fold: unquote(fold), axis: axis, reverse: reverse}}, args}
  end

  def block(%module{eps: eps, length: length, axis: axis}, args)
      when module in [Nx.Block.RFFT, Nx.Block.IRFFT] do
    transform = if module == Nx.Block.RFFT, do: :rfft, else: :irfft
    {{:fft, %{transform: transform, eps: eps * 1.0, length: length, axis: axis}}, args}
  end

  def block(%module{eps: eps, lengths: lengths, axes: axes}, args)
      when module in [Nx.Block.FFT2, Nx.Block.IFFT2] do
    transform = if module == Nx.Block.FFT2, do: :fft, else: :ifft
    {{:fft2, %{transform: transform, eps: eps * 1.0, lengths: lengths, axes: axes}}, args}
  end

  def block(%LinAlg.Cholesky{}, args), do: {{:linalg, :cholesky}, args}
  def block(%LinAlg.Solve{}, args), do: {{:linalg, :solve}, args}
  def block(%LinAlg.Determinant{}, args), do: {{:linalg, :determinant}, args}
  def block(%LinAlg.LU{}, args), do: {{:linalg, :lu}, args}

  def block(%LinAlg.QR{mode: mode, eps: eps}, args),
    do: {{:linalg, {:qr, %{mode: mode, eps: eps * 1.0}}}, args}

  def block(%LinAlg.Eigh{max_iter: max_iter, eps: eps}, args),
    do: {{:linalg, {:eigh, %{max_iter: max_iter, eps: eps * 1.0}}}, args}

  def block(%LinAlg.SVD{max_iter: max_iter, full_matrices?: full}, args),
    do: {{:linalg, {:svd, %{max_iter: max_iter, full_matrices: full}}}, args}

  def block(_block, _args), do: :default

  @doc """
  The bytes of one element of `type`, as a list.

  Numbers are encoded as `Nx.BinaryBackend` encodes constants, so that a scalar and a tensor written with the same
  digits are equal. Sub-byte types take one byte.

  ## Examples

      iex> ExBurn.Instruction.element_bytes({:u, 16}, 258)
      [2, 1]

  """
  @spec element_bytes(Nx.Type.t(), term()) :: [byte()]
  def element_bytes(type, number) do
    template = %T{type: type, shape: {}, names: []}
    bits = Nx.BinaryBackend.to_binary(Nx.BinaryBackend.constant(template, number, []), 1)

    case bits do
      bytes when is_binary(bytes) -> :binary.bin_to_list(bytes)
      <<rest::bitstring>> -> [sub_byte(type, rest)]
    end
  end

  defp sub_byte({:u, size}, bits) do
    <<value::unsigned-size(size)>> = bits
    value
  end

  defp sub_byte({:s, size}, bits) do
    <<value::signed-size(size)>> = bits
    <<byte>> = <<value::signed-8>>
    byte
  end
end
