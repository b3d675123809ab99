defmodule ExBurn.Training.Run do
  @moduledoc """
  The owner's side of a training run: starts the native thread, receives its messages, runs callbacks, answers.

  The thread talks to the process that called `fit` under a unique tag, so other messages stay in the mailbox and none of
  the run's is left when it is over, however it ends. If the process dies, the thread ends within a batch.
  """

  alias ExBurn.Defn.Lowering.HostCall
  alias ExBurn.{Error, Fallback, Model, NIF, Telemetry}

  alias ExBurn.Training.{
    Callbacks,
    Checkpoint,
    Failure,
    Feed,
    History,
    Job,
    Metric,
    Optimizer,
    Progress,
    Rates,
    Step,
    Update
  }

  alias ExBurn.Training.Run.Batches

  @enforce_keys [:tag, :model, :options, :feed, :calls, :batches, :callbacks, :progress, :names] ++
                  [:table]
  defstruct @enforce_keys ++ [:handle, :told, history: [], steps: %{}]

  @type t :: %__MODULE__{}

  @doc """
  Trains until the last epoch or until a callback halts, and answers the trained model, the history and the native handle.
  """
  @spec run(Model.t(), Job.t(), map()) :: {Model.t(), History.t(), reference()}
  def run(%Model{} = model, %Job{} = job, options) do
    run = %__MODULE__{
      tag: make_ref(),
      model: model,
      options: options,
      feed: job.feed,
      calls: job.calls,
      batches: job.batches,
      callbacks: Callbacks.start(options.callbacks),
      progress: progress(options),
      names: Enum.map(model.metrics, &Metric.name/1),
      table: job.job.rates,
      history: Enum.reverse(options.history)
    }

    base = Rates.base(model, options, run.table, options.first_epoch, Job.steps(model))

    case begin(run, Map.put(start(run, job), :next_learning_rate, base)) do
      {:cont, %{next_learning_rate: rate}, run} when rate != nil ->
        run |> launch(job, Rates.told(rate, base, run.table)) |> loop()

      # A resumed run may have no epoch left.
      {:cont, _info, run} ->
        finish(run, :finished)

      {:halt, _info, run} ->
        finish(run, :halted)
    end
  after
    Fallback.report(model.device)
  end

  defp begin(run, info) do
    notify(run, :start, info)
  catch
    kind, reason when kind in [:error, :exit] ->
      cause = {:callback, :start, run.options.first_epoch}
      error = failure(kind, reason, __STACKTRACE__, cause)
      Failure.reraise_exit(error, reason, __STACKTRACE__)
  end

  # What the built-in callbacks are told of the run before it begins.
  defp start(run, job) do
    validation =
      if job.job.validation, do: Enum.map([:loss | run.names], &History.val/1), else: []

    history = run.options.history

    means = run.options[:means]

    %{
      history: history,
      step: means && means.batches + means.skipped,
      reported: [:loss | run.names] ++ validation,
      kept: Checkpoint.kept(run.options, run.model, history)
    }
  end

  defp launch(run, job, told) do
    pause = Callbacks.pause_every(run.callbacks)
    config = %{job.config | learning_rate: told, pause_every: pause}
    %{run | handle: Error.unwrap!(NIF.train_start(run.tag, config, job.job)), told: told}
  end

  defp progress(options) do
    mode = if options.verbose, do: :auto, else: :off
    Progress.new(mode, options.epochs, options.batch_size)
  end

  defp loop(%__MODULE__{tag: tag} = run) do
    event =
      receive do
        {:ex_burn_train, ^tag, event} -> event
      end

    case guarded(event, record(event, run)) do
      {:cont, run} -> loop(run)
      {:done, result} -> result
    end
  end

  defp record({:epoch, event}, run) do
    # The rate of an optimizer that brings its own is not known.
    known? = not Optimizer.pair?(run.model.optimizer)
    event = if known?, do: event, else: %{event | learning_rate: nil}
    %{run | history: [History.entry(event, run.names) | run.history]}
  end

  defp record(_event, run), do: run

  # Nothing that goes wrong here may leave the thread running or its messages behind.
  defp guarded(event, run) do
    handle(event, run)
  catch
    :throw, {Feed, number, kind, reason, stacktrace} ->
      run = %{run | feed: nil}
      give_up(event, run)
      fail(kind, reason, stacktrace, {:data, length(run.history) + 1, number}, run)

    kind, reason ->
      give_up(event, run)
      fail(kind, reason, __STACKTRACE__, {:callback, elem(event, 0), epoch(event, run)}, run)
  end

  defp fail(kind, reason, stacktrace, cause, run) do
    case failure(kind, reason, stacktrace, cause) do
      nil ->
        :erlang.raise(kind, reason, stacktrace)

      error ->
        error = Failure.with_model(error, trained(run), Enum.reverse(run.history))
        :erlang.raise(:error, error, stacktrace)
    end
  end

  defp failure(:error, reason, stacktrace, cause),
    do: :error |> Exception.normalize(reason, stacktrace) |> Failure.error(cause)

  defp failure(:exit, reason, _stacktrace, cause), do: Failure.exit(reason, cause)
  defp failure(:throw, _value, _stacktrace, _cause), do: nil

  defp epoch({_name, %{epoch: epoch}}, _run), do: epoch
  defp epoch({:done, _how}, run), do: length(run.history)
  defp epoch(_event, run), do: length(run.history) + 1

  defp give_up(event, run) do
    unless last?(event), do: abandon(run)
    close_quietly(run.feed)
    Progress.close(run.progress)
  end

  # What went wrong first is told.
  defp close_quietly(feed) do
    Feed.close(feed)
  catch
    _kind, _reason -> :ok
  end

  defp last?({name, _}), do: name in [:done, :failed]

  defp abandon(%__MODULE__{tag: tag} = run) do
    NIF.train_stop(run.handle)
    drain(tag)
  end

  defp drain(tag) do
    receive do
      {:ex_burn_train, ^tag, event} -> unless last?(event), do: drain(tag)
    end
  end

  defp handle({:progress, event}, run) do
    info =
      event
      |> Map.drop([:metrics])
      |> Map.merge(History.metrics(run.names, event.metrics))

    Telemetry.step(info, run.options.epochs, run.names)
    run = %{run | progress: Progress.batch(run.progress, info)}
    {verdict, _info, run} = notify(run, :batch, info)
    if verdict == :halt, do: NIF.train_stop(run.handle)
    {:cont, run}
  end

  defp handle({:epoch, event}, run) do
    [entry | _before] = run.history
    info = entry |> Map.merge(Map.take(event, [:seconds, :samples, :skipped])) |> scaled(run)
    Telemetry.epoch(info, entry, event.steps, run.options.epochs)
    run = %{run | progress: Progress.epoch(run.progress, info)}
    base = Rates.base(run.model, run.options, run.table, entry.epoch + 1, event.updates)
    checkpoint = &Checkpoint.write(&1, snapshot(run, nil))
    info = Map.merge(info, %{next_learning_rate: base, checkpoint: checkpoint})
    {verdict, %{next_learning_rate: rate}, run} = notify(run, :epoch, info)
    told = rate && Rates.told(rate, base, run.table)
    Error.unwrap!(NIF.train_continue(run.handle, answer(verdict, told, run.told)))
    {:cont, %{run | feed: run.feed && Feed.rewind(run.feed), told: told}}
  end

  defp handle({:pause, %{epoch: epoch, means: means}}, run) do
    step = means.batches + means.skipped
    write = &Checkpoint.write(&1, snapshot(run, means))
    {_verdict, _info, run} = notify(run, :step, %{epoch: epoch, step: step, checkpoint: write})
    Error.unwrap!(NIF.train_continue(run.handle, :continue))
    {:cont, run}
  end

  defp handle({:call, number}, run) do
    arguments = Error.unwrap!(NIF.train_arguments(run.handle))
    results = run.calls |> Map.fetch!(number) |> HostCall.apply(arguments, %{})
    Error.unwrap!(NIF.train_resume(run.handle, results))
    {:cont, run}
  end

  defp handle({:want_batches, count}, run), do: {:cont, Batches.feed(run, count)}

  defp handle({:done, how}, run) do
    {:done, finish(run, if(how == :finished, do: :finished, else: :halted))}
  end

  defp handle({:failed, failure}, run) do
    error = Error.from_native(failure)

    case Error.unwrap!(NIF.train_failure(run.handle)) do
      nil -> raise Failure.of_parameter(error, run.model)
      step -> raise Failure.of_step(error, step, run.model, run.batches ++ Map.keys(run.steps))
    end
  end

  defp finish(run, reason) do
    run = %{run | progress: Progress.close(run.progress)}
    history = Enum.reverse(run.history)
    if run.model.device != :cpu, do: Fallback.report(run.model.device)
    {_verdict, info, run} = notify(run, :end, %{reason: reason, history: history})
    Feed.close(run.feed)
    {info.model.(), history, run.handle}
  end

  defp scaled(info, run) do
    case Error.unwrap!(NIF.train_loss_scale(run.handle)) do
      nil -> info
      {factor, _good, _interval} -> Map.put(info, :loss_scale, factor)
    end
  end

  defp notify(run, kind, info) do
    more = %{epochs: run.options.epochs, batch_size: run.options.batch_size}
    info = info |> Map.merge(more) |> Map.put(:model, fn -> trained(run) end)
    {verdict, after_all, callbacks} = Callbacks.notify(run.callbacks, {kind, info})

    if after_all[:next_learning_rate] != info[:next_learning_rate],
      do: Update.no_rate!(run.model.optimizer, "the learning rate of a callback", :fit)

    {verdict, after_all, %{run | callbacks: callbacks}}
  end

  defp answer(:halt, _rate, _before), do: :halt
  defp answer(:cont, nil, _before), do: :continue
  defp answer(:cont, rate, rate), do: :continue
  defp answer(:cont, rate, _before), do: {:learning_rate, rate}

  # `means` say where in an epoch it is, `nil` after one.
  defp snapshot(run, means) do
    state = Error.unwrap!(NIF.train_optimizer_state(run.handle))
    model = run |> trained() |> Job.put_optimizer_state(state)

    %{
      model: model,
      options: run.options,
      history: Enum.reverse(run.history),
      means: means,
      loss_scale: Error.unwrap!(NIF.train_loss_scale(run.handle)),
      kept: Callbacks.kept(run.callbacks)
    }
  end

  # Nobody but the run multiplies the loss.
  defp trained(%{handle: nil, model: model}), do: %{model | loss_scale: nil}

  defp trained(run) do
    {trainable, rest} = Error.unwrap!(NIF.train_parameters(run.handle))
    Step.put_arguments(%{run.model | loss_scale: nil}, trainable, rest)
  end
end
