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

  `calls` are the functions it calls, as `ExBurn.Defn.Lowering.lower/3` answers them, and `hooks` those that the caller
  hangs on hooks by their names. On the CPU a `brief?` program runs on the scheduler of the caller.
  """
  @spec run(
          reference(),
          {[reference()], [reference()]},
          Device.t(),
          boolean(),
          tuple(),
          %{atom() => function()}
        ) :: [reference()]
  def run(program, inputs, device, brief?, calls, hooks)

  def run(program, {inputs, donated}, :cpu, brief?, calls, hooks) do
    start = if brief?, do: &NIF.program_run/3, else: &NIF.program_run_dirty/3
    resume = if brief?, do: &NIF.program_resume/2, else: &NIF.program_resume_dirty/2
    program |> start.(inputs, donated) |> Error.unwrap!() |> answer(resume, calls, hooks)
  end

  def run(program, {inputs, donated}, device, _brief?, calls, hooks) do
    {kind, index} = Device.parts(device)
    start = NIF.program_run_on(program, inputs, donated, kind, index)
    results = start |> Error.unwrap!() |> answer(&NIF.program_resume_dirty/2, calls, hooks)
    Fallback.report(device)
    results
  end

  defp answer({:call, number, arguments, continuation}, resume, calls, hooks) do
    results = calls |> elem(number) |> HostCall.apply(arguments, hooks)
    continuation |> resume.(results) |> Error.unwrap!() |> answer(resume, calls, hooks)
  end

  defp answer(results, _resume, _calls, _hooks), do: results
end
