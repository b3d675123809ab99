defmodule ExBurn.ReadmeTest do
  # Runs the code of README.md: each block fenced as `elixir`, in order, with the variables of the blocks before it.
  # A comment `# => …` shows how the value before it must print. Fragments that can't run alone are fenced as `exs`.

  # The working folder, where the examples write, belongs to the whole VM.
  use ExUnit.Case, async: false

  import ExUnit.CaptureIO

  @readme Path.expand("../README.md", __DIR__)

  @tag :tmp_dir
  test "the examples run and answer what they show", %{tmp_dir: folder} do
    blocks = @readme |> File.read!() |> blocks()
    assert blocks != []

    capture_io(fn ->
      File.cd!(folder, fn -> Enum.reduce(blocks, [], &run_block/2) end)
    end)
  end

  test "a wrong answer fails" do
    assert_raise ExUnit.AssertionError, fn -> run_block("1 + 1\n# => 3\n", []) end
  end

  defp blocks(text) do
    ~r/^```elixir\n(.*?)^```$/ms |> Regex.scan(text, capture: :all_but_first) |> List.flatten()
  end

  defp run_block(block, binding), do: block |> steps() |> Enum.reduce(binding, &run_step/2)

  # Lists of code and the comment that shows its value; the last may lack the comment.
  defp steps(block) do
    block
    |> String.split(~r/^# => .*\n(#    .*\n)*/m, include_captures: true, trim: true)
    |> Enum.chunk_every(2)
  end

  defp run_step([code | shown], binding) do
    {value, binding} = Code.eval_string(code, binding, file: @readme)
    for comment <- shown, do: assert(inspect(value) == answer(comment), "after:\n#{code}")
    binding
  end

  defp answer(comment),
    do: comment |> String.trim() |> String.replace(~r/^(# => |#    )/m, "")
end
