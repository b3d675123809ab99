defmodule ExBurn.Training.Checkpoint.Folder do
  @moduledoc """
  The directory of a run's checkpoints.
  """

  @doc """
  The path of a checkpoint in a directory: after so many epochs, and so many batches of the next one.

  ## Examples

      iex> ExBurn.Training.Checkpoint.Folder.path("runs", 12)
      "runs/checkpoint-000012.safetensors"
      iex> ExBurn.Training.Checkpoint.Folder.path("runs", 12, 200)
      "runs/checkpoint-000012-00000200.safetensors"

  """
  @spec path(Path.t(), non_neg_integer(), pos_integer() | nil) :: Path.t()
  def path(dir, epochs, batches \\ nil) do
    batches = if batches, do: "-" <> digits(batches, 8), else: ""
    Path.join(dir, "checkpoint-#{digits(epochs, 6)}#{batches}.safetensors")
  end

  defp digits(number, count), do: number |> Integer.to_string() |> String.pad_leading(count, "0")

  @doc """
  Paths of the checkpoints in a directory, the newest first.
  """
  @spec list(Path.t()) :: [Path.t()]
  def list(dir) do
    names =
      case File.ls(dir) do
        {:ok, names} -> names
        {:error, _reason} -> []
      end

    names
    |> Enum.flat_map(fn name ->
      case Regex.run(~r/^checkpoint-(\d+)(?:-(\d+))?\.safetensors$/, name) do
        [name | numbers] -> [{Enum.map(numbers, &String.to_integer/1), Path.join(dir, name)}]
        nil -> []
      end
    end)
    |> Enum.sort(:desc)
    |> Enum.map(&elem(&1, 1))
  end

  @doc """
  Removes all but the newest `keep` checkpoints of a directory, and those of the paths `besides`.
  """
  @spec prune(Path.t(), pos_integer() | :all, [Path.t()]) :: :ok
  def prune(dir, keep, besides \\ [])
  def prune(_dir, :all, _besides), do: :ok

  def prune(dir, keep, besides) do
    old = dir |> list() |> Enum.drop(keep)
    Enum.each(old -- besides, &File.rm/1)
  end
end
