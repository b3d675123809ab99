defmodule ExBurn.Defn.Cache do
  @moduledoc """
  Compiled functions by key.

  Reading takes no lock and writing goes through one process, which forgets the entry added first when there are more than
  `config :ex_burn, cache_size: 1024`.
  """

  use GenServer

  @table __MODULE__

  @doc """
  The value kept under `key`, made by `fun` if there is none. An exception in `fun` is not kept.
  """
  @spec fetch(term(), (-> value)) :: value when value: term()
  def fetch(key, fun) do
    case :ets.lookup(@table, key) do
      [{^key, value}] ->
        value

      [] ->
        value = fun.()
        GenServer.call(__MODULE__, {:put, key, value}, :infinity)
    end
  end

  @doc """
  How many entries there are.
  """
  @spec size() :: non_neg_integer()
  def size, do: :ets.info(@table, :size)

  @doc """
  Forgets all entries.
  """
  @spec clear() :: :ok
  def clear, do: GenServer.call(__MODULE__, :clear)

  @doc false
  def start_link(opts), do: GenServer.start_link(__MODULE__, opts, name: __MODULE__)

  @impl true
  def init(opts) do
    :ets.new(@table, [:named_table, :protected, read_concurrency: true])
    {:ok, %{limit: opts[:size] || 1024, order: :queue.new()}}
  end

  @impl true
  def handle_call({:put, key, value}, _from, state) do
    case :ets.lookup(@table, key) do
      [{^key, first}] -> {:reply, first, state}
      [] -> {:reply, value, state |> insert(key, value) |> evict()}
    end
  end

  def handle_call(:clear, _from, state) do
    :ets.delete_all_objects(@table)
    {:reply, :ok, %{state | order: :queue.new()}}
  end

  defp insert(state, key, value) do
    :ets.insert(@table, {key, value})
    %{state | order: :queue.in(key, state.order)}
  end

  defp evict(%{order: order, limit: limit} = state) do
    if :queue.len(order) > limit do
      {{:value, oldest}, order} = :queue.out(order)
      :ets.delete(@table, oldest)
      %{state | order: order}
    else
      state
    end
  end
end
