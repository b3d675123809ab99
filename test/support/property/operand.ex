defmodule ExBurn.Property.Operand do
  @moduledoc """
  A tensor as data: the numbers it is made of and the steps that bring it into its final form.

  It can be built on any backend and printed as the Elixir code that builds it. The steps (a transpose, a slice, a
  broadcast, …) leave results whose memory is not in order.
  """

  @enforce_keys [:type, :shape, :numbers]
  defstruct [:type, :shape, :numbers, names: nil, steps: [], elsewhere?: false]

  @type t :: %__MODULE__{
          type: Nx.Type.t(),
          shape: tuple(),
          numbers: [number() | atom() | Complex.t()],
          names: [atom()] | nil,
          steps: [{atom(), [term()]}],
          elsewhere?: boolean()
        }

  @doc """
  The tensor, on the default backend; with `elsewhere?`, on `Nx.BinaryBackend`.
  """
  def build(%__MODULE__{elsewhere?: true} = operand),
    do: Nx.with_default_backend(Nx.BinaryBackend, fn -> assemble(operand) end)

  def build(%__MODULE__{} = operand), do: assemble(operand)

  # Nx.BinaryBackend can't broadcast elements of less than a byte, so it takes the steps with bytes.
  defp assemble(%{type: {kind, size}} = operand) when size < 8 do
    if match?({Nx.BinaryBackend, _}, Nx.default_backend()),
      do: %{operand | type: {kind, 8}} |> stepwise() |> Nx.as_type(operand.type),
      else: stepwise(operand)
  end

  defp assemble(operand), do: stepwise(operand)

  defp stepwise(%{steps: steps} = operand) do
    Enum.reduce(steps, base(operand), fn {name, args}, t -> apply(Nx, name, [t | args]) end)
  end

  defp base(%{shape: {}, numbers: [number], type: type}),
    do: Nx.tensor([number], type: type) |> Nx.reshape({})

  defp base(%{numbers: numbers, type: type, shape: shape, names: names}),
    do: numbers |> Nx.tensor(type: type) |> Nx.reshape(shape, names: names)

  @doc """
  The code that builds the tensor.
  """
  def code(%__MODULE__{} = operand) do
    head = "Nx.tensor(#{literal(operand.numbers)}, type: #{inspect(type_name(operand.type))})"

    reshape =
      if operand.shape == {length(operand.numbers)} and names(operand) == "",
        do: "",
        else: reshape(operand)

    steps =
      Enum.map(operand.steps, fn {name, args} ->
        " |> Nx.#{name}(#{Enum.map_join(args, ", ", &literal/1)})"
      end)

    place = if operand.elsewhere?, do: " |> Nx.backend_copy(Nx.BinaryBackend)", else: ""
    Enum.join([head, reshape, steps, place])
  end

  defp reshape(operand), do: " |> Nx.reshape(#{inspect(operand.shape)}#{names(operand)})"

  defp names(%{names: nil}), do: ""

  defp names(%{names: names}),
    do: if(Enum.all?(names, &is_nil/1), do: "", else: ", names: #{inspect(names)}")

  defp type_name(type), do: ExBurn.Type.name(type)

  @doc """
  A value as code.
  """
  def literal(%__MODULE__{} = operand), do: code(operand)
  def literal(%Complex{re: re, im: im}), do: "Complex.new(#{literal(re)}, #{literal(im)})"

  def literal([{key, _} | _] = list) when is_atom(key) do
    if Keyword.keyword?(list),
      do: "[" <> Enum.map_join(list, ", ", fn {k, v} -> "#{k}: #{literal(v)}" end) <> "]",
      else: items(list)
  end

  def literal(list) when is_list(list), do: items(list)
  def literal({code, fun}) when is_binary(code) and is_function(fun), do: code
  def literal(other), do: inspect(other, limit: :infinity)

  defp items(list), do: "[" <> Enum.map_join(list, ", ", &literal/1) <> "]"
end
