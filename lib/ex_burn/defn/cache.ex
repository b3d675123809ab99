defmodule ExBurn.Defn.Cache do
  @moduledoc """
  Values by key, each made once however many processes ask for it.

  There are two tables. `ExBurn.Defn.Cache` holds compiled functions by function, argument types and options, so that
  nothing is traced twice. `ExBurn.Defn.Cache.Programs` holds native programs by what is in them, so that functions which
  come to the same program share one.

  Reading takes no lock. Writing goes through one process for each table, which lets the first that asks for a key make the
  value while others wait; should it raise or die, the next one does. Processes that wait for each other in a circle, as
  when a function is compiled while it is compiled, are let through.

  A table keeps `config :ex_burn, cache_size: 1024` values. When there are more, it forgets the one that was added first of
  those not read since they were last passed over.
  """

  use GenServer

  alias ExBurn.Defn.Cache.Locks

  @functions __MODULE__
  @programs Module.concat(__MODULE__, Programs)

  @doc """
  The table of native programs.
  """
  @spec programs() :: module()
  def programs, do: @programs

  @doc """
  The value kept under `key`, made by `fun` if there is none. An exception in `fun` is not kept.

  ## Examples

      iex> ExBurn.Defn.Cache.fetch(:example, fn -> 1 end)
      1
      iex> ExBurn.Defn.Cache.fetch(:example, fn -> 2 end)
      1

  """
  @spec fetch(module(), term(), (-> value)) :: value when value: term()
  def fetch(table \\ @functions, key, fun) do
    case :ets.lookup_element(table, key, 2, nil) do
      {value, mark} ->
        # Most have the mark, and reading it is cheap for many processes.
        if :atomics.get(mark, 1) == 0, do: :atomics.put(mark, 1, 1)
        value

      nil ->
        claim(table, key, fun)
    end
  end

  defp claim(table, key, fun) do
    case GenServer.call(table, {:claim, key}, :infinity) do
      {:ok, value} -> value
      {:make, token} -> make(table, key, token, fun)
    end
  end

  defp make(table, key, token, fun) do
    value = fun.()
    # The table knows the key of a token, and keys can be large.
    GenServer.call(
      table,
      {:put, if(token, do: {:token, token}, else: {:key, key}), value},
      :infinity
    )
  catch
    kind, reason ->
      GenServer.cast(table, {:release, token})
      :erlang.raise(kind, reason, __STACKTRACE__)
  end

  @doc """
  How many entries a table has.
  """
  @spec size(module()) :: non_neg_integer()
  def size(table \\ @functions), do: :ets.info(table, :size)

  @doc """
  Forgets all entries of both tables.
  """
  @spec clear() :: :ok
  def clear, do: Enum.each([@functions, @programs], &GenServer.call(&1, :clear))

  @doc false
  def child_spec(opts) do
    name = opts[:name] || @functions
    %{id: name, start: {GenServer, :start_link, [__MODULE__, [name: name] ++ opts, [name: name]]}}
  end

  @impl true
  def init(opts) do
    table = :ets.new(opts[:name], [:named_table, :protected, read_concurrency: true])
    {:ok, %{table: table, limit: opts[:size] || 1024, order: :queue.new(), locks: Locks.new()}}
  end

  @impl true
  def handle_call({:claim, key}, from, state) do
    case :ets.lookup_element(state.table, key, 2, nil) do
      {value, _mark} ->
        {:reply, {:ok, value}, state}

      nil ->
        {:noreply, %{state | locks: Locks.claim(state.locks, key, from)}}
    end
  end

  def handle_call({:put, {:key, key}, value}, _from, state) do
    {value, state} = insert(state, key, value)
    {:reply, value, state}
  end

  def handle_call({:put, {:token, token}, value}, _from, state) do
    case Locks.key(state.locks, token) do
      {:ok, key} ->
        {value, state} = insert(state, key, value)
        {:reply, value, %{state | locks: Locks.done(state.locks, token, value)}}

      # Of a lock from before this process was restarted.
      :error ->
        {:reply, value, state}
    end
  end

  def handle_call(:clear, _from, state) do
    :ets.delete_all_objects(state.table)
    {:reply, :ok, %{state | order: :queue.new()}}
  end

  @impl true
  def handle_cast({:release, token}, state),
    do: {:noreply, %{state | locks: Locks.release(state.locks, token)}}

  @impl true
  def handle_info({:DOWN, token, :process, _pid, _reason}, state),
    do: {:noreply, %{state | locks: Locks.release(state.locks, token)}}

  # Of two values, the first stays.
  defp insert(state, key, value) do
    if :ets.insert_new(state.table, {key, {value, :atomics.new(1, [])}}) do
      {value, evict(%{state | order: :queue.in(key, state.order)})}
    else
      {first, _mark} = :ets.lookup_element(state.table, key, 2)
      {first, state}
    end
  end

  defp evict(%{order: order, limit: limit} = state) do
    if :queue.len(order) > limit, do: evict_oldest(state), else: state
  end

  # Ends, since each round takes a mark away.
  defp evict_oldest(%{table: table} = state) do
    {{:value, oldest}, order} = :queue.out(state.order)
    {_value, mark} = :ets.lookup_element(table, oldest, 2)

    if :atomics.exchange(mark, 1, 0) == 1 do
      evict_oldest(%{state | order: :queue.in(oldest, order)})
    else
      :ets.delete(table, oldest)
      %{state | order: order}
    end
  end
end
