defmodule ExBurn.Fuzz.Scope do
  @moduledoc """
  Functions among the arguments of a step, while they are built.
  """

  alias ExBurn.Fuzz.Fun

  @doc """
  A function that sees all values around it. `fun` is given the builder, and the parameters if there are some, and
  answers the references of the results with the builder.
  """
  def open(b, args, fun), do: nest(b, args, b.seen, fun)

  @doc """
  A function that sees its parameters and captured inputs.
  """
  def closed(b, args, fun) do
    nest(b, args, for({number, _, :captured} <- Enum.reverse(b.inputs), do: number), fun)
  end

  # The parameters have the values of the arguments.
  defp nest(b, args, seen, fun) do
    params = Enum.to_list(b.next..(b.next + length(args) - 1)//1)
    lanes = Enum.map(b.lanes, &bind(&1, params, args))

    inner = %{
      b
      | steps: [],
        depth: b.depth + 1,
        lanes: lanes,
        seen: Enum.reverse(params) ++ seen,
        next: b.next + length(params)
    }

    {results, inner} =
      if params == [], do: fun.(inner), else: fun.(inner, Enum.map(params, &{:ref, &1}))

    function = %Fun{
      params: params,
      steps: Enum.reverse(inner.steps),
      results: Enum.map(results, &elem(&1, 1))
    }

    new = for {number, _, :captured} <- inner.inputs, number >= b.next, do: number

    {function,
     %{
       b
       | next: inner.next,
         inputs: inner.inputs,
         lanes: inner.lanes,
         seen: Enum.reverse(new) ++ b.seen
     }}
  end

  defp bind(lane, params, args) do
    params
    |> Enum.zip_with(args, fn param, {:ref, number} -> {param, Map.fetch!(lane, number)} end)
    |> Enum.into(lane)
  end
end
