# Learns from two tables: which samples of cells are malignant, and how far diabetes has come after a year.
#
#     mix run examples/tables.exs

for file <- ~w(data learn), do: Code.require_file("tables/#{file}.exs", __DIR__)

Nx.default_backend(ExBurn.Backend)

for gradients <- [:autodiff, :symbolic] do
  accuracy = Float.round(100 * Tables.Learn.breast_cancer(gradients), 1)
  r_squared = Float.round(Tables.Learn.diabetes(gradients), 3)
  IO.puts("Gradients #{inspect(gradients)}")
  IO.puts("  breast cancer, ten folds:       #{accuracy} % right; its authors report 97.5 %")
  IO.puts("  diabetes, the last 20 patients: R² = #{r_squared}; least squares has 0.585")
end
