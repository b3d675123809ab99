defmodule ExBurn.Training.Checkpoint.Settings do
  @moduledoc """
  What a run that goes on from a checkpoint must have in common with the one that wrote it, as far as it can be compared.
  """

  alias ExBurn.{Error, Model}
  alias ExBurn.Model.State
  alias ExBurn.Training.{Metric, Optimizer}

  @compared ~w(rows batch_size shuffle seed accumulate_gradients clip_norm clip_value weight_decay class_weights nan gradients
    gradient_checkpointing lr_schedule loss_scale)a

  @doc """
  Settings by name, as text.
  """
  @spec of(Model.t(), map()) :: %{String.t() => String.t()}
  def of(model, options) do
    optimizer =
      case Optimizer.fetch!(model.optimizer, :fit) do
        # The order of a map's keys differs from VM to VM.
        {name, values} -> {name, Enum.sort(values)}
        nil -> :pair
      end

    settings =
      model
      |> Map.take([:loss, :learning_rate])
      |> Map.merge(Map.take(options, @compared))
      |> Map.put(:optimizer, optimizer)
      |> Map.put(:validation_data, held_out(options))
      |> Map.put(:metrics, Enum.map(model.metrics, &Metric.name/1))
      |> Map.put(:frozen, model.frozen |> Enum.map(&State.name/1) |> Enum.sort())

    Map.new(settings, fn {name, value} -> {Atom.to_string(name), text(value)} end)
  end

  # A share leaves fewer rows to train on.
  defp held_out(%{validation_data: share}) when is_float(share), do: share
  defp held_out(_options), do: :no_share

  defp text({:steps, schedule}), do: "{:steps, #{text(schedule)}}"
  defp text({:steps, count, schedule}), do: "{:steps, #{count}, #{text(schedule)}}"
  defp text({:warmup, epochs, schedule}), do: "{:warmup, #{epochs}, #{text(schedule)}}"
  # Functions have no text that could be compared with another VM's.
  defp text(function) when is_function(function), do: "a function"
  defp text(value), do: inspect(value, limit: :infinity)

  @doc """
  Refuses settings that are not those `before`, which the checkpoint at `path` was written with.
  """
  @spec compare!(settings, settings, Path.t()) :: :ok when settings: %{String.t() => String.t()}
  def compare!(now, before, path) do
    # Older versions wrote fewer.
    for {name, value} <- now, is_map_key(before, name), before[name] != value do
      raise Error,
        op: :fit,
        reason:
          "resume: #{path} was written with #{name}: #{before[name]}, now it is #{value}; give the same, or start anew without resume:"
    end

    :ok
  end
end
