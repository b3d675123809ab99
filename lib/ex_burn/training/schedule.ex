defmodule ExBurn.Training.Schedule do
  @moduledoc """
  Learning rates that change from epoch to epoch, or from step to step: the `:lr_schedule` of `ExBurn.fit/3`.

  With `n` the epoch, counted from 1, of `N`:

  | schedule | learning rate of epoch `n` |
  |---|---|
  | `{:step, base, every, gamma}` | `base * gamma^floor((n - 1) / every)` |
  | `{:exponential, base, gamma}` | `base * gamma^(n - 1)` |
  | `{:cosine, base, min}` | `min + (base - min) * (1 + cos(pi * (n - 1) / (N - 1))) / 2` |
  | `{:linear, from, to}` | `from + (to - from) * (n - 1) / (N - 1)` |
  | `{:warmup, epochs, schedule}` | in the first `epochs` the share `n / epochs` of the schedule's first rate, then the schedule from its start over the `N - epochs` that are left |
  | `fn epoch -> rate end` | what the function answers |

  `{:steps, schedule}` counts steps of the optimizer instead: `n` is the number of the step, over all epochs, and `N` that of all
  steps of the run. Batches that are left out are none, and with `accumulate_gradients:` several batches are one. Where batches are
  enumerated and their number is not known, as that of a stream, `{:steps, N, schedule}` says how many steps there will be; those
  beyond `N` have the rate of step `N`. All rates are computed when the run begins. The history has that of an epoch's last step.

  Source of the cosine: Loshchilov and Hutter, SGDR, arXiv:1608.03983, equation 5.
  """

  alias ExBurn.Error
  alias ExBurn.Training.Failure

  @type t ::
          {:step, number(), pos_integer(), number()}
          | {:exponential, number(), number()}
          | {:cosine, number(), number()}
          | {:linear, number(), number()}
          | {:warmup, pos_integer(), t()}
          | {:steps, t()}
          | {:steps, pos_integer(), t()}
          | (pos_integer() -> number())

  # Their rates take 32 bytes each as a list.
  @most_steps 50_000_000

  @doc """
  The learning rate of `epoch` in a run of `epochs`.

  ## Examples

      iex> for epoch <- 1..3, do: ExBurn.Training.Schedule.rate(fn n -> 1 / n end, epoch, 3, :fit) |> Float.round(2)
      [1.0, 0.5, 0.33]
      iex> for epoch <- 1..4, do: ExBurn.Training.Schedule.rate({:step, 0.1, 2, 0.5}, epoch, 4, :fit)
      [0.1, 0.1, 0.05, 0.05]
      iex> for epoch <- 1..4, do: ExBurn.Training.Schedule.rate({:warmup, 2, {:linear, 1.0, 0.0}}, epoch, 4, :fit)
      [0.5, 1.0, 1.0, 0.0]

  """
  @spec rate(t(), pos_integer(), pos_integer(), atom()) :: float()
  def rate(schedule, epoch, epochs, op), do: rate(schedule, epoch, epochs, op, "epoch")

  defp rate(schedule, number, count, op, unit) do
    schedule |> at(number, count, {op, unit}) |> rate!(op)
  rescue
    ArithmeticError ->
      reason = "lr_schedule: the rate of #{unit} #{number} is more than a float can hold"
      reraise %Error{op: op, reason: reason}, __STACKTRACE__
  end

  @doc """
  Whether a schedule counts steps.

  ## Examples

      iex> Enum.map([{:steps, {:linear, 1, 0}}, {:linear, 1, 0}], &ExBurn.Training.Schedule.steps?/1)
      [true, false]

  """
  @spec steps?(term()) :: boolean()
  def steps?({:steps, _schedule}), do: true
  def steps?({:steps, _count, _schedule}), do: true
  def steps?(_other), do: false

  @doc """
  The learning rates of all steps of a run that has `count` of them, or nobody knows how many (`nil`).

  ## Examples

      iex> ExBurn.Training.Schedule.rates!({:steps, {:linear, 1.0, 0.0}}, 3, :fit)
      [1.0, 0.5, 0.0]
      iex> ExBurn.Training.Schedule.rates!({:steps, 2, {:linear, 1.0, 0.0}}, nil, :fit)
      [1.0, 0.0]

  """
  @spec rates!(t(), pos_integer() | nil, atom()) :: [float()]
  def rates!({:steps, nil, _schedule}, nil, op) do
    raise Error,
      op: op,
      reason:
        "lr_schedule: {:steps, schedule} needs the number of batches, which is not known of this enumerable; " <>
          "give {:steps, number of steps, schedule}"
  end

  def rates!({:steps, schedule}, count, op), do: rates!({:steps, count, schedule}, count, op)

  def rates!({:steps, count, schedule}, _count, op) when is_integer(count) and count > 0 do
    if steps?(schedule), do: wrong!(schedule, op)

    if count > @most_steps do
      raise Error,
        op: op,
        reason:
          "lr_schedule: a schedule by steps has a rate for each of them, and #{count} steps are more than #{@most_steps}; " <>
            "give one by epochs"
    end

    for step <- 1..count, do: rate(schedule, step, count, op, "step")
  end

  def rates!(other, _count, op), do: wrong!(other, op)

  defp at({:step, base, every, gamma}, epoch, _epochs, _place)
       when is_number(base) and is_integer(every) and every > 0 and is_number(gamma),
       do: base * gamma ** div(epoch - 1, every)

  defp at({:exponential, base, gamma}, epoch, _epochs, _place)
       when is_number(base) and is_number(gamma),
       do: base * gamma ** (epoch - 1)

  defp at({:cosine, base, min}, epoch, epochs, _place) when is_number(base) and is_number(min),
    do: min + (base - min) * (1 + :math.cos(:math.pi() * share(epoch, epochs))) / 2

  defp at({:linear, from, to}, epoch, epochs, _place) when is_number(from) and is_number(to),
    do: from + (to - from) * share(epoch, epochs)

  defp at({:warmup, warmup, schedule}, epoch, epochs, place)
       when is_integer(warmup) and warmup > 0 do
    {op, unit} = place
    rest = max(epochs - warmup, 1)

    if epoch <= warmup,
      do: rate(schedule, 1, rest, op, unit) * epoch / warmup,
      else: rate(schedule, epoch - warmup, rest, op, unit)
  end

  defp at(schedule, epoch, _epochs, {op, unit}) when is_function(schedule, 1) do
    schedule.(epoch)
  rescue
    exception ->
      raised = "#{inspect(exception.__struct__)}: #{Exception.message(exception)}"
      reason = "lr_schedule: raised for #{unit} #{epoch}: #{raised}"
      details = %{error: exception, message: "#{op}: #{reason}"}
      reraise %Error{op: op, reason: reason, details: details}, __STACKTRACE__
  catch
    :exit, reason ->
      op
      |> Failure.exit_of("lr_schedule: for #{unit} #{epoch} it", reason)
      |> Failure.reraise_exit(reason, __STACKTRACE__)
  end

  defp at(other, _epoch, _epochs, {op, _unit}), do: wrong!(other, op)

  defp wrong!(other, op) do
    raise Error,
      op: op,
      reason:
        "lr_schedule: is #{ExBurn.Options.short(other)}, expected {:step, base, every, gamma}, " <>
          "{:exponential, base, gamma}, {:cosine, base, min}, {:linear, from, to}, {:warmup, epochs, schedule}, " <>
          "{:steps, schedule}, {:steps, number, schedule} or a function of the epoch"
  end

  defp rate!(rate, _op) when is_number(rate) and rate >= 0, do: rate * 1.0

  defp rate!(other, op) do
    raise Error,
      op: op,
      reason:
        "lr_schedule: answers #{ExBurn.Options.short(other)}, expected a number of at least 0"
  end

  # How far the run has come, from 0 in its first epoch to 1 in its last.
  defp share(_epoch, 1), do: 0.0
  defp share(epoch, epochs), do: (epoch - 1) / (epochs - 1)
end
