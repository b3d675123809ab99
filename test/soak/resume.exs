# Runs that are killed and resumed end as if they had not been:
#
#     mix run test/soak/resume.exs [kills] [seed]
#
# A child VM trains with checkpoints and is killed with SIGKILL after a random time, until it has been killed so often as
# asked for (20) and has come to its end. Then its parameters must have the bits of an uninterrupted run in this VM. A run
# that ends sooner is compared too, and another one begins.

defmodule ExBurn.Soak.Resume do
  alias ExBurn.{Model, Training}

  @epochs 400

  defp data do
    key = Nx.Random.key(1)
    {x, key} = Nx.Random.normal(key, shape: {2000, 16})
    {noise, _key} = Nx.Random.normal(key, shape: {2000, 1})
    y = x |> Nx.sin() |> Nx.sum(axes: [1], keep_axes: true) |> Nx.add(Nx.multiply(noise, 0.1))
    {x, y, Nx.remainder(Nx.iota({2000}), 5)}
  end

  def train(opts) do
    axon =
      "x"
      |> Axon.input(shape: {nil, 16})
      |> Axon.dense(64, activation: :relu)
      |> Axon.batch_norm()
      |> Axon.dropout(rate: 0.2)
      |> Axon.dense(1)

    defaults = [
      epochs: @epochs,
      verbose: false,
      validation_data: 0.1,
      lr_schedule: {:steps, {:warmup, 100, {:cosine, 0.01, 0.0001}}},
      loss_scale: {:dynamic, interval: 300},
      clip_norm: 1.0,
      accumulate_gradients: 2
    ]

    {callbacks, opts} = Keyword.pop(opts, :callbacks, [])
    # It never stops, but answers the best model.
    best = Training.early_stopping_callback(@epochs, 0.0, restore_best: true)
    callbacks = [Training.reduce_lr_on_plateau_callback(patience: 3), best | callbacks]
    model = Model.compile(axon, loss: :huber, metrics: [:mae], optimizer: :adamw)
    Training.fit_with_progress(model, data(), defaults ++ [callbacks: callbacks] ++ opts)
  end

  def digest({model, history}) do
    bits = for {path, t} <- model.parameters ++ model.states, do: {path, Nx.to_binary(t)}

    {bits, history}
    |> :erlang.term_to_binary([:deterministic])
    |> :erlang.md5()
    |> Base.encode16()
  end

  def child(dir) do
    keep = for every <- [1, {7, :steps}], do: Training.checkpoint_callback(every, dir, keep: 3)
    callbacks = [ready(newest(dir) + 1) | keep]
    IO.puts("digest " <> digest(train(resume: dir, callbacks: callbacks)))
  end

  # Compiling takes longer than training, and there is nothing to lose in it.
  defp ready(expected) do
    fn
      {:epoch, %{epoch: ^expected}}, nil -> {:cont, IO.puts("ready")}
      {:epoch, %{epoch: epoch}}, nil -> raise "went on with epoch #{epoch}, not #{expected}"
      _event, state -> {:cont, state}
    end
  end

  defp newest(dir) do
    case Training.Checkpoint.list(dir) do
      [newest | _] -> ~r/\d+/ |> Regex.run(Path.basename(newest)) |> hd() |> String.to_integer()
      [] -> 0
    end
  end

  def run(kills, seed) do
    :rand.seed(:exsss, seed)
    want = digest(train([]))
    IO.puts("without a kill: #{want}")
    runs = go(want, kills, 1, 0)
    IO.puts("#{kills} kills in #{runs} runs, none of which lost anything")
  end

  defp go(want, kills, runs, killed) do
    dir = Path.join(System.tmp_dir!(), "ex_burn-resume-#{System.pid()}-#{runs}")

    case until_ended(dir, want, kills, killed) do
      killed when killed < kills -> go(want, kills, runs + 1, killed)
      _killed -> runs
    end
  after
    Enum.each(
      Path.wildcard(Path.join(System.tmp_dir!(), "ex_burn-resume-#{System.pid()}-*")),
      &File.rm_rf/1
    )
  end

  defp until_ended(dir, want, kills, killed) do
    patience = if killed < kills, do: :rand.uniform(400), else: :infinity

    case start(dir, patience) do
      :killed ->
        left = dir |> Training.Checkpoint.list() |> Enum.map(&Path.basename/1)
        IO.puts("kill #{killed + 1} after #{patience} ms, left: #{inspect(left)}")
        until_ended(dir, want, kills, killed + 1)

      ^want ->
        IO.puts("ended after #{killed} kills: #{want}")
        killed

      other ->
        IO.puts("FAILED: #{inspect(other)}, expected #{want}")
        System.halt(1)
    end
  end

  # The clock starts when the child has trained for an epoch.
  defp start(dir, patience) do
    args = ["run", "--no-compile", __ENV__.file, "child", dir]

    port =
      Port.open({:spawn_executable, System.find_executable("mix")}, [
        :binary,
        :exit_status,
        :stderr_to_stdout,
        args: args
      ])

    {:os_pid, pid} = Port.info(port, :os_pid)
    listen(port, pid, patience, "", :infinity)
  end

  defp listen(port, pid, patience, text, wait) do
    receive do
      {^port, {:data, more}} ->
        text = text <> more
        wait = if wait == :infinity and text =~ "ready", do: patience, else: wait
        listen(port, pid, patience, text, wait)

      {^port, {:exit_status, 0}} ->
        [_, digest] = Regex.run(~r/digest (\w+)/, text)
        digest

      {^port, {:exit_status, _}} ->
        text
    after
      wait ->
        {_out, 0} = System.cmd("kill", ["-KILL", Integer.to_string(pid)])

        receive do
          {^port, {:exit_status, _}} -> :killed
        end
    end
  end
end

case System.argv() do
  ["child", dir] -> ExBurn.Soak.Resume.child(dir)
  [] -> ExBurn.Soak.Resume.run(20, 1)
  [kills] -> ExBurn.Soak.Resume.run(String.to_integer(kills), 1)
  [kills, seed] -> ExBurn.Soak.Resume.run(String.to_integer(kills), String.to_integer(seed))
end
