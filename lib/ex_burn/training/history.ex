defmodule ExBurn.Training.History do
  @moduledoc """
  What a run reports of its epochs: a list of maps, the first epoch first.

  An entry has `:epoch`, `:loss`, `:val_loss` (`nil` without validation data), `:learning_rate` (`nil` with an optimizer that
  brings its own), and for each metric its name, and with validation data `val_` and its name, e.g. `:accuracy` and
  `:val_accuracy`. Values are floats, or `:nan`, `:infinity`, `:neg_infinity` where a validation came out so. An entry
  depends on the run's seed only, not on time.
  """

  @type value :: float() | :nan | :infinity | :neg_infinity
  @type entry :: %{
          required(:epoch) => pos_integer(),
          required(:loss) => value(),
          required(:val_loss) => value() | nil,
          required(:learning_rate) => float() | nil,
          optional(atom()) => value()
        }
  @type t :: [entry()]

  @doc """
  The entry of an epoch that the engine reports, for metrics of these names.

  ## Examples

      iex> event = %{epoch: 1, loss: 0.5, metrics: [0.75], val_loss: 0.6, val_metrics: [0.7], learning_rate: 0.1}
      iex> ExBurn.Training.History.entry(event, [:accuracy])
      %{epoch: 1, loss: 0.5, accuracy: 0.75, val_loss: 0.6, val_accuracy: 0.7, learning_rate: 0.1}

  """
  @spec entry(map(), [atom()]) :: entry()
  def entry(event, names) do
    event
    |> Map.take([:epoch, :loss, :val_loss, :learning_rate])
    |> Map.merge(metrics(names, event.metrics))
    |> Map.merge(metrics(Enum.map(names, &val/1), event.val_metrics || []))
  end

  @doc """
  Values of metrics by name.
  """
  @spec metrics([atom()], [value()]) :: %{atom() => value()}
  def metrics(names, values), do: names |> Enum.zip(values) |> Map.new()

  @doc """
  The name of a metric over the validation data.

  ## Examples

      iex> ExBurn.Training.History.val(:accuracy)
      :val_accuracy

  """
  @spec val(atom()) :: atom()
  def val(name), do: :"val_#{name}"

  # What callbacks are told besides the loss and the metrics.
  @about [:epoch, :epochs, :step, :steps, :samples_per_second, :seconds, :samples, :skipped] ++
           [
             :learning_rate,
             :next_learning_rate,
             :batch_size,
             :model,
             :checkpoint,
             :history,
             :reason,
             :loss_scale
           ]

  @doc """
  Names that no metric can have.

  ## Examples

      iex> :loss in ExBurn.Training.History.reserved()
      true

  """
  @spec reserved() :: [atom()]
  def reserved, do: [:loss, :val_loss | @about]

  @doc """
  The entry in what callbacks are told after an epoch.

  ## Examples

      iex> info = %{epoch: 1, loss: 0.5, val_loss: nil, learning_rate: 0.1, accuracy: 0.75, seconds: 2.0, samples: 8}
      iex> ExBurn.Training.History.from_info(info)
      %{epoch: 1, loss: 0.5, val_loss: nil, learning_rate: 0.1, accuracy: 0.75}

  """
  @spec from_info(map()) :: entry()
  def from_info(info), do: Map.drop(info, @about -- [:epoch, :learning_rate])

  @doc """
  An entry, or what callbacks are told, in one line, its loss and metrics in a fixed order.

  ## Examples

      iex> ExBurn.Training.History.text(%{epoch: 1, loss: 0.25, val_loss: nil, accuracy: 0.5, learning_rate: 0.1})
      "loss 0.2500  accuracy 0.5000"

  """
  @spec text(map()) :: String.t()
  def text(values) do
    {vals, metrics} = values |> Map.drop(reserved()) |> Enum.split_with(&val?/1)

    ([loss: values.loss] ++ Enum.sort(metrics) ++ [val_loss: values[:val_loss]] ++ Enum.sort(vals))
    |> Enum.reject(fn {_name, value} -> value == nil end)
    |> Enum.map_join("  ", fn {name, value} -> "#{name} #{number(value)}" end)
  end

  defp val?({name, _value}), do: name |> Atom.to_string() |> String.starts_with?("val_")

  @doc """
  A value with four places, or in scientific notation when those would show nothing of it.

  ## Examples

      iex> Enum.map([0.12345, 0.00001234, 0.0, :nan], &ExBurn.Training.History.number/1)
      ["0.1235", "1.23e-5", "0.0000", "nan"]

  """
  @spec number(value()) :: String.t()
  def number(value) when is_atom(value), do: Atom.to_string(value)

  def number(value) when value != 0 and (abs(value) < 1.0e-3 or abs(value) >= 1.0e6),
    do: "~.3e" |> :io_lib.format([value * 1.0]) |> to_string()

  def number(value), do: :erlang.float_to_binary(value * 1.0, decimals: 4)
end
