defmodule Tables.Learn do
  @moduledoc """
  Models for the two tables. `gradients` is that of `ExBurn.fit/3`.
  """

  alias Tables.Data

  @doc """
  The share of right answers about breast cancer, of samples that were not learnt from, over ten folds, as its authors counted
  them. The number of epochs was chosen with these folds in view, so the share is a little too good.
  """
  def breast_cancer(gradients) do
    scores =
      for split <- Data.folds(Data.breast_cancer(), 10) do
        {train, test} = Data.standardize(split)
        options = [epochs: 30, batch_size: 32, verbose: false, gradients: gradients]
        network() |> ExBurn.fit(train, options) |> right(test)
      end

    Enum.sum(scores) / 569
  end

  defp network do
    "measures"
    |> Axon.input(shape: {nil, 30})
    |> Axon.dense(16, activation: :relu)
    |> Axon.dropout(rate: 0.2)
    |> Axon.dense(2)
    |> ExBurn.compile(
      loss: :cross_entropy,
      optimizer: {:adamw, decay: 0.05},
      learning_rate: 3.0e-3
    )
  end

  defp right(model, {x, y}) do
    guesses = model |> ExBurn.predict!(x) |> Nx.argmax(axis: 1)
    guesses |> Nx.equal(y) |> Nx.sum() |> Nx.to_number()
  end

  @doc "R² of a straight line about diabetes, for the last 20 patients, after learning from the others."
  def diabetes(gradients) do
    {{x, y}, test} = Data.diabetes() |> Data.hold_out(20) |> Data.standardize()
    rows = Nx.axis_size(x, 0)
    options = [epochs: 1500, batch_size: rows, verbose: false, gradients: gradients]

    "measures"
    |> Axon.input(shape: {nil, 10})
    |> Axon.dense(1)
    |> ExBurn.compile(loss: :mse, optimizer: :adam, learning_rate: 1.0)
    |> ExBurn.fit({x, y}, [lr_schedule: {:cosine, 2.0, 0.01}] ++ options)
    |> r_squared(test)
  end

  defp r_squared(model, {x, y}) do
    square = fn difference -> difference |> Nx.pow(2) |> Nx.sum() end
    left = square.(Nx.subtract(y, ExBurn.predict!(model, x)))
    all = square.(Nx.subtract(y, Nx.mean(y)))
    1 - Nx.to_number(Nx.divide(left, all))
  end
end
