defmodule ExBurn.TablesTest do
  # Models of real tables reach what was published about them.
  use ExUnit.Case, async: true

  @examples Path.expand("../examples", __DIR__)

  for file <- ~w(data learn), do: Code.require_file("tables/#{file}.exs", @examples)

  alias Tables.{Data, Learn}

  setup do
    Nx.default_backend(ExBurn.Backend)
    :ok
  end

  test "the samples of breast cancer are those that UCI counts" do
    {x, y} = Data.breast_cancer()
    assert {x.shape, Nx.to_number(Nx.sum(y))} == {{569, 30}, 357}
    # Extremes of the mean radius and of the worst area, by the description of the data.
    for {column, extremes} <- [{0, [6.981, 28.11]}, {23, [185.2, 4254.0]}] do
      got = [Nx.reduce_min(x[[.., column]]), Nx.reduce_max(x[[.., column]])]
      for {g, w} <- Enum.zip(got, extremes), do: assert_in_delta(Nx.to_number(g), w, 1.0e-3)
    end
  end

  test "the patients are 442, and sums of columns are known" do
    {x, y} = Data.diabetes()
    assert {x.shape, y.shape} == {{442, 10}, {442, 1}}
    assert {Nx.to_number(Nx.reduce_min(y)), Nx.to_number(Nx.reduce_max(y))} == {25.0, 346.0}
  end

  test "folds share the rows out, and scaling looks at the part to learn from only" do
    table = {Nx.iota({7, 1}, type: :f32), Nx.iota({7})}

    tests =
      for {{x, _}, {test, labels}} <- Data.folds(table, 3) do
        assert Nx.axis_size(x, 0) + Nx.axis_size(test, 0) == 7
        Nx.to_list(labels)
      end

    assert tests == [[0, 3, 6], [1, 4], [2, 5]]
    {{x, _}, {test, _}} = table |> Data.hold_out(5) |> Data.standardize()
    assert {Nx.to_flat_list(x), hd(Nx.to_flat_list(test))} == {[-1.0, 1.0], 3.0}
  end

  for gradients <- [:autodiff, :symbolic] do
    @tag timeout: 300_000
    test "cancer is told as well as its authors tell it, #{gradients}" do
      assert Learn.breast_cancer(unquote(gradients)) >= 0.975
    end

    @tag timeout: 300_000
    test "diabetes is told as well as by least squares, #{gradients}" do
      # 0.5850753 in scikit-learn's tutorial.
      assert_in_delta Learn.diabetes(unquote(gradients)), 0.5850753, 0.003
    end
  end
end
