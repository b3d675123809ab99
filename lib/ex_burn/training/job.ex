defmodule ExBurn.Training.Job do
  @moduledoc """
  What the native training loop is given: data, programs, parameters and configuration.

  `native/ex_burn/src/train.rs` describes the terms.
  """

  alias ExBurn.Defn.Lowering.HostCall
  alias ExBurn.{Error, Model, Telemetry}
  alias ExBurn.Training.{Data, Failure, Feed, LossScale, Optimizer, Rates, Step, Update}

  @enforce_keys [:config, :job, :feed]
  defstruct [:config, :job, :feed, calls: %{}, batches: []]

  @typedoc "With the functions that the programs call and the templates of the batches that there are programs for."
  @type t :: %__MODULE__{
          config: map(),
          job: map(),
          feed: Feed.t() | nil,
          calls: %{non_neg_integer() => HostCall.t()},
          batches: [Data.templates()]
        }

  @doc """
  The job of training `model` with `{x, y}` or an enumerable of such batches.

  `options` are those of `ExBurn.Training.Options.fit!/2`.
  """
  @spec prepare!(Model.t(), term(), map()) :: t()
  def prepare!(%Model{} = model, data, options) do
    {data, validation, feed} = sources!(model, data, options)
    steps = steps!(data, model, :train, options.batch_size)
    evaluations = for rows <- validation, do: evaluations!(rows, model, options.batch_size)

    sources = %{
      steps: programs(steps),
      data: data && refs(data),
      validation: Enum.zip_with(evaluations, validation, &{programs(&1), refs(&2)}),
      optimizer_state: resume(model),
      means: options[:means],
      rates: Rates.table!(options, data, feed && feed.enumerable),
      loss_scale: options[:loss_scale_state] || LossScale.start(options.loss_scale)
    }

    %__MODULE__{
      config: config(model, options),
      job: job(model, sources),
      feed: feed,
      calls: calls(steps ++ Enum.concat(evaluations)),
      batches: batches(data, options.batch_size)
    }
  end

  @doc """
  The job of one step on the batch `{x, y}` for `op`, going on from the model's optimizer state.
  """
  @spec single_step!(Model.t(), Data.t(), map(), atom()) :: t()
  def single_step!(%Model{} = model, %Data{} = batch, options, op) do
    templates = Data.templates(batch, batch.rows)
    step = Step.fetch!(model, :train, templates, op)
    Step.check_values!(step, model, batch, batch.rows, op)

    sources = %{
      steps: [step.program],
      data: refs(batch),
      validation: [],
      optimizer_state: resume(model),
      means: nil,
      rates: [],
      loss_scale: nil
    }

    config =
      Map.merge(constants(model, options), %{
        epochs: 1,
        batch_size: batch.rows,
        shuffle: false,
        seed: 0,
        progress: false,
        learning_rate: options.learning_rate * 1.0
      })

    %__MODULE__{
      config: config,
      job: job(model, sources),
      feed: nil,
      calls: step.calls,
      batches: [templates]
    }
  end

  defp job(model, sources) do
    {trainable, rest} = Step.arguments(model)

    if trainable == [] do
      raise Error, op: :fit, reason: "the model has no parameters to train; unfreeze some of them"
    end

    sources
    |> Map.merge(%{params: Step.refs(trainable), states: Step.refs(rest), update: nil})
    |> with_update(model.optimizer, trainable)
  end

  defp with_update(job, optimizer, trainable) do
    if Optimizer.pair?(optimizer) do
      {program, start} = Update.prepare!(optimizer, trainable)
      %{job | update: program, optimizer_state: job.optimizer_state || start}
    else
      job
    end
  end

  # The run sets the learning rate.
  defp config(model, options) do
    options
    |> Map.take([:epochs, :batch_size, :shuffle, :seed])
    |> Map.merge(constants(model, options))
    |> Map.merge(%{
      learning_rate: 0.0,
      progress: options.verbose or options.callbacks != [] or Telemetry.steps?()
    })
  end

  # An optimizer that lets weights decay in a way of its own does so with the decay of `fit` too.
  defp constants(model, options) do
    optimizer = Optimizer.fetch!(model.optimizer, :fit)
    decay = options.weight_decay * 1.0

    {optimizer, decay} =
      case decay > 0 and Optimizer.put_decay(optimizer, decay) do
        {:ok, optimizer} -> {optimizer, 0.0}
        _other -> {optimizer, decay}
      end

    %{
      first_epoch: options[:first_epoch] || 1,
      optimizer: optimizer,
      weight_decay: decay,
      clip_norm: float(options.clip_norm),
      clip_value: float(options.clip_value),
      weighted: true,
      accumulate: options[:accumulate_gradients] || 1,
      checkpointing: checkpointing(options.gradient_checkpointing),
      gradients: if(model.gradients == :symbolic, do: :program, else: :autodiff),
      skip_non_finite: options[:nan] == :skip,
      pause_every: nil
    }
  end

  @doc """
  What the native side calls a choice of `gradient_checkpointing:`.
  """
  @spec checkpointing(boolean() | {:every, pos_integer()}) ::
          :off | :balanced | {:every, pos_integer()}
  def checkpointing(false), do: :off
  def checkpointing(true), do: :balanced
  def checkpointing({:every, count}), do: {:every, count}

  defp float(number), do: number && number * 1.0

  # Moments belong to an optimizer and to the parameters that it changes.
  defp resume(%Model{optimizer_state: {for_what, state}} = model),
    do: if(for_what == owner(model), do: state)

  defp resume(%Model{}), do: nil

  @doc """
  How many steps the optimizer of a run that goes on has taken.
  """
  @spec steps(Model.t()) :: non_neg_integer()
  def steps(model) do
    case resume(model) do
      {count, _slots} -> count
      nil -> 0
    end
  end

  @doc """
  The model with the optimizer state of a run.
  """
  @spec put_optimizer_state(Model.t(), {non_neg_integer(), [[reference()]]}) :: Model.t()
  def put_optimizer_state(%Model{} = model, state),
    do: %{model | optimizer_state: {owner(model), state}}

  defp owner(model) do
    {trainable, _rest} = Step.arguments(model)
    {model.optimizer, Enum.map(trainable, &elem(&1, 0))}
  end

  defp sources!(model, rows, %{validation_data: share} = options)
       when is_tuple(rows) and is_float(share) do
    {train, validation} = rows |> Data.new!(model, :fit) |> Data.split!(share, options.seed, :fit)
    {train, [validation], nil}
  end

  defp sources!(model, rows, options) when is_tuple(rows),
    do: {Data.new!(rows, model, :fit), validation!(model, options), nil}

  defp sources!(model, batches, options) do
    cond do
      not Feed.batches?(batches) ->
        raise Error,
          op: :fit,
          reason:
            "data must be {x, y} or an enumerable of batches {x, y}, got #{ExBurn.Options.short(batches)}"

      is_float(options.validation_data) ->
        raise Error,
          op: :fit,
          reason:
            "a share of an enumerable can't be held out; give validation_data as {x, y} or batches of it"

      true ->
        {nil, validation!(model, options), feed(batches, options[:means])}
    end
  end

  defp feed(batches, nil), do: Feed.new(batches)

  defp feed(batches, %{batches: done, skipped: skipped}),
    do: batches |> Feed.new() |> Feed.skip(done + skipped)

  # Parts of one shape each.
  defp validation!(_model, %{validation_data: nil}), do: []

  defp validation!(model, %{validation_data: rows}) when is_tuple(rows),
    do: [Failure.within("validation_data", fn -> Data.new!(rows, model, :fit) end)]

  defp validation!(model, %{validation_data: batches}) do
    Failure.calling(:fit, "validation_data", fn ->
      batches
      |> Stream.with_index(1)
      |> Enum.map(&validation_batch!(&1, model))
      |> Data.join!("validation_data", :fit)
    end)
  end

  defp validation_batch!({batch, number}, model) do
    Failure.within("validation_data: batch #{number}", fn -> Data.new!(batch, model, :fit) end)
  end

  defp steps!(data, model, mode, batch_size) do
    steps = for batch <- batches(data, batch_size), do: Step.fetch!(model, mode, batch, :fit)

    for step <- Enum.take(steps, 1),
        do: Step.check_values!(step, model, data, batch_size, :fit)

    steps
  end

  defp evaluations!(rows, model, size),
    do: Failure.within("validation_data", fn -> steps!(rows, model, :inference, size) end)

  defp batches(nil, _size), do: []

  defp batches(data, size),
    do: for(rows <- Data.batch_sizes(data.rows, size), do: Data.templates(data, rows))

  defp programs(steps), do: Enum.map(steps, & &1.program)

  defp refs(data), do: data |> Data.tensors() |> Step.refs()

  defp calls(steps), do: steps |> Enum.map(& &1.calls) |> Enum.reduce(%{}, &Map.merge/2)
end
