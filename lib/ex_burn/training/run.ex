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
    Data,
    Failure,
    Feed,
    History,
    Job,
    Metric,
    Optimizer,
    Progress,
    Step,
    Update
  }

  @enforce_keys [:tag, :model, :options, :feed, :calls, :batches, :callbacks, :progress, :names]
  defstruct @enforce_keys ++ [:handle, :rate, history: [], steps: %{}]

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
      history: Enum.reverse(options.history)
    }

    rate = base_rate(run, options.first_epoch)
    info = %{history: options.history, next_learning_rate: rate}

    case notify(run, :start, info) do
      {:cont, rate, run} when rate != nil -> run |> launch(job, rate) |> loop()
      # A resumed run may have no epoch left.
      {:cont, nil, run} -> finish(run, :finished)
      {:halt, _rate, run} -> finish(run, :halted)
    end
  after
    Fallback.report(model.device)
  end

  defp launch(run, job, rate) do
    pause = Callbacks.pause_every(run.callbacks)
    config = %{job.config | learning_rate: rate, pause_every: pause}
    %{run | handle: Error.unwrap!(NIF.train_start(run.tag, config, job.job)), rate: rate}
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

  defp fail(:error, reason, stacktrace, cause, run) do
    error = Exception.normalize(:error, reason, stacktrace)
    history = Enum.reverse(run.history)
    error = error |> Failure.error(cause) |> Failure.with_model(trained(run), history)
    :erlang.raise(:error, error, stacktrace)
  end

  defp fail(kind, reason, stacktrace, _cause, _run), do: :erlang.raise(kind, reason, stacktrace)

  defp epoch({_name, %{epoch: epoch}}, _run), do: epoch
  defp epoch({:done, _how}, run), do: length(run.history)
  defp epoch(_event, run), do: length(run.history) + 1

  defp give_up(event, run) do
    unless last?(event), do: abandon(run)
    Feed.close(run.feed)
    Progress.close(run.progress)
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
    {verdict, _rate, run} = notify(run, :batch, info)
    if verdict == :halt, do: NIF.train_stop(run.handle)
    {:cont, run}
  end

  defp handle({:epoch, event}, run) do
    [entry | _before] = run.history
    info = Map.merge(entry, Map.take(event, [:seconds, :samples, :skipped]))
    Telemetry.epoch(info, entry, event.steps, run.options.epochs)
    run = %{run | progress: Progress.epoch(run.progress, info)}
    info = Map.put(info, :next_learning_rate, base_rate(run, entry.epoch + 1))
    info = Map.put(info, :checkpoint, &Checkpoint.write(&1, snapshot(run, nil)))
    {verdict, rate, run} = notify(run, :epoch, info)
    Error.unwrap!(NIF.train_continue(run.handle, answer(verdict, rate, run.rate)))
    {:cont, %{run | feed: run.feed && Feed.rewind(run.feed), rate: rate}}
  end

  defp handle({:pause, %{epoch: epoch, means: means}}, run) do
    step = means.batches + means.skipped
    write = &Checkpoint.write(&1, snapshot(run, means))
    {_verdict, _rate, run} = notify(run, :step, %{epoch: epoch, step: step, checkpoint: write})
    Error.unwrap!(NIF.train_continue(run.handle, :continue))
    {:cont, run}
  end

  defp handle({:call, number}, run) do
    arguments = Error.unwrap!(NIF.train_arguments(run.handle))
    results = run.calls |> Map.fetch!(number) |> HostCall.apply(arguments, %{})
    Error.unwrap!(NIF.train_resume(run.handle, results))
    {:cont, run}
  end

  defp handle({:want_batches, count}, run), do: {:cont, feed(run, count)}

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
    notify(run, :end, %{reason: reason, history: history})
    Feed.close(run.feed)
    {trained(run), history, run.handle}
  end

  defp notify(run, kind, info) do
    more = %{epochs: run.options.epochs, batch_size: run.options.batch_size}
    info = info |> Map.merge(more) |> Map.put(:model, fn -> trained(run) end)
    {verdict, rate, callbacks} = Callbacks.notify(run.callbacks, {kind, info})

    if rate != info[:next_learning_rate],
      do: Update.no_rate!(run.model.optimizer, "the learning rate of a callback", :fit)

    {verdict, rate, %{run | callbacks: callbacks}}
  end

  # The learning rate of an epoch before callbacks have changed it, `nil` after the last one.
  defp base_rate(%{options: options} = run, epoch),
    do: if(epoch <= options.epochs, do: Job.learning_rate(run.model, options, epoch))

  defp answer(:halt, _rate, _before), do: :halt
  defp answer(:cont, nil, _before), do: :continue
  defp answer(:cont, rate, rate), do: :continue
  defp answer(:cont, rate, _before), do: {:learning_rate, rate}

  # `means` say where in an epoch it is, `nil` after one.
  defp snapshot(run, means) do
    state = Error.unwrap!(NIF.train_optimizer_state(run.handle))
    model = run |> trained() |> Job.put_optimizer_state(state)
    %{model: model, options: run.options, history: Enum.reverse(run.history), means: means}
  end

  defp trained(%{handle: nil, model: model}), do: model

  defp trained(run) do
    {trainable, rest} = Error.unwrap!(NIF.train_parameters(run.handle))
    Step.put_arguments(run.model, trainable, rest)
  end

  ## Batches

  defp feed(run, 0), do: run

  defp feed(run, count) do
    case Feed.next(run.feed) do
      {:ended, feed} -> %{run | feed: feed}
      {:end, %{taken: 0}} -> no_batches!(run)
      {:end, feed} -> end_epoch(%{run | feed: feed})
      {batch, feed} -> %{run | feed: feed} |> give(batch) |> feed(count - 1)
    end
  end

  defp end_epoch(run) do
    Error.unwrap!(NIF.train_feed_end(run.handle))
    run
  end

  defp give(run, batch) do
    fit(run, batch)
  rescue
    error ->
      cause = {:batch, length(run.history) + 1, run.feed.taken}
      reraise Failure.error(error, cause), __STACKTRACE__
  end

  defp fit(run, batch) do
    data = Data.new!(batch, run.model, :fit)
    {step, run} = step(run, Data.templates(data, data.rows))
    Step.check_targets!(step, run.model, data.y, :fit)
    Error.unwrap!(NIF.train_feed(run.handle, step.program, Step.refs(Data.tensors(data))))
    run
  end

  defp step(run, templates) do
    step =
      Map.get_lazy(run.steps, templates, fn -> Step.fetch!(run.model, :train, templates, :fit) end)

    steps = Map.put(run.steps, templates, step)
    {step, %{run | steps: steps, calls: Map.merge(run.calls, step.calls)}}
  end

  defp no_batches!(%{history: []}),
    do: raise(Error, op: :fit, reason: "the data is empty: it has no batches")

  defp no_batches!(%{history: history}) do
    raise Error,
      op: :fit,
      reason:
        "the data had no batches in epoch #{length(history) + 1}; " <>
          "each epoch enumerates it anew, so it must not be used up by the first"
  end
end
