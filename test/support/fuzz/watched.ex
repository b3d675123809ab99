defmodule ExBurn.Fuzz.Watched do
  @moduledoc """
  A backend: `Nx.BinaryBackend` with a function around each operation, as `ExBurn.Fuzz.Interpreter` has one around each
  step.

  So `ExBurn.Fuzz.Oracle` makes up for faults, and puts errors of rounding in, where operations are not steps: in gradients
  and in programs as they are after tracing.
  """

  @behaviour Nx.Backend

  alias Nx.BinaryBackend
  alias Nx.Defn.Expr
  alias Nx.Tensor, as: T

  defstruct [:data]

  @makers [constant: 3, from_binary: 3, eye: 2, iota: 3]
  @readers [backend_copy: 3, backend_transfer: 3, to_binary: 2, inspect: 2, to_batched: 3]
  @none [from_pointer: 5, to_pointer: 2]

  @doc """
  Runs `fun` with this backend as the default, and `around.(op, args, call)` in place of each operation.
  """
  def run(around, fun) do
    Process.put(__MODULE__, around)
    Nx.with_default_backend(__MODULE__, fun)
  after
    Process.delete(__MODULE__)
  end

  @doc """
  A tensor of `Nx.BinaryBackend` on this backend.
  """
  def wrap(%T{data: %BinaryBackend{} = data} = t), do: %{t | data: %__MODULE__{data: data}}
  def wrap(t), do: t

  @doc """
  A tensor of `Nx.BinaryBackend` as an expression that is a tensor on this backend. `Nx.Defn.Expr` makes expressions of
  tensors of `Nx.BinaryBackend` alone, and constants of scalars.
  """
  def expr(t) do
    case Nx.Defn.Expr.tensor(t) do
      %T{data: %Expr{op: :tensor, args: [t]} = data} = expr ->
        %{expr | data: %{data | args: [wrap(t)]}}

      constant ->
        constant
    end
  end

  @doc """
  Tensors of this backend on `Nx.BinaryBackend`, in a list too.
  """
  def unwrap(%T{data: %__MODULE__{data: data}} = t), do: %{t | data: data}
  def unwrap(list) when is_list(list), do: Enum.map(list, &unwrap/1)
  def unwrap(fun) when is_function(fun, 2), do: fn a, b -> unwrap(fun.(a, b)) end
  def unwrap(other), do: other

  @impl true
  def init(opts), do: opts

  @impl true
  def backend_deallocate(_tensor), do: :ok

  @impl true
  def block(struct, _output, args, fun), do: apply(fun, [struct | args])

  for {name, arity} <- @none do
    @impl true
    def unquote(name)(unquote_splicing(Macro.generate_arguments(arity, __MODULE__))),
      do: raise("#{unquote(name)} has no meaning here")
  end

  for {name, arity} <- @makers, args = Macro.generate_arguments(arity, __MODULE__) do
    @impl true
    def unquote(name)(unquote_splicing(args)),
      do: wrap(BinaryBackend.unquote(name)(unquote_splicing(args)))
  end

  for {name, arity} <- @readers, args = Macro.generate_arguments(arity, __MODULE__) do
    @impl true
    def unquote(name)(unquote_splicing(args)),
      do: apply(BinaryBackend, unquote(name), unwrap([unquote_splicing(args)]))
  end

  @impl true
  def as_type(out, t),
    do: operation(:as_type, out, [t, out.type], fn [t, _] -> BinaryBackend.as_type(out, t) end)

  @own [init: 1, backend_deallocate: 1, block: 4, as_type: 2] ++ @makers ++ @readers ++ @none

  for {name, arity} <- Nx.Backend.behaviour_info(:callbacks), {name, arity} not in @own do
    [out | rest] = Macro.generate_arguments(arity, __MODULE__)

    @impl true
    def unquote(name)(unquote(out), unquote_splicing(rest)) do
      call = &apply(BinaryBackend, unquote(name), [unquote(out) | &1])
      operation(unquote(name), unquote(out), unquote(rest), call)
    end
  end

  # Nx.BinaryBackend makes tensors of its own on the default backend.
  defp operation(name, out, args, call) do
    around = Process.get(__MODULE__)
    fun = fn -> name |> around.(unwrap(args), call) |> like(out) end
    Nx.with_default_backend(BinaryBackend, fun)
  end

  defp like(%T{type: type} = t, %T{type: type} = out), do: wrap(%{out | data: t.data})
  defp like(t, out), do: t |> Nx.as_type(out.type) |> like(out)
end
