defmodule ExBurn.Fuzz.Check do
  @moduledoc """
  Compares what a compiled program answers with what is right.

  A fault is `{kind, text}`; the kind, `:value` or the exception raised, tells whether two programs go wrong alike.
  """

  alias ExBurn.Fuzz.{Compare, Interpreter, Oracle}

  # So many lanes look again at what seems to differ.
  @lanes 40

  # What Nx.BinaryBackend raises for infinities, which the BEAM doesn't have.
  @no_answer [ArithmeticError, ArgumentError]

  @type fault :: {:value | module(), String.t()}

  @doc """
  What is wrong with the answers of a program, or `nil`; `rights` are its outputs as `ExBurn.Fuzz.Generator` answers them.

  Before it says so, it runs the program in many more lanes, and once traced by `Nx.Defn.Evaluator` in as many: where the
  traced program means something else than its steps, both of us answer alike or both raise, and the fault is Nx's.
  """
  @spec fault(ExBurn.Fuzz.Program.t(), [[Nx.Tensor.t()]], keyword()) :: fault() | nil
  def fault(program, rights, opts) do
    case compare(ours(program, opts), rights) do
      nil -> nil
      {:value, _} -> confirmed(program, opts)
      {raised, _} = fault -> if not raises?(program, raised), do: fault
    end
  end

  @doc """
  The same of a program whose right answers are not known yet; `nil` too where nobody can say what is right.
  """
  @spec fault(ExBurn.Fuzz.Program.t(), keyword()) :: fault() | nil
  def fault(program, opts) do
    with {:ok, rights} <- rights(program, 3), do: fault(program, rights, opts)
  end

  defp confirmed(program, opts) do
    with {:ok, rights} <- rights(program, @lanes),
         got = ours(program, opts),
         {_, _} = fault <- compare(got, rights),
         do: unless(as_traced?(program, got), do: fault)
  end

  defp as_traced?(program, got) do
    case attempt(fn -> Oracle.traced(program, @lanes) end) do
      {:ok, rights} -> not sure?(rights) or compare(got, rights) == nil
      {:raised, exception} -> exception not in @no_answer
      :skip -> true
    end
  end

  defp raises?(program, exception) do
    case attempt(fn -> Oracle.traced(program, 1) end) do
      {:raised, other} -> other == exception or other not in @no_answer
      answered -> answered == :skip
    end
  end

  defp ours(program, opts) do
    {:ok,
     program
     |> Interpreter.compiled(opts)
     |> Tuple.to_list()
     |> Enum.map(&Nx.backend_copy(&1, Nx.BinaryBackend))}
  rescue
    error ->
      {error.__struct__,
       :error |> Exception.format(error, __STACKTRACE__) |> String.slice(0, 2000)}
  end

  defp attempt(fun) do
    {:ok, fun.()}
  rescue
    error -> {:raised, error.__struct__}
  catch
    :skip -> :skip
  end

  defp compare({:ok, got}, rights) do
    [got, rights]
    |> Enum.zip()
    |> Enum.with_index()
    |> Enum.find_value(fn {{got, lanes}, i} ->
      text = Compare.difference(got, hd(lanes), lanes)
      text && {:value, "output #{i}:\n#{text}"}
    end)
  end

  defp compare(raised, _rights), do: raised

  defp rights(program, lanes) do
    case attempt(fn -> Oracle.outputs(program, lanes) end) do
      {:ok, rights} -> if sure?(rights), do: {:ok, rights}
      _ -> nil
    end
  end

  # Where lanes take different ways, nobody can say what is right.
  defp sure?(rights), do: Enum.all?(rights, &Compare.sure?/1)
end
