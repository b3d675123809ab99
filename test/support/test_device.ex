defmodule ExBurn.TestDevice do
  @moduledoc """
  The GPU that tests of GPUs use: the first one with `EX_BURN_TEST_DEVICE=gpu`, or the first of a kind, as `cuda` or `vulkan`.
  """

  @kinds [:gpu, :cuda, :vulkan, :metal]

  @doc """
  Its name, or `nil` where the tests are those of the CPU.
  """
  def gpu do
    case System.get_env("EX_BURN_TEST_DEVICE", "") do
      "" -> nil
      text -> Enum.find(@kinds, &(Atom.to_string(&1) == text)) || raise(unknown(text))
    end
  end

  @doc """
  Why tests of GPUs are skipped, or `false` where they are not.
  """
  def skip, do: gpu() == nil and "runs with EX_BURN_TEST_DEVICE=gpu"

  defp unknown(text),
    do: "EX_BURN_TEST_DEVICE is #{inspect(text)}; kinds of GPUs are #{Enum.join(@kinds, ", ")}"
end
