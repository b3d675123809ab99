defmodule ExBurn.Training.Callbacks.Report do
  @moduledoc """
  Callbacks that tell others how a run goes.
  """

  require Logger

  alias ExBurn.Options
  alias ExBurn.Training.{Callbacks, History, Progress}

  @doc """
  Logs the losses and metrics of each epoch with `Logger`.

  ## Options

    * `:level` - of the messages. Defaults to `:info`
    * `:every` - (positive integer) logs only epochs divisible by it. Defaults to `1`

  ## Examples

      iex> is_function(ExBurn.Training.logging_callback(every: 5), 2)
      true

  """
  @spec logging(keyword()) :: Callbacks.t()
  def logging(opts \\ []) do
    name = :logging_callback
    opts = Options.validate!(name, opts, level: :info, every: 1)
    levels = Logger.levels()
    Options.check!(opts[:level] in levels, name, :level, opts[:level], "a level of Logger")
    Options.positive!(name, :every, opts[:every])

    fn event, state ->
      log(event, opts[:level], opts[:every])
      {:cont, state}
    end
  end

  defp log({:epoch, info}, level, every) when rem(info.epoch, every) == 0 do
    text = History.text(info)
    Logger.log(level, "epoch #{info.epoch}/#{info.epochs}: #{text}")
  end

  defp log(_event, _level, _every), do: :ok

  @doc """
  Sends `{:training_progress, epoch, loss, val_loss}` to a process after each epoch: a pid, or a name that is registered
  then; where it isn't, nothing is sent.

  ## Examples

      iex> callback = ExBurn.Training.screen_callback(self())
      iex> callback.({:epoch, %{epoch: 1, loss: 0.5, val_loss: nil}}, nil)
      {:cont, nil}
      iex> receive do message -> message end
      {:training_progress, 1, 0.5, nil}

  """
  @spec screen(pid() | atom()) :: Callbacks.t()
  def screen(to) do
    valid? = is_pid(to) or (is_atom(to) and to != nil)
    Options.check!(valid?, :screen_callback, :pid, to, "a process or its name")

    fn
      {:epoch, info}, state ->
        pid = if is_pid(to), do: to, else: Process.whereis(to)
        if pid, do: send(pid, {:training_progress, info.epoch, info.loss, info.val_loss})
        {:cont, state}

      _event, state ->
        {:cont, state}
    end
  end

  @doc """
  Appends each epoch's entry to the list, or nothing, held by an `Agent`, where other processes can read it while the run goes on. A
  resumed run appends those of the epochs before it first.

  ## Examples

      iex> {:ok, agent} = Agent.start_link(fn -> [] end)
      iex> is_function(ExBurn.Training.history_callback(agent), 2)
      true

  """
  @spec history(Agent.agent()) :: Callbacks.t()
  def history(agent) do
    valid? = is_pid(agent) or is_tuple(agent) or (is_atom(agent) and agent != nil)
    Options.check!(valid?, :history_callback, :agent, agent, "an Agent's process or its name")

    fn
      {:start, %{history: history}}, state ->
        Agent.update(agent, &(List.wrap(&1) ++ history))
        {:cont, state}

      {:epoch, info}, state ->
        Agent.update(agent, &(List.wrap(&1) ++ [History.from_info(info)]))
        {:cont, state}

      _event, state ->
        {:cont, state}
    end
  end

  @doc """
  Shows what `verbose: true` shows: one live line for each epoch on a terminal, plain lines elsewhere.

  ## Options

    * `:mode` - `:terminal`, `:plain`, or `:auto`, which looks whether standard output is a terminal. Defaults to `:auto`

  ## Examples

      iex> is_function(ExBurn.Training.progress_bar_callback(mode: :plain), 2)
      true

  """
  @spec progress_bar(keyword()) :: Callbacks.t()
  def progress_bar(opts \\ []) do
    name = :progress_bar_callback
    opts = Options.validate!(name, opts, mode: :auto)
    valid? = opts[:mode] in [:auto, :plain, :terminal]
    Options.check!(valid?, name, :mode, opts[:mode], ":auto, :plain or :terminal")

    fn
      {:start, info}, _state -> {:cont, Progress.new(opts[:mode], info.epochs, info.batch_size)}
      {:batch, info}, progress -> {:cont, Progress.batch(progress, info)}
      {:epoch, info}, progress -> {:cont, Progress.epoch(progress, info)}
      {:end, _info}, progress -> {:cont, progress && Progress.close(progress)}
    end
  end
end
