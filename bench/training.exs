# Times training steps of `ExBurn.fit` for `compare`:
#
#     mix run bench/training.exs FOLDER autodiff|symbolic
#
# reads requests from its input and answers each with a line:
#
#     check ROW   writes the gradients of the first batch and the mean loss of the first steps to FOLDER/ROW, as f32, and
#                 answers "ok"
#     time ROW    answers the median time of a step in microseconds: that of a call of `fit` over all batches, divided by
#                 their number; of an epoch, that of the call
#
# or with a dash and a reason, where it fails. FOLDER holds the operands that `compare` made.

Code.require_file("measure.exs", __DIR__)
for file <- ~w(models tasks), do: Code.require_file("training/#{file}.exs", __DIR__)

defmodule Bench.Training do
  alias Bench.Measure
  alias Bench.Training.Tasks

  # So many steps have the mean of their losses compared.
  @checked 4

  def serve(folder, path) do
    Nx.global_default_backend(ExBurn.Backend)
    Application.put_env(:ex_burn, :bench_folder, folder)
    IO.puts("ready")
    IO.stream() |> Enum.each(&IO.puts(answer(String.split(&1), folder, path)))
  end

  defp answer([request, name], folder, path) do
    task = Tasks.fetch!(name)

    case request do
      "check" -> check(task, path, Path.join(folder, name))
      "time" -> time(task, path, name)
    end
  rescue
    error ->
      IO.puts(:stderr, Exception.format(:error, error, __STACKTRACE__))
      "- #{error |> Exception.message() |> String.split("\n") |> hd()}"
  end

  defp check(task, path, file) do
    {x, y} = rows(task, task.batch_size)
    gradients = ExBurn.compute_gradients(task.model, {x, y}, gradients: path)
    data = rows(task, @checked * task.batch_size)
    {_model, [%{loss: loss}]} = fit(task, data, path, false)
    binaries = for t <- task.leaves.(gradients) ++ [Nx.tensor(loss)], do: Nx.to_binary(t)
    File.write!(file, binaries)
    "ok"
  end

  defp rows(task, count), do: {task.x[0..(count - 1)], task.y[0..(count - 1)]}

  defp time(task, path, name) do
    epoch? = name == "mlp_epoch_60000"
    data = {task.x, task.y}
    all = Measure.median(fn nil -> drop(fit(task, data, path, epoch?)) end, nil)
    Measure.format(if epoch?, do: all, else: all / task.batches)
  end

  defp drop(_result), do: nil

  defp fit(task, data, path, shuffle?) do
    ExBurn.fit_with_progress(task.model, data,
      epochs: 1,
      batch_size: task.batch_size,
      shuffle: shuffle?,
      gradients: path,
      verbose: false
    )
  end
end

[folder, path] = System.argv()

Bench.Training.serve(
  folder,
  Map.fetch!(%{"autodiff" => :autodiff, "symbolic" => :symbolic}, path)
)
