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
    dir
    |> names()
    |> Enum.filter(&numbers/1)
    |> Enum.sort_by(&numbers/1, :desc)
    |> Enum.map(&Path.join(dir, &1))
  end

  defp names(dir) do
    case File.ls(dir) do
      {:ok, names} -> names
      {:error, _reason} -> []
    end
  end

  # Epochs, or epochs and batches, which are in the order of the run.
  defp numbers(path) do
    with [_name | numbers] <-
           Regex.run(~r/^checkpoint-(\d+)(?:-(\d+))?\.safetensors$/, Path.basename(path)),
         do: Enum.map(numbers, &String.to_integer/1)
  end

  @doc """
  Paths of the checkpoints that a run which stands at `path` has not come to, the newest first: another run wrote them.
  """
  @spec beyond(Path.t()) :: [Path.t()]
  def beyond(path) do
    there = list(Path.dirname(path))
    Enum.take_while(there, &(numbers(&1) > numbers(path)))
  end

  @doc """
  Removes what killed runs have left half written, and nobody has written to for an hour.
  """
  @spec sweep(Path.t()) :: :ok
  def sweep(dir) do
    since = System.os_time(:second) - 3600

    # The engine writes a file under such a name first.
    for name <- names(dir),
        name =~ ~r/^\.ex_burn\w*\.tmp$/,
        path = Path.join(dir, name),
        {:ok, %{type: :regular, mtime: mtime}} <- [File.stat(path, time: :posix)],
        mtime < since,
        do: File.rm(path)

    :ok
  end

  @doc """
  Removes what is older than the checkpoint at `path`, but for the newest `keep`, that one among them, and the paths `besides`.
  """
  @spec prune(Path.t(), pos_integer() | :all, [Path.t()]) :: :ok
  def prune(path, keep, besides \\ [])
  def prune(_path, :all, _besides), do: :ok

  def prune(path, keep, besides) do
    own = list(Path.dirname(path)) -- beyond(path)
    old = Enum.drop(own, keep)
    Enum.each(old -- besides, &File.rm/1)
  end
end
