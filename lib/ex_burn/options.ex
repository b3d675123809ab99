defmodule ExBurn.Options do
  @moduledoc false

  alias ExBurn.Error

  @doc """
  The options with defaults filled in, as a keyword list.

  Raises `ExBurn.Error`, which names the known options, for an unknown one, and for one that is given twice.
  """
  @spec validate!(atom(), term(), keyword()) :: keyword()
  def validate!(op, opts, defaults) do
    if not Keyword.keyword?(opts) do
      raise Error, op: op, reason: "options are #{short(opts)}, not a keyword list"
    end

    names = Keyword.keys(opts)
    known = Keyword.keys(defaults)

    case {Enum.reject(names, &(&1 in known)), names -- Enum.uniq(names)} do
      {[], []} -> Keyword.merge(defaults, opts)
      {[], [twice | _]} -> raise Error, op: op, reason: "option #{inspect(twice)} is given twice"
      {unknown, _twice} -> unknown!(op, Enum.uniq(unknown), known)
    end
  end

  defp unknown!(op, unknown, known) do
    raise Error,
      op: op,
      reason: "unknown option #{list(unknown)}; known options are #{list(Enum.sort(known))}"
  end

  @doc """
  Raises `ExBurn.Error` unless `valid?`, saying what the option must be.
  """
  @spec check!(boolean(), atom(), atom(), term(), String.t()) :: :ok
  def check!(true, _op, _name, _value, _expected), do: :ok

  def check!(false, op, name, value, expected) do
    raise Error, op: op, reason: "#{name}: is #{short(value)}, expected #{expected}"
  end

  @doc """
  Raises `ExBurn.Error` unless `value` is a positive integer.
  """
  @spec positive!(atom(), atom(), term()) :: :ok
  def positive!(op, name, value),
    do: check!(is_integer(value) and value > 0, op, name, value, "a positive integer")

  @doc """
  Names in a sentence.
  """
  @spec list([term()]) :: String.t()
  def list(names), do: Enum.map_join(names, ", ", &inspect/1)

  @doc """
  A value in one short line, for messages.
  """
  @spec short(term()) :: String.t()
  def short(value) do
    value |> inspect(limit: 5, printable_limit: 40) |> String.replace(~r/\s+/, " ")
  end
end
