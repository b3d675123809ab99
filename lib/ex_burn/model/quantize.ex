defmodule ExBurn.Model.Quantize do
  @moduledoc """
  Models with parameters of fewer bits: see `ExBurn.quantize/3`.

  The program takes the narrow parameters and widens them where they are used, so it computes in the types that the model had.

    * `:f16`, `:bf16` - every float parameter is rounded to that type
    * `:s8` - a float parameter of two axes or more becomes integers from -127 to 127 and, named with `_scale` behind it, one
      factor for each index of its last axis, the features that a layer answers: the largest magnitude there is 127. Others
      stay as they are
  """

  alias ExBurn.{Error, Model, Options}
  alias ExBurn.Model.{Forward, State}

  @types [:f16, :bf16, :s8]

  @doc """
  The model with parameters of fewer bits, `:f16`, `:bf16` or `:s8`, which predicts only: see `ExBurn.Model.Quantize`.

  It needs half the memory or a quarter, in files too, and predicts a little differently. `save/3` keeps it so.

  ## Options

    * `:batch_sizes` - as for `save/3`

  ## Examples

      iex> model = Axon.input("x", shape: {nil, 64}) |> Axon.dense(64) |> ExBurn.compile()
      iex> small = ExBurn.quantize(model, :bf16)
      iex> {ExBurn.info(model).bytes, ExBurn.info(small).bytes}
      {16640, 8320}
      iex> ExBurn.quantize(model, :s4)
      ** (ExBurn.Error) quantize: type: is :s4, expected :f16, :bf16 or :s8

  """
  @spec quantize(Model.t(), :f16 | :bf16 | :s8, keyword()) :: Model.t()
  def quantize(model, type, opts \\ []) do
    Model.expect!(model, :quantize)
    Options.check!(type in @types, :quantize, :type, type, ":f16, :bf16 or :s8")
    opts = Options.validate!(:quantize, opts, batch_sizes: nil)
    axon!(model)

    narrowed = Enum.map(model.parameters, &narrow(&1, type))
    parameters = narrowed |> Enum.concat() |> Enum.sort_by(&elem(&1, 0))
    widen = &widen(&1, Map.new(model.parameters, fn {path, tensor} -> {path, tensor.type} end))

    narrow = %{model | parameters: parameters, frozen: MapSet.new(), optimizer_state: nil}
    %{narrow | forward: forward(narrow, widen, opts[:batch_sizes]), axon: nil}
  end

  defp axon!(%Model{axon: nil}) do
    raise Error,
      op: :quantize,
      reason:
        "the model comes from a file or is quantized already; quantize what ExBurn.compile/2 answers, then save it"
  end

  defp axon!(_model), do: :ok

  defp forward(model, widen, sizes) do
    forward = Forward.new(model, widen)

    cond do
      sizes != nil ->
        Forward.fix(%{model | forward: forward}, Forward.sizes!(sizes, :quantize), widen)

      forward.template != nil ->
        forward

      true ->
        raise Error, op: :quantize, reason: Forward.one_size(forward)
    end
  end

  defp narrow({path, tensor} = leaf, type) do
    cond do
      not Nx.Type.float?(tensor.type) -> [leaf]
      type != :s8 -> [{path, tensor |> Nx.as_type(type) |> State.upload()}]
      Nx.rank(tensor) < 2 -> [leaf]
      true -> path |> scaled(tensor) |> Enum.map(fn {path, t} -> {path, State.upload(t)} end)
    end
  end

  defp scaled(path, tensor) do
    axes = Enum.to_list(0..(Nx.rank(tensor) - 2))
    largest = tensor |> Nx.abs() |> Nx.reduce_max(axes: axes)
    # Where all are 0 any factor will do.
    scale =
      Nx.select(Nx.greater(largest, 0), Nx.divide(largest, 127), Nx.tensor(1, type: tensor.type))

    integers = tensor |> Nx.divide(scale) |> Nx.round() |> Nx.clip(-127, 127) |> Nx.as_type(:s8)
    [{path, integers}, {scale_path(path), scale}]
  end

  defp scale_path(path), do: List.update_at(path, -1, &(&1 <> "_scale"))

  # Traced: the parameters of the Axon model from those of the program.
  defp widen(leaves, types) do
    given = Map.new(leaves)

    for {path, type} <- types do
      tensor = Nx.as_type(Map.fetch!(given, path), type)

      case given do
        %{^path => %{type: {:s, 8}}} when type != {:s, 8} ->
          {path, Nx.multiply(tensor, Map.fetch!(given, scale_path(path)))}

        %{} ->
          {path, tensor}
      end
    end
  end
end
