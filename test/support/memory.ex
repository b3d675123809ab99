defmodule ExBurn.Memory do
  @moduledoc """
  The memory of this operating system process, for tests.
  """

  @doc """
  Bytes that are resident now.
  """
  @spec resident() :: pos_integer()
  def resident do
    case File.read("/proc/self/status") do
      {:ok, text} -> bytes(~r/^VmRSS:\s*(\d+) kB$/m, text)
      {:error, _} -> bytes(~r/(\d+)/, elem(System.cmd("ps", ~w(-o rss= -p) ++ [System.pid()]), 0))
    end
  end

  defp bytes(kilobytes, text) do
    [_, number] = Regex.run(kilobytes, text)
    String.to_integer(number) * 1024
  end
end
