defmodule ExBurn.Defn.Key do
  @moduledoc """
  What programs are kept under.

  Functions are equal to the VM when they are the same code with equal values around it, so a function is its own key:
  captured tensors count by value. Only native tensors count by identity, which is right too, since no two are one.
  """

  alias ExBurn.Defn.Lowering
  alias Nx.Defn.{Composite, Expr}
  alias Nx.Tensor, as: T

  @doc """
  Function, argument types and options, as far as they decide which program is made.

  Of hooks that is which names have a function, not which function.
  """
  @spec function(term(), [Nx.Container.t()], keyword()) :: tuple()
  def function(fun, vars, opts) do
    case opts do
      [] ->
        {present(fun), types(vars), [], []}

      [hooks: hooks] when hooks == %{} ->
        {present(fun), types(vars), [], []}

      _ ->
        {present(fun), types(vars), hooks(opts),
         Keyword.take(opts, [:cache, :device, :fusion, :passes])}
    end
  end

  # A function by its name, as &Module.fun/1 is, is equal to the one that its module had before it was compiled again.
  defp present(fun) when is_function(fun) do
    case :erlang.fun_info(fun, :type) do
      {:type, :external} -> {fun, fun |> :erlang.fun_info(:module) |> elem(1) |> module_code()}
      {:type, :local} -> fun
    end
  end

  defp present(key), do: key

  # How many terms around a function are looked at.
  @looked_at 16

  @doc """
  Whether a function holds an expression, as those of `Nx.Defn.Graph.run/3` do, and so cannot be a key: a table compares and
  copies terms as if nothing in them were shared, which for an expression can take forever.

  ## Examples

      iex> traced = Nx.Defn.debug_expr_apply(&Nx.exp/1, [Nx.template({}, :f32)])
      iex> {ExBurn.Defn.Key.expression?(fn _ -> {traced} end), ExBurn.Defn.Key.expression?(&Nx.exp/1)}
      {true, false}

  """
  @spec expression?(term()) :: boolean()
  def expression?(fun), do: look([fun], @looked_at) == :found

  # What is left to look at: a number of terms, or nothing as it was found.
  defp look([], left), do: left
  defp look(_terms, 0), do: 0
  defp look([%T{data: %Expr{}} | _], _left), do: :found
  defp look([%T{} | rest], left), do: look(rest, left - 1)

  defp look([head | rest], left) do
    case look(inside(head), left - 1) do
      :found -> :found
      left -> look(rest, left)
    end
  end

  # The tail of an improper list.
  defp look(_term, left), do: left

  defp inside(list) when is_list(list), do: list
  defp inside(tuple) when is_tuple(tuple), do: Tuple.to_list(tuple)
  defp inside(%_{} = struct), do: struct |> Map.from_struct() |> Map.values()
  defp inside(map) when map_size(map) <= @looked_at, do: Map.values(map)
  defp inside(fun) when is_function(fun), do: fun |> Function.info(:env) |> elem(1)
  defp inside(_term), do: []

  @doc """
  The names of hooks that have a function.
  """
  @spec hooks(keyword()) :: [atom()]
  def hooks(opts), do: opts |> Keyword.get(:hooks, %{}) |> Map.keys()

  @doc """
  What the types of arguments are compared by.
  """
  @spec types([Nx.Container.t()]) :: [term()]
  def types(vars), do: Enum.map(vars, &type/1)

  defp type(%T{type: type, shape: shape, names: names, vectorized_axes: axes}),
    do: {type, shape, names, axes}

  # Containers also have parts that are no tensors.
  defp type(container), do: Composite.traverse(container, &Nx.to_template/1)

  @doc """
  A digest of a program, the tensors in it and the passes that it is compiled without.
  """
  @spec program(Lowering.lowered(), [String.t()]) :: binary()
  def program(%{program: program, captures: captures}, disabled) do
    start = :crypto.hash_init(:sha256)
    start = :crypto.hash_update(start, bytes({program, disabled}))

    captures
    |> Enum.reduce(start, &:crypto.hash_update(&2, &1 |> Nx.to_binary() |> whole_bytes()))
    |> :crypto.hash_final()
  end

  # Elements of 2 and 4 bits may end within a byte. How many there are is in the program.
  defp whole_bytes(bytes) when is_binary(bytes), do: bytes
  defp whole_bytes(bits), do: <<bits::bitstring, 0::size(8 - rem(bit_size(bits), 8))>>

  @doc """
  A digest of a function and the values around it that is the same in every VM, as long as its module is.

  ## Examples

      iex> times = fn n -> &Nx.multiply(&1, n) end
      iex> ExBurn.Defn.Key.digest(times.(2)) == ExBurn.Defn.Key.digest(times.(2))
      true
      iex> ExBurn.Defn.Key.digest(times.(2)) == ExBurn.Defn.Key.digest(times.(3))
      false

  """
  @spec digest(term()) :: binary()
  def digest(term), do: :crypto.hash(:sha256, term |> lasting() |> bytes())

  defp bytes(term), do: :erlang.term_to_binary(term, [:deterministic])

  # A function as a term holds the process that made it.
  defp lasting(fun) when is_function(fun) do
    info = Map.new(Function.info(fun))
    {:fun, info.module, info.name, info.arity, code(info), lasting(info.env)}
  end

  defp lasting([head | tail]), do: [lasting(head) | lasting(tail)]

  defp lasting(tuple) when is_tuple(tuple),
    do: tuple |> Tuple.to_list() |> lasting() |> List.to_tuple()

  defp lasting(map) when is_map(map), do: map |> Map.to_list() |> Enum.sort() |> lasting()
  defp lasting(term), do: term

  defp code(%{type: :local, new_uniq: code}), do: code

  defp code(%{module: module}), do: module_code(module)

  # A module that is missing is told of where its function is called.
  defp module_code(module) do
    module.module_info(:md5)
  rescue
    UndefinedFunctionError -> nil
  end
end
