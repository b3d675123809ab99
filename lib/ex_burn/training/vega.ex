defmodule ExBurn.Training.Vega do
  @moduledoc """
  Curves of a history as a [Vega-Lite](https://vega.github.io/vega-lite/) specification, which Livebook draws:

      %VegaLite{spec: ExBurn.Training.plot(history, as: :vega_lite)}
  """

  alias ExBurn.Training.History

  @about [:epoch, :learning_rate]

  @doc """
  The specification: a map that is JSON, with a chart for the loss and one for each metric, training and validation in one.
  """
  @spec spec(History.t()) :: map()
  def spec(history) do
    %{
      "$schema" => "https://vega.github.io/schema/vega-lite/v5.json",
      "data" => %{"values" => Enum.flat_map(history, &points/1)},
      "facet" => %{"field" => "what", "type" => "nominal", "title" => nil},
      "columns" => 2,
      "resolve" => %{"scale" => %{"y" => "independent"}},
      "spec" => %{
        "mark" => %{"type" => "line", "point" => true, "tooltip" => true},
        "encoding" => %{
          "x" => %{"field" => "epoch", "type" => "quantitative"},
          "y" => %{"field" => "value", "type" => "quantitative", "scale" => %{"zero" => false}},
          "color" => %{"field" => "data", "type" => "nominal", "title" => nil}
        }
      }
    }
  end

  # A value that is not finite has no JSON, and leaves a gap.
  defp points(entry) do
    for {name, value} <- Map.drop(entry, @about), is_number(value) do
      {what, data} = split(Atom.to_string(name))
      %{"epoch" => entry.epoch, "what" => what, "data" => data, "value" => value}
    end
  end

  defp split("val_" <> what), do: {what, "validation"}
  defp split(what), do: {what, "training"}
end
