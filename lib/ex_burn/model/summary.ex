defmodule ExBurn.Model.Summary do
  @moduledoc """
  A model as a table for people.
  """

  alias ExBurn.{Model, Type}
  alias ExBurn.Model.Input

  @doc """
  A table of the model's tensors, as text.

  ## Examples

      iex> text = Axon.input("x", shape: {nil, 4}) |> Axon.dense(2) |> ExBurn.compile() |> ExBurn.summary()
      iex> String.split(text, "\\n")
      [
        "Inputs: x f32 {batch, 4}",
        "Layer    Tensor  Type  Shape   Elements",
        "dense_0  bias    f32   {2}     2",
        "dense_0  kernel  f32   {4, 2}  8",
        "Total: 10 parameters (0 frozen), 0 elements of state, 0.0 kB"
      ]

  """
  @spec text(Model.t()) :: String.t()
  def text(model) do
    Model.expect!(model, :summary)

    inputs =
      for {name, {type, shape}} <- model.inputs,
          do: "#{name} #{Type.name(type)} #{Input.text(shape)}"

    rows = rows(model.parameters, model, "") ++ rows(model.states, model, "state")

    Enum.join(
      [
        "Inputs: #{Enum.join(inputs, ", ")}"
        | table([["Layer", "Tensor", "Type", "Shape", "Elements", ""] | rows])
      ] ++
        [totals(model)],
      "\n"
    )
  end

  defp rows(leaves, model, note) do
    for {[layer | rest] = path, tensor} <- leaves do
      note = if path in model.frozen, do: String.trim("#{note} frozen"), else: note
      shape = Input.text(Tuple.to_list(tensor.shape))
      name = Enum.join(rest, ".")
      [layer, name, "#{Type.name(tensor.type)}", shape, digits(Nx.size(tensor)), note]
    end
  end

  defp table(rows) do
    widths =
      Enum.zip_with(rows, fn column -> column |> Enum.map(&String.length/1) |> Enum.max() end)

    for row <- rows do
      row
      |> Enum.zip_with(widths, &String.pad_trailing/2)
      |> Enum.join("  ")
      |> String.trim_trailing()
    end
  end

  defp totals(model) do
    info = Model.info(model)
    kilobytes = :erlang.float_to_binary(info.bytes / 1000, decimals: 1)

    "Total: #{digits(info.parameters)} parameters (#{digits(info.frozen)} frozen), " <>
      "#{digits(info.states)} elements of state, #{kilobytes} kB"
  end

  # 1234567 as 1,234,567
  defp digits(number) do
    number
    |> Integer.digits()
    |> Enum.reverse()
    |> Enum.chunk_every(3)
    |> Enum.map_join(",", &Enum.join/1)
    |> String.reverse()
  end
end
