defmodule ExBurn.Defn.Run do
  @moduledoc """
  Runs a program that may call Elixir functions in its middle.

  The native run stops at a call and answers its arguments. The function runs in the process that asked for the run, on no
  native thread, and the run goes on with its results. So an exception of the function is one of the caller, and a process
  that ends in the middle of a call leaves nothing behind but memory to collect.
  """

  alias ExBurn.Defn.Lowering.HostCall
  alias ExBurn.{Device, Error, Fallback, NIF}

  @doc """
  The results of the native `program` for `inputs`, of which the run takes the memory of those `donated`.

  `calls` are the functions it calls, as `ExBurn.Defn.Lowering.lower/3` answers them, by number or in a tuple, and `hooks`
  those that the caller hangs on hooks by their names. On the CPU a `brief?` program runs on the scheduler of the caller, and
  so does one whose latest runs were brief, whatever its estimate was. Errors are those of `op` where one is given, see
  `ExBurn.Error.unwrap!/2`.
  """
  @spec run(
          reference(),
          {[reference()], [reference()]},
          Device.t(),
          boolean(),
          tuple() | %{non_neg_integer() => HostCall.t()},
          %{atom() => function()},
          atom()
        ) :: [reference()]
  def run(program, inputs, device, brief?, calls, hooks, op \\ nil)

  def run(program, {inputs, donated}, :cpu, brief?, calls, hooks, op) do
    brief? = brief? or NIF.program_is_brief(program)
    start = if brief?, do: &NIF.program_run/3, else: &NIF.program_run_dirty/3
    resume = if brief?, do: &NIF.program_resume/2, else: &NIF.program_resume_dirty/2
    apply = fn number, arguments -> calls |> fetch(number) |> HostCall.apply(arguments, hooks) end
    program |> start.(inputs, donated) |> unwrap!(op) |> answer(resume, apply, op)
  end

  def run(program, {inputs, donated}, device, _brief?, calls, hooks, op) do
    {kind, index} = Device.parts(device)
    apply = fn number, arguments -> calls |> fetch(number) |> HostCall.apply(arguments, hooks) end
    start = NIF.program_run_on(program, inputs, donated, kind, index)
    results = start |> unwrap!(op) |> answer(&NIF.program_resume_dirty/2, apply, op)
    Fallback.report(device)
    results
  end

  defp answer({:call, number, arguments, continuation}, resume, apply, op) do
    results = apply.(number, arguments)
    continuation |> resume.(results) |> unwrap!(op) |> answer(resume, apply, op)
  end

  defp answer(results, _resume, _apply, _op), do: results

  defp fetch(calls, number) when is_tuple(calls), do: elem(calls, number)
  defp fetch(calls, number), do: Map.fetch!(calls, number)

  defp unwrap!(answer, nil), do: Error.unwrap!(answer)
  defp unwrap!(answer, op), do: Error.unwrap!(answer, op)
end
