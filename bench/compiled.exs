# Times compiled functions for `compare`:
#
#     mix run bench/compiled.exs FOLDER
#
# reads requests from its input and answers each with a line:
#
#     check ROW   writes the results of the row to FOLDER/ROW, as f32, and answers "ok"
#     time ROW    answers the median time of a call in microseconds
#
# or with a dash, where it fails. FOLDER holds the operands that `compare` made. Functions are compiled for the types of
# their operands before they are timed. Results are freed at once, as PyTorch and JAX do.

Code.require_file("measure.exs", __DIR__)

for file <- ~w(operands layers arrays transformer training recurrent compiling),
    do: Code.require_file("compiled/#{file}.exs", __DIR__)

defmodule Bench.Compiled do
  alias Bench.Compiled.{Arrays, Compiling, Recurrent, Training, Transformer}
  alias Bench.Measure

  @kinds [Arrays, Transformer, Training, Recurrent, Compiling]

  def serve(folder) do
    Nx.global_default_backend(ExBurn.Backend)
    Application.put_env(:ex_burn, :bench_folder, folder)
    IO.puts("ready")
    IO.stream() |> Enum.each(&IO.puts(answer(String.split(&1), folder)))
  end

  defp answer([request, name], folder) do
    row = row(name)

    case request do
      "check" -> check(row, Path.join(folder, name))
      "time" -> Measure.format(Measure.median(step(row), row.operands))
    end
  rescue
    error ->
      IO.puts(:stderr, Exception.format(:error, error, __STACKTRACE__))
      "-"
  end

  # The row as its kind describes it: what is called with which operands, and which operands of the next call its result
  # replaces, if any.
  defp row(name) do
    make = Enum.find_value(@kinds, & &1.rows()[name]) || raise "there is no row #{name}"
    row = make.()
    Map.put_new_lazy(row, :call, fn -> compile(row.function, row.operands) end)
  end

  defp compile(function, operands) do
    compiled = Nx.Defn.compile(function, operands, compiler: ExBurn.Defn.Compiler)
    fn operands -> apply(compiled, operands) end
  end

  defp check(row, path) do
    result = Map.get(row, :result, row.call).(row.operands)

    binaries =
      for tensor <- Nx.Defn.Composite.flatten_list([result]),
          do: Nx.to_binary(Nx.as_type(tensor, :f32))

    File.write!(path, binaries)
    "ok"
  end

  defp step(%{call: call, next: next}) do
    fn operands ->
      {operands, unused} = next.(call.(operands), operands)
      Enum.each(unused, &Nx.backend_deallocate/1)
      operands
    end
  end

  defp step(%{call: call}) do
    fn operands ->
      Nx.backend_deallocate(call.(operands))
      operands
    end
  end
end

[folder] = System.argv()
Bench.Compiled.serve(folder)
