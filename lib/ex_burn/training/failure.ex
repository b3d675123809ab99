defmodule ExBurn.Training.Failure do
  @moduledoc """
  What a run that fails raises: an `ExBurn.Error` that holds what was reached.

  Its `details` have

    * `:model` - the model after the last good step. A step counts as good when the loss after it was finite, or was not
      looked at yet. Before the first step that is what the run was given, or went on from
    * `:history` - the epochs that were completed
    * `:epoch`, and `:batch`, the number of the batch in its epoch, where a batch was at fault: one that does not fit the
      model, whose loss or gradient is not finite, for which there is not enough memory, or that the enumerable could not
      give
    * `:parameter` - the name of the one that is not finite, or whose gradient is not
    * `:layer` - where a loss is not finite, the first layer whose output is not, an input among them; it is missing when all
      outputs are finite, so that the loss function is at fault. Where a gradient is not finite, the first layer on the
      way back from the loss with such a gradient of its `:parameter`. Where a step has gone so far that a parameter is not
      finite, and no loss has seen it, the parameter's layer; that step is taken back
    * `:error` - the exception of a callback, a hook, an enumerable, a schedule, a layer, a loss, a metric or an optimizer's
      function, if it was not an `ExBurn.Error`
    * `:exit` - the reason, where one of these exited, as a call does whose server is gone or takes too long

  What is thrown passes as it is, and so do exits with `:normal`, `:shutdown` or `{:shutdown, term}`. A process that is killed
  raises nothing: then the newest checkpoint has what was reached, see `ExBurn.Training.restore/2`.
  """

  alias ExBurn.Error
  alias ExBurn.Model.State
  alias ExBurn.Training.{Data, Diagnosis}

  @typedoc "What was at work: a batch, the enumerable before it gave that batch, or a callback after an event."
  @type cause ::
          {:batch | :data, pos_integer(), pos_integer()} | {:callback, atom(), pos_integer()}

  @doc """
  The error for an exception.

  ## Examples

      iex> cause = {:data, 2, 3}
      iex> error = ExBurn.Training.Failure.error(%RuntimeError{message: "no file"}, cause)
      iex> Exception.message(error)
      "fit: batch 3 of epoch 2: the data raised RuntimeError: no file"
      iex> {error.details.epoch, error.details.batch, error.details.error}
      {2, 3, %RuntimeError{message: "no file"}}

  """
  @spec error(Exception.t(), cause()) :: Error.t()
  def error(%Error{} = error, {:callback, _event, epoch}),
    do: error |> with_message("") |> put(:epoch, epoch)

  def error(%Error{} = error, {_what, epoch, batch} = cause) do
    error = with_message(error, place(cause))
    %{error | details: Map.merge(error.details, %{epoch: epoch, batch: batch})}
  end

  def error(exception, cause),
    do: :fit |> of_function(who(cause), exception) |> error(cause)

  @doc """
  The error for an exit, `nil` for one that says that nothing is wrong.

  ## Examples

      iex> error = ExBurn.Training.Failure.exit(:timeout, {:data, 2, 3})
      iex> Exception.message(error)
      "fit: batch 3 of epoch 2: the data exited: time out"
      iex> error.details.exit
      :timeout
      iex> ExBurn.Training.Failure.exit({:shutdown, :stop}, {:data, 2, 3})
      nil

  """
  @spec exit(term(), cause()) :: Error.t() | nil
  def exit(reason, cause) do
    with %Error{} = error <- exit_of(:fit, who(cause), reason), do: error(error, cause)
  end

  @doc """
  The error for an exit in a function that was given, `nil` for one that says that nothing is wrong.

  ## Examples

      iex> error = ExBurn.Training.Failure.exit_of(:fit, "validation_data", :timeout)
      iex> Exception.message(error)
      "fit: validation_data exited: time out"
      iex> error.details.exit
      :timeout

  """
  @spec exit_of(atom(), String.t(), term()) :: Error.t() | nil
  def exit_of(_op, _who, reason) when reason in [:normal, :shutdown], do: nil
  def exit_of(_op, _who, {:shutdown, _why}), do: nil

  def exit_of(op, who, reason) do
    text = "#{who} exited: #{reason |> Exception.format_exit() |> one_line()}"
    %Error{op: op, reason: text, details: %{exit: reason, message: text}}
  end

  @doc """
  Ends the process' work with the error for an exit, or as it was to end where nothing is wrong.
  """
  @spec reraise_exit(Error.t() | nil, term(), Exception.stacktrace()) :: no_return()
  def reraise_exit(nil, reason, stacktrace), do: :erlang.raise(:exit, reason, stacktrace)
  def reraise_exit(error, _reason, stacktrace), do: :erlang.raise(:error, error, stacktrace)

  @doc """
  The error for an exception of a function that was given; an `ExBurn.Error` is that already.

  ## Examples

      iex> error = ExBurn.Training.Failure.of_function(:fit, "the metric :mine", %RuntimeError{message: "oops"})
      iex> Exception.message(error)
      "fit: the metric :mine raised RuntimeError: oops"
      iex> error.details.error
      %RuntimeError{message: "oops"}

  """
  @spec of_function(atom(), String.t(), Exception.t()) :: Error.t()
  def of_function(_op, _who, %Error{} = error), do: error

  def of_function(op, who, exception) do
    name = inspect(exception.__struct__)
    reason = "#{who} raised #{name}: #{one_line(Exception.message(exception))}"
    # The operation comes in front of the message, whichever it will be.
    %Error{op: op, reason: reason, details: %{error: exception, message: reason}}
  end

  @doc """
  What `fun` answers, which `who` gave: what it raises is an `ExBurn.Error`, and so is what it exits with, see `exit_of/3`.

  ## Examples

      iex> ExBurn.Training.Failure.calling(:fit, "the metric :mine", fn -> 1 end)
      1
      iex> ExBurn.Training.Failure.calling(:fit, "the metric :mine", fn -> raise "oops" end)
      ** (ExBurn.Error) fit: the metric :mine raised RuntimeError: oops

      iex> ExBurn.Training.Failure.calling(:fit, "the metric :mine", fn -> exit(:timeout) end)
      ** (ExBurn.Error) fit: the metric :mine exited: time out

  """
  @spec calling(atom(), String.t(), (-> result)) :: result when result: term()
  def calling(op, who, fun) do
    fun.()
  rescue
    exception -> reraise of_function(op, who, exception), __STACKTRACE__
  catch
    :exit, reason -> op |> exit_of(who, reason) |> reraise_exit(reason, __STACKTRACE__)
  end

  @doc """
  What `fun` answers; an `ExBurn.Error` names the `part` of what was given that it is about.

  ## Examples

      iex> ExBurn.Training.Failure.within("batch 2", fn -> raise ExBurn.Error, op: :fit, reason: "x is a scalar" end)
      ** (ExBurn.Error) fit: batch 2: x is a scalar

  """
  @spec within(String.t(), (-> result)) :: result when result: term()
  def within(part, fun) do
    fun.()
  rescue
    error in Error -> reraise of_part(error, part), __STACKTRACE__
  end

  defp of_part(%Error{details: details} = error, _part) when is_map_key(details, :message),
    do: error

  defp of_part(error, part), do: %{error | reason: "#{part}: #{error.reason}"}

  @doc """
  The error of a run of one step, which its caller knows as `op`.

  ## Examples

      iex> error = %ExBurn.Error{op: :fit, reason: :non_finite, details: %{message: "fit: the loss is NaN at epoch 1, step 1"}}
      iex> error |> ExBurn.Training.Failure.of_one_step(:train_step) |> Exception.message()
      "train_step: the loss is NaN"

  """
  @spec of_one_step(Error.t(), atom()) :: Error.t()
  def of_one_step(%Error{op: :fit} = error, op) do
    text =
      error
      |> Exception.message()
      |> String.replace([" at epoch 1, step 1", ", in batch 1 of epoch 1", " in epoch 1"], "")
      |> String.replace_prefix("fit: ", "#{op}: ")

    put(%{error | op: op}, :message, text)
  end

  def of_one_step(error, _op), do: error

  # Details are part of a message unless it is given.
  defp with_message(%{op: op} = error, place) do
    text = error |> Exception.message() |> String.replace_prefix("#{op}: ", "#{op}: #{place}")
    put(error, :message, text)
  end

  defp put(error, key, value), do: %{error | details: Map.put(error.details, key, value)}

  defp place({_what, epoch, batch}), do: "batch #{batch} of epoch #{epoch}: "

  defp who({:data, _epoch, _batch}), do: "the data"
  defp who({:batch, _epoch, _batch}), do: "the model"
  defp who({:callback, :start, _epoch}), do: "a callback at the start"
  defp who({:callback, :epoch, epoch}), do: "a callback after epoch #{epoch}"
  defp who({:callback, :done, _epoch}), do: "a callback at the end"
  defp who({:callback, :call, epoch}), do: "a hook in epoch #{epoch}"
  defp who({:callback, _event, epoch}), do: "a callback in epoch #{epoch}"

  defp one_line(text), do: text |> String.split() |> Enum.join(" ")

  @doc """
  The error of a step of the native loop: `{epoch, step, inputs}`, as `train_failure` answers it.

  `templates` are those of the batches that the run has programs for.
  """
  @spec of_step(Error.t(), {pos_integer(), pos_integer(), [reference()]}, ExBurn.Model.t(), [
          Data.templates()
        ]) :: Error.t()
  def of_step(%Error{} = error, {epoch, step, inputs}, model, templates) do
    details =
      Map.merge(error.details, %{epoch: epoch, batch: step, message: Exception.message(error)})

    %{error | details: named(error.reason, details, {model, inputs, templates})}
  end

  defp named(:non_finite, %{what: "loss"} = details, {model, inputs, templates}) do
    case Diagnosis.output(model, inputs, templates) do
      nil ->
        details

      :none ->
        what = if weighted?(model, templates), do: "the targets, the weights", else: "the targets"
        say(details, "; the outputs of all layers are finite, look at #{what} and the loss")

      layer ->
        details
        |> Map.put(:layer, layer)
        |> say("; the first output that is not finite is that of #{layer}")
    end
  end

  # The engine knows parameters by number, and has stopped at the first one.
  defp named(:non_finite, details, {model, inputs, templates}) do
    {trainable, _rest} = ExBurn.Training.Step.arguments(model)
    first = fn -> trainable |> Enum.at(details.parameter) |> elem(0) end
    path = Diagnosis.gradient(model, inputs, templates) || first.()
    name = State.name(path)
    message = String.replace(details.message, "the gradient is", "the gradient of #{name} is")
    Map.merge(details, %{parameter: name, layer: Diagnosis.layer(path), message: message})
  end

  defp named(_reason, %{epoch: epoch, batch: batch} = details, _step),
    do: say(details, ", in batch #{batch} of epoch #{epoch}")

  defp weighted?(model, templates) do
    model.class_weights != nil or Enum.any?(templates, fn {_x, _y, weights} -> weights != {} end)
  end

  @doc """
  The error of a step after which a parameter is not finite, with the parameter's name; others as they are.
  """
  @spec of_parameter(Error.t(), ExBurn.Model.t()) :: Error.t()
  def of_parameter(%Error{reason: :non_finite, details: %{parameter: number}} = error, model)
      when is_integer(number) do
    {trainable, _rest} = ExBurn.Training.Step.arguments(model)
    {path, _tensor} = Enum.at(trainable, number)
    name = State.name(path)

    message =
      error
      |> Exception.message()
      |> String.replace("the parameter is", "the parameter #{name} is")

    named = %{parameter: name, layer: Diagnosis.layer(path), message: message}
    %{error | details: error.details |> Map.merge(named) |> say("; the step went too far")}
  end

  def of_parameter(error, _model), do: error

  defp say(details, more), do: %{details | message: details.message <> more}

  @doc """
  The error with the model and the history that the run has reached, unless it has them.
  """
  @spec with_model(Error.t(), ExBurn.Model.t(), [map()]) :: Error.t()
  def with_model(%Error{} = error, model, history) do
    reached = %{model: model, history: history, message: Exception.message(error)}
    %{error | details: Map.merge(reached, error.details)}
  end
end
