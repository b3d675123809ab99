defmodule Tables.Data do
  @moduledoc """
  Two tables of `examples/data` as tensors, and ways to split them.
  """

  @folder Path.expand("../data", __DIR__)

  @doc "Measures of 569 samples, `f32[569][30]`, and their classes, `s64[569]`: 0 is malignant, 1 benign."
  def breast_cancer do
    [_header | rows] = lines("breast_cancer.csv.gz")
    table = rows |> Enum.map(&numbers(&1, ",")) |> Nx.tensor(type: :f32)
    {table[[.., 0..29]], Nx.as_type(table[[.., 30]], :s64)}
  end

  @doc "Ten measures of 442 patients, `f32[442][10]`, and how far their disease had come a year later, `f32[442][1]`."
  def diabetes do
    x = "diabetes_data_raw.csv.gz" |> lines() |> Enum.map(&numbers(&1, " "))
    y = "diabetes_target.csv.gz" |> lines() |> Enum.map(&numbers(&1, " "))
    {Nx.tensor(x, type: :f32), Nx.tensor(y, type: :f32)}
  end

  defp lines(name) do
    @folder |> Path.join(name) |> File.read!() |> :zlib.gunzip() |> String.split("\n", trim: true)
  end

  defp numbers(line, separator) do
    for text <- String.split(line, separator) do
      {number, ""} = Float.parse(text)
      number
    end
  end

  @doc """
  Splits into `count` parts to test with and, for each, the rest to train with: `[{{x, y}, {test_x, test_y}}]`.

  Row `i` is in part `rem(i, count)`.
  """
  def folds({x, _y} = table, count) do
    rows = Enum.to_list(0..(Nx.axis_size(x, 0) - 1))

    for fold <- 0..(count - 1) do
      {test, train} = Enum.split_with(rows, &(rem(&1, count) == fold))
      {pick(table, train), pick(table, test)}
    end
  end

  @doc "The table without its last `count` rows, and these."
  def hold_out({x, _y} = table, count) do
    rows = Nx.axis_size(x, 0)

    {pick(table, Enum.to_list(0..(rows - count - 1))),
     pick(table, Enum.to_list((rows - count)..(rows - 1)))}
  end

  defp pick({x, y}, rows) do
    index = Nx.tensor(rows)
    {Nx.take(x, index), Nx.take(y, index)}
  end

  @doc "Both parts with columns of mean 0 and deviation 1, as measured on the first one."
  def standardize({{x, y}, {test_x, test_y}}) do
    {mean, deviation} = {Nx.mean(x, axes: [0]), Nx.standard_deviation(x, axes: [0])}
    scale = &Nx.divide(Nx.subtract(&1, mean), deviation)
    {{scale.(x), y}, {scale.(test_x), test_y}}
  end
end
