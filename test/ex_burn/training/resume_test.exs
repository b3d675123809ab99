defmodule ExBurn.Training.ResumeTest do
  use ExBurn.Case, async: true

  alias ExBurn.{GradientCases, Model, Training}
  alias ExBurn.Training.Checkpoint

  @moduletag :tmp_dir
  @epochs 3

  defp model do
    "x"
    |> Axon.input(shape: {nil, 3})
    |> Axon.dense(5, activation: :relu)
    |> Axon.batch_norm()
    |> Axon.dropout(rate: 0.3)
    |> Axon.dense(1)
    |> Model.compile(loss: :mse, metrics: [:mae], optimizer: :adam, learning_rate: 0.02)
  end

  # 7 batches, the last one short.
  defp data, do: {GradientCases.random({26, 3}, 1), GradientCases.random({26, 1}, 2)}

  defp batches do
    {x, y} = data()
    cut = fn t -> for at <- 0..6, do: t[(4 * at)..min(4 * at + 3, 25)] end
    Enum.zip(cut.(x), cut.(y))
  end

  defp fit(data, more) do
    options = [epochs: @epochs, batch_size: 4, seed: 9, verbose: false] ++ more
    Training.fit_with_progress(model(), data, options)
  end

  defp bits(model),
    do: for({path, t} <- model.parameters ++ model.states, do: {path, Nx.to_binary(t)})

  # Goes on from each checkpoint that a run leaves, and looks for what the run itself ended with.
  defp assert_resumes(data, dir, every, more, names) do
    {whole, history} = fit(data, more)
    kept = [callbacks: [Training.checkpoint_callback({every, :steps}, dir)]]
    assert {same, ^history} = fit(data, kept ++ more)
    assert bits(same) == bits(whole)
    paths = Checkpoint.list(dir)
    assert Enum.reverse(names) == Enum.map(paths, &place/1)

    for path <- paths do
      {resumed, all} = fit(data, [resume: path] ++ more)
      assert {path, all} == {path, history}
      assert {path, bits(resumed)} == {path, bits(whole)}
    end
  end

  defp place(path) do
    [_, epochs, batches] = Regex.run(~r/checkpoint-(\d+)-(\d+)/, path)
    {String.to_integer(epochs), String.to_integer(batches)}
  end

  @every_second for epochs <- 0..2, batches <- [2, 4, 6], do: {epochs, batches}

  for gradients <- [:autodiff, :symbolic] do
    test "within an epoch, from every checkpoint, with #{gradients}", %{tmp_dir: dir} do
      more = [gradients: unquote(gradients), validation_data: data()]
      assert_resumes(data(), dir, 2, more, @every_second)
    end
  end

  test "with batches that are enumerated", %{tmp_dir: dir} do
    assert_resumes(batches(), dir, 2, [], @every_second)
  end

  test "behind the last batch of an epoch", %{tmp_dir: dir} do
    assert_resumes(data(), dir, 7, [], for(epochs <- 0..2, do: {epochs, 7}))
  end

  # A step takes 3 batches, so what is due after 2 and 4 waits for 3 and 6.
  test "behind whole steps of the optimizer", %{tmp_dir: dir} do
    more = [accumulate_gradients: 3, lr_schedule: {:cosine, 0.05, 0.001}]
    names = for epochs <- 0..2, batches <- [3, 6], do: {epochs, batches}
    assert_resumes(data(), dir, 2, more, names)
  end

  test "with a learning rate for each step, a loss scale, and weights", %{tmp_dir: dir} do
    more = [
      accumulate_gradients: 3,
      lr_schedule: {:steps, {:warmup, 3, {:cosine, 0.05, 0.001}}},
      loss_scale: {:dynamic, interval: 2}
    ]

    names = for epochs <- 0..2, batches <- [3, 6], do: {epochs, batches}
    {x, y} = data()
    assert_resumes({x, y, Nx.iota({26})}, dir, 2, more, names)
  end

  test "with a metric and batches left out that are not finite", %{tmp_dir: dir} do
    {x, y} = Enum.at(batches(), 1)
    bad = {Nx.multiply(x, Nx.Constants.nan(:f32)), y}
    assert_resumes(List.replace_at(batches(), 1, bad), dir, 2, [nan: :skip], @every_second)
  end

  # Sums of one would pass for those of the other.
  test "within an epoch, other metrics are refused; after one they are not", %{tmp_dir: dir} do
    keep = for every <- [1, {2, :steps}], do: Training.checkpoint_callback(every, dir)
    {_model, history} = fit(data(), callbacks: keep)

    for metrics <- [[], [:mse], [:mae, :mse], [mine: fn _y, p -> Nx.mean(p) end]] do
      model = %{model() | metrics: metrics}

      run =
        &Training.fit_with_progress(model, data(),
          epochs: @epochs,
          batch_size: 4,
          seed: 9,
          verbose: false,
          resume: &1
        )

      names = inspect(Enum.map(metrics, &ExBurn.Training.Metric.name/1))
      error = assert_raise ExBurn.Error, fn -> run.(Checkpoint.path(dir, 1, 4)) end

      assert Exception.message(error) =~
               "was written with metrics: [:mae], now it is #{names}; give the same"

      {_model, other} = run.(Checkpoint.path(dir, 1))
      assert Enum.map(other, & &1.loss) == Enum.map(history, & &1.loss)
    end
  end

  # The data stops the run at a batch, where its process is killed.
  test "after a kill between two steps of an epoch", %{tmp_dir: dir} do
    {whole, history} = fit(batches(), [])
    test = self()

    for {epoch, batch} <- [{1, 4}, {2, 6}, {3, 7}] do
      dir = Path.join(dir, "#{epoch}-#{batch}")
      {:ok, epochs} = Agent.start_link(fn -> 0 end)

      stream =
        Stream.resource(
          fn -> {Agent.get_and_update(epochs, &{&1 + 1, &1 + 1}), 1} end,
          fn
            {^epoch, ^batch} -> send(test, :there) && Process.sleep(:infinity)
            {_epoch, 8} -> {:halt, nil}
            {e, b} -> {[Enum.at(batches(), b - 1)], {e, b + 1}}
          end,
          fn _ -> :ok end
        )

      callbacks = [Training.checkpoint_callback({1, :steps}, dir, keep: 2)]
      {pid, monitor} = spawn_monitor(fn -> fit(stream, callbacks: callbacks) end)
      assert_receive :there, 60_000
      Process.exit(pid, :kill)
      assert_receive {:DOWN, ^monitor, :process, ^pid, :killed}, 60_000

      assert [_ | _] = Checkpoint.list(dir)
      assert {resumed, ^history} = fit(batches(), resume: dir)
      assert bits(resumed) == bits(whole)
    end
  end

  test "what it can be given is checked" do
    for every <- [0, {0, :steps}, {2, :batches}, :all] do
      assert_raise Error, ~r/^checkpoint_callback: every: /, fn ->
        Training.checkpoint_callback(every, "runs")
      end
    end
  end

  # Names that only a run makes are no atoms yet in a VM that has not trained.
  test "a VM that has not trained yet goes on in mid-epoch", %{tmp_dir: dir} do
    x = Nx.iota({8, 1}, type: :f32)
    axon = "x" |> Axon.input(shape: {nil, 1}) |> Axon.dense(1)
    callback = Training.checkpoint_callback({3, :steps}, dir)
    options = [epochs: 1, batch_size: 2, verbose: false, callbacks: [callback]]

    {_model, [entry]} =
      axon |> Model.compile(loss: :mse) |> Training.fit_with_progress({x, x}, options)

    script = """
    {:ok, _} = Application.ensure_all_started(:ex_burn)
    x = Nx.iota({8, 1}, type: :f32)
    model = ExBurn.compile("x" |> Axon.input(shape: {nil, 1}) |> Axon.dense(1), loss: :mse)
    options = [epochs: 1, batch_size: 2, verbose: false, resume: #{inspect(dir)}]
    {_model, [entry]} = ExBurn.fit_with_progress(model, {x, x}, options)
    IO.inspect(entry.loss)
    """

    paths = Enum.flat_map(:code.get_path(), &["-pa", to_string(&1)])
    {text, 0} = System.cmd("elixir", paths ++ ["-e", script], stderr_to_stdout: true)
    assert text =~ inspect(entry.loss)
  end
end
