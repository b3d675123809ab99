defmodule ExBurn.Training.Profile do
  @moduledoc """
  Where the time of a training step goes: see `ExBurn.Training.profile_step/3`.
  """

  alias ExBurn.{Error, NIF}
  alias ExBurn.Training.Job

  @parts [:forward, :backward, :optimizer]

  @doc """
  Medians of `repeat` steps, in microseconds.
  """
  @spec times(Job.t(), pos_integer()) :: %{
          forward: float(),
          backward: float(),
          optimizer: float()
        }
  def times(%Job{config: config, job: job}, repeat) do
    once = fn -> NIF.train_profile_dirty(hd(job.steps), job.data, config, job) end
    # The first one pays for fresh memory.
    Error.unwrap!(once.())
    runs = for _ <- 1..repeat, do: Error.unwrap!(once.())

    for {name, i} <- Enum.with_index(@parts), into: %{} do
      {name, 1.0e6 * median(Enum.map(runs, &elem(&1, i)))}
    end
  end

  defp median(numbers), do: numbers |> Enum.sort() |> Enum.at(div(length(numbers), 2))
end
