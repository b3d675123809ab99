defmodule ExBurn.Oracle do
  @moduledoc """
  What `Nx.BinaryBackend` and `Nx.Defn.grad` say about a model, for comparison with our training.
  """

  import ExUnit.Assertions

  @doc """
  The gradient of `loss.(y, prediction)` in train mode by each parameter, as a nested map.
  """
  def gradients(model, {x, y}, loss) do
    on_binary(fn ->
      {_init, predict} = Axon.build(model.axon, mode: :train)
      objective = fn x, y -> &loss.(y, predict.(state(model, &1), x).prediction) end
      gradient = fn parameters, x, y -> Nx.Defn.grad(parameters, objective.(x, y)) end
      Nx.Defn.jit_apply(gradient, [parameters(model), x, y], evaluator())
    end)
  end

  @doc """
  What the model answers in train mode.
  """
  def prediction(model, x) do
    on_binary(fn ->
      {_init, predict} = Axon.build(model.axon, [mode: :train] ++ evaluator())
      predict.(state(model, parameters(model)), x).prediction
    end)
  end

  @doc """
  The parameters as a nested map on `Nx.BinaryBackend`.
  """
  def parameters(model), do: nested(model.parameters)

  defp state(model, parameters) do
    %Axon.ModelState{
      data: deep_merge(parameters, nested(model.states)),
      parameters: %{},
      state: %{},
      frozen_parameters: %{}
    }
  end

  defp nested(leaves) do
    Enum.reduce(leaves, %{}, fn {path, tensor}, map ->
      put_in(map, Enum.map(path, &Access.key(&1, %{})), Nx.backend_copy(tensor, Nx.BinaryBackend))
    end)
  end

  defp deep_merge(a, b) do
    Map.merge(a, b, fn _key, a, b -> if is_struct(a), do: b, else: deep_merge(a, b) end)
  end

  defp evaluator, do: [compiler: Nx.Defn.Evaluator]
  defp on_binary(fun), do: Nx.with_default_backend(Nx.BinaryBackend, fun)

  @doc """
  Asserts that tensors in nested maps agree: elements may differ by `tolerance` times the largest element of the tensor
  that holds them.
  """
  def assert_relative(got, want, tolerance, path \\ [])

  def assert_relative(%Nx.Tensor{} = got, %Nx.Tensor{} = want, tolerance, path) do
    assert {path, got.shape, got.type} == {path, want.shape, want.type}
    [got, want] = Enum.map([got, want], &Nx.to_flat_list/1)
    largest = want |> Enum.map(&abs/1) |> Enum.max()
    furthest = got |> Enum.zip_with(want, &abs(&1 - &2)) |> Enum.max()

    assert furthest <= tolerance * max(largest, 1.0e-30),
           "#{Enum.join(path, ".")} differs by #{furthest}, its largest element is #{largest}: " <>
             "got #{inspect(got, limit: 12)}, want #{inspect(want, limit: 12)}"
  end

  def assert_relative(got, want, tolerance, path) do
    assert Map.keys(got) == Map.keys(want)
    for key <- Map.keys(want), do: assert_relative(got[key], want[key], tolerance, path ++ [key])
  end
end
