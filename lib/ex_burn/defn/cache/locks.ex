defmodule ExBurn.Defn.Cache.Locks do
  @moduledoc """
  Who makes which value of a cache and who waits for it.

  A lock belongs to one process at a time and is known to it by a token, the reference of its monitor. Answers go straight
  to the processes that called: `{:make, token}` to the one whose turn it is, `{:ok, value}` to those that waited.
  """

  @type t :: %{
          keys: %{term() => {pid(), token(), :queue.queue(GenServer.from())}},
          tokens: %{token() => term()},
          waiting: %{pid() => term()}
        }

  @typedoc "What the maker of a value holds; `nil` for one that was let through beside the lock."
  @type token :: reference() | nil

  @doc """
  No locks.
  """
  @spec new() :: t()
  def new, do: %{keys: %{}, tokens: %{}, waiting: %{}}

  @doc """
  Lets the caller make the value of `key`, or wait for the process that does.
  """
  @spec claim(t(), term(), GenServer.from()) :: t()
  def claim(locks, key, {pid, _tag} = from) do
    case locks.keys do
      %{^key => {owner, token, queue}} ->
        if waits_for?(locks, owner, pid) do
          GenServer.reply(from, {:make, nil})
          locks
        else
          locks = put_in(locks.keys[key], {owner, token, :queue.in(from, queue)})
          put_in(locks.waiting[pid], key)
        end

      %{} ->
        give(locks, key, from, :queue.new())
    end
  end

  # A process may wait for the value of one key only, so this is a walk and not a search.
  defp waits_for?(_locks, pid, pid), do: true

  defp waits_for?(locks, owner, pid) do
    with {:ok, key} <- Map.fetch(locks.waiting, owner),
         {:ok, {next, _token, _queue}} <- Map.fetch(locks.keys, key) do
      waits_for?(locks, next, pid)
    else
      :error -> false
    end
  end

  @doc """
  The key of a lock that is held.
  """
  @spec key(t(), reference()) :: {:ok, term()} | :error
  def key(locks, token), do: Map.fetch(locks.tokens, token)

  @doc """
  The owner has made the value: it goes to all that wait.
  """
  @spec done(t(), token(), term()) :: t()
  def done(locks, token, value) do
    {queue, locks} = take(locks, token)
    froms = :queue.to_list(queue)
    for from <- froms, do: GenServer.reply(from, {:ok, value})
    %{locks | waiting: Map.drop(locks.waiting, Enum.map(froms, &elem(&1, 0)))}
  end

  @doc """
  The owner has failed: the next one may try.
  """
  @spec release(t(), token()) :: t()
  def release(locks, token) do
    key = locks.tokens[token]
    {queue, locks} = take(locks, token)

    case :queue.out(queue) do
      {{:value, from}, queue} -> give(locks, key, from, queue)
      {:empty, _} -> locks
    end
  end

  defp give(locks, key, {pid, _tag} = from, queue) do
    token = Process.monitor(pid)
    GenServer.reply(from, {:make, token})

    %{
      keys: Map.put(locks.keys, key, {pid, token, queue}),
      tokens: Map.put(locks.tokens, token, key),
      waiting: Map.delete(locks.waiting, pid)
    }
  end

  # Those who wait for a lock that is no more, which may be none.
  defp take(%{tokens: tokens} = locks, token) when is_map_key(tokens, token) do
    Process.demonitor(token, [:flush])
    {key, tokens} = Map.pop!(tokens, token)
    {{_pid, _token, queue}, keys} = Map.pop!(locks.keys, key)
    {queue, %{locks | keys: keys, tokens: tokens}}
  end

  defp take(locks, _token), do: {:queue.new(), locks}
end
