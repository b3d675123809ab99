defmodule ExBurn.Options do
  @moduledoc false

  alias ExBurn.Error

  # What the engine counts with has 64 bits, and adds up two of them.
  @integers 2 ** 63
  @largest_float 1.7976931348623157e308
  @long_integer 10 ** 40

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
  Raises `ExBurn.Error` unless `value` is a positive integer that the engine can count to.
  """
  @spec positive!(atom(), atom(), term()) :: :ok
  def positive!(op, name, value),
    do: check!(positive?(value), op, name, value, positive(value))

  @doc """
  What to say that a value is not, if it is no `positive?/1`: the bound only to whom it concerns.

  ## Examples

      iex> Enum.map([0, 10 ** 20], &ExBurn.Options.positive/1)
      ["a positive integer", "a positive integer below 2^63"]

  """
  @spec positive(term()) :: String.t()
  def positive(value) when is_integer(value) and value >= @integers,
    do: "a positive integer below 2^63"

  def positive(_value), do: "a positive integer"

  @doc """
  Whether a value is a positive integer that the engine can count to.

  ## Examples

      iex> Enum.map([1, 0, 1.0, 10 ** 20], &ExBurn.Options.positive?/1)
      [true, false, false, false]

  """
  @spec positive?(term()) :: boolean()
  def positive?(value), do: is_integer(value) and value > 0 and value < @integers

  @doc """
  Whether a value is a number of at least 0 that a float can hold.

  ## Examples

      iex> Enum.map([0, 0.5, -1, 10 ** 400], &ExBurn.Options.float?/1)
      [true, true, false, false]

  """
  @spec float?(term()) :: boolean()
  def float?(value), do: is_number(value) and value >= 0 and value <= @largest_float

  @doc """
  What to say that a value is not, if it is no `float?/1`.

  ## Examples

      iex> Enum.map([-1, 10 ** 400], &ExBurn.Options.float/1)
      ["a number of at least 0", "a number of at least 0 that a float can hold"]

  """
  @spec float(term()) :: String.t()
  def float(value) when is_number(value) and value > @largest_float,
    do: "a number of at least 0 that a float can hold"

  def float(_value), do: "a number of at least 0"

  @doc """
  Whether a value is a list of values that are each `valid?`. A list whose tail is none is no such list.

  ## Examples

      iex> Enum.map([[1], [], [1 | 2], 1], &ExBurn.Options.list_of?(&1, fn value -> value == 1 end))
      [true, true, false, false]

  """
  @spec list_of?(term(), (term() -> boolean())) :: boolean()
  def list_of?(value, valid?),
    do: is_list(value) and not List.improper?(value) and Enum.all?(value, valid?)

  @doc """
  Names in a sentence.
  """
  @spec list([term()]) :: String.t()
  def list(names), do: Enum.map_join(names, ", ", &inspect/1)

  @doc """
  A value in one short line, for messages.

  ## Examples

      iex> ExBurn.Options.short(10 ** 50)
      "an integer of 51 digits"

  """
  @spec short(term()) :: String.t()
  def short(value) when is_integer(value) and abs(value) >= @long_integer,
    do: "an integer of #{value |> abs() |> Integer.digits() |> length()} digits"

  def short(value) do
    text = value |> inspect(limit: 5, printable_limit: 40) |> String.replace(~r/\s+/, " ")
    if String.length(text) > 200, do: String.slice(text, 0, 200) <> "...", else: text
  end
end
