defmodule ExBurn.Training.Callbacks.EarlyStopping do
  @moduledoc """
  The callback that ends a run which does not get better, and answers the best model that there was.
  """

  alias ExBurn.{Error, Options}
  alias ExBurn.Training.Callbacks
  alias ExBurn.Training.Callbacks.Watch

  @op :early_stopping_callback

  @doc """
  Ends the run when the validation loss, or without validation data the loss, has not become smaller by more than
  `min_delta` for `patience` epochs in a row. Epochs before a resumed run count.

  ## Options

    * `:monitor` - another value of the history that is watched, e.g. `:val_accuracy`
    * `:mode` - `:min` or `:max`, what is better. Needed for metrics of one's own; else it is known
    * `:restore_best` - whether the run answers the model of the best epoch, however it ends, rather than that of the last one.
      The best model is in checkpoints too, which are twice as large then. Defaults to `false`

  ## Examples

      iex> callback = ExBurn.Training.early_stopping_callback(1)
      iex> {:cont, state} = callback.({:epoch, %{epoch: 1, loss: 0.5, val_loss: nil}}, nil)
      iex> {:halt, _state} = callback.({:epoch, %{epoch: 2, loss: 0.6, val_loss: nil}}, state)
      iex> ExBurn.Training.early_stopping_callback(5, 0.0, monitor: :val_accuracy, restore_best: true) |> is_function(2)
      true

  """
  @spec early_stopping(pos_integer(), number(), keyword()) :: Callbacks.t()
  def early_stopping(patience \\ 5, min_delta \\ 1.0e-4, opts \\ []) do
    Options.positive!(@op, :patience, patience)
    opts = Options.validate!(@op, opts, monitor: nil, mode: nil, restore_best: false)
    restore? = opts[:restore_best]
    Options.check!(is_boolean(restore?), @op, :restore_best, restore?, "true or false")
    watch = Watch.new!(@op, opts[:monitor], opts[:mode], min_delta)

    fn
      {:start, info}, _state -> info |> start(watch, restore?) |> patient(patience)
      {:epoch, info}, state -> info |> see(state || {watch, nil}, restore?) |> patient(patience)
      {:kept, _info}, {%{epoch: epoch}, model} when model != nil -> {:keep, epoch, model}
      {:end, _info}, {_watch, model} = state when model != nil -> {:model, model, state}
      _event, state -> {:cont, state}
    end
  end

  defp patient({%{waited: waited}, _model} = state, patience) when waited >= patience,
    do: {:halt, state}

  defp patient(state, _patience), do: {:cont, state}

  defp start(info, watch, restore?) do
    Watch.expect!(watch, info.reported)
    watch = Enum.reduce(info.history, watch, &Watch.see(&2, &1))
    {watch, if(restore? and watch.epoch != nil, do: kept!(info, watch.epoch))}
  end

  # A resumed run has the model of the best epoch from its checkpoint.
  defp kept!(info, epoch) do
    case info.kept do
      %{^epoch => model} ->
        model

      %{} ->
        raise Error,
          op: @op,
          reason:
            "restore_best: the checkpoint has not the model of epoch #{epoch}, which is the best; it was written by a run " <>
              "without this callback. Start anew, or give it restore_best: false"
    end
  end

  defp see(info, {watch, model}, restore?) do
    next = Watch.see(watch, info)
    better? = next.waited == 0 and next.best != nil
    {next, if(restore? and better?, do: info.model.(), else: model)}
  end
end
