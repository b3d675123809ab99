defmodule ExBurn.Property do
  @moduledoc """
  Properties of Nx functions: on random operands, our backend and our compiler answer what is right.

  What is right is said by `Nx.BinaryBackend`, or, where that is wrong or raises because the BEAM has no infinities, by
  `ExBurn.Property.Oracle`. A failure prints the smallest call found, as code.
  """

  use ExUnit.CaseTemplate

  import ExUnit.Assertions

  alias ExBurn.Property.{Call, Known, Number, Oracle, Tolerance}

  # Each function sees this many calls. One in four is compiled too.
  @runs 500
  @compiled_every 4

  using do
    quote do
      use ExUnitProperties

      import ExBurn.Property
      import ExBurn.Property.Generators
    end
  end

  @doc """
  A function written in a test, with its code for the report of a failure.
  """
  defmacro source(fun), do: quote(do: {unquote(Macro.to_string(fun)), unquote(fun)})

  @doc """
  Asserts that `fun` answers what is right for arguments from the generator `args`.
  """
  defmacro same(fun, args, tolerance \\ :moved) do
    quote do
      fun = unquote(fun)
      ExBurn.Property.same_as(fun, fun, unquote(args), unquote(tolerance))
    end
  end

  @doc """
  Asserts that `fun` answers on our backend what `reference` answers on `Nx.BinaryBackend`, as an identity says.
  """
  defmacro same_as(fun, reference, args, tolerance) do
    quote do
      {fun, reference, tolerance} = {unquote(fun), unquote(reference), unquote(tolerance)}

      check all args <- unquote(args),
                turn <- StreamData.integer(1..ExBurn.Property.compiled_every()),
                max_runs: ExBurn.Property.runs(),
                max_shrinking_steps: 300 do
        args = ExBurn.Property.Call.at_home(args)
        ExBurn.Property.assert_right({fun, args}, {reference, args}, tolerance, turn == 1)
      end
    end
  end

  @doc """
  How many calls each function sees.
  """
  def runs, do: String.to_integer(System.get_env("PROPERTY_RUNS", "#{@runs}"))

  @doc false
  def compiled_every, do: @compiled_every

  @doc """
  Asserts that one call gives what the other call should give, op by op and, if asked for, compiled.
  """
  def assert_right(call, reference, tolerance, compile?) do
    right = Oracle.answer(reference)
    assert_answer(attempt(fn -> Call.eager(call, ExBurn.Backend) end), right, call, tolerance, "")

    if compile?,
      do:
        assert_answer(
          attempt(fn -> Call.compiled(call) end),
          right,
          call,
          tolerance,
          ", compiled"
        )
  end

  # Nobody could say: anything but a crash will do.
  defp assert_answer({:ok, _}, :unknown, _call, _tolerance, _how), do: :ok

  defp assert_answer({:raised, _}, :unknown, _, _, _), do: :ok

  defp assert_answer({:raised, got}, {:raised, want}, call, _tolerance, how) do
    unless got.__struct__ == want.__struct__, do: fail(call, how, inspect(want), inspect(got))
  end

  defp assert_answer({:ok, got}, {:ok, want}, call, tolerance, how) do
    [got, want] = Enum.map([got, want], &flatten/1)
    unless length(got) == length(want), do: fail(call, how, inspect(want), inspect(got))
    Enum.zip_with(got, want, &assert_tensor(&1, &2, call, tolerance, how))
  end

  defp assert_answer(got, want, call, _tolerance, how),
    do: fail(call, how, inspect(want), inspect(got))

  defp assert_tensor(got, want, call, tolerance, how) do
    unless kind(got) == kind(want), do: fail(call, how, inspect(kind(want)), inspect(kind(got)))

    bounds = Tolerance.bounds(tolerance, want, call)
    triples = Enum.zip([closed(got, want), Number.list(want), bounds])
    forgets? = how != "" and Known.forgets_zeros?(call)
    signed? = Tolerance.signed_zeros?(tolerance, want) and not forgets?

    case Enum.reject(triples, fn {g, w, bound} ->
           Tolerance.close?(g, w, bound) and (not signed? or Number.zeros_alike?(g, w))
         end) do
      [] -> :ok
      [{g, w, bound} | _] -> fail(call, how, show(want, w), show(got, g) <> allowed(bound))
    end
  end

  defp closed(got, want) do
    if Number.truncated?(got.type),
      do:
        Enum.zip_with(
          Number.list(got),
          Number.list(want),
          &if(is_number(&2), do: Number.closed(&1, got.type), else: &1)
        ),
      else: Number.list(got)
  end

  defp kind(t), do: {t.type, t.shape, t.names, t.vectorized_axes}

  defp show(t, number), do: "#{inspect(number)} in #{inspect(Number.list(t), limit: 60)}"

  defp allowed(:exact), do: ""
  defp allowed(bound), do: "\n\nallowed: a distance of #{bound}"

  defp flatten(result),
    do:
      Nx.Defn.Composite.flatten_list([result]) |> Enum.map(&Nx.backend_copy(&1, Nx.BinaryBackend))

  defp attempt(fun) do
    {:ok, fun.()}
  rescue
    error -> {:raised, error}
  end

  @spec fail(Call.t(), String.t(), String.t(), String.t()) :: no_return()
  defp fail(call, how, want, got),
    do: flunk("#{Call.code(call)}\n\nwant: #{want}\n\ngot#{how}: #{got}")
end
