# Nx's own tests, see `ExBurn.NxSuite`.

# Tests that fail, by the reason and the message with which they do. They are run: one that passes is reported.
known = [
  {"puts a tensor into an expression, which Nx allows with Nx.BinaryBackend only",
   ~r/cannot convert tensor allocated on ExBurn.Backend|incompatible tensor implementations: Nx.Defn.Expr and ExBurn/,
   %{
     "nx/defn/expr_test.exs" => [
       "constant optimizations preserves names",
       "constant optimizations upcast float constants when operating against higher precision types",
       "constant optimizations logsumexp",
       "inspect with scalar",
       "inspect with parameters",
       "inspect with tensors",
       "inspect with metadata",
       "inspect with fun"
     ],
     "nx/defn/tree_test.exs" => [
       "apply_args handles regular operations",
       "apply_args handles concatenate"
     ]
   }},
  {"captures a tensor in a function under Nx.Defn.grad, which Nx allows with Nx.BinaryBackend only",
   ~r/a tensor captured as a closure inside the gradient function is on a non-default backend \(ExBurn/,
   %{
     "nx/defn/grad_test.exs" => [
       "conv rule computes gradient of kernel when image is a constant closure variable",
       "vectorization supports combination of vectorized and non-vectorized tensors",
       "vectorization supports combination of vectorized and non-vectorized tensors over composed function",
       "vectorization non-vectorized input, vectorized output",
       "vectorization window_scatter_max/min with vectorized inputs",
       "vectorization grad of non-vectorized target with vectorized capture",
       "vectorization vectorized grad through Nx.LinAlg.triangular_solve with captured a",
       "vectorization dot with captured matrix (exercises concrete tensor handling)",
       "vectorization conv with vectorized (exercises conv grad)",
       "vectorization mixed: vectorized x * non-vectorized y (exercises broadcast_vectors)",
       "vectorization composed: sigmoid(x @ w + b) (exercises composed chain with captures)"
     ]
   }},
  {"compares tensors in a pattern, so the references that ours hold",
   ~r/no matching message|match \(=\) failed/,
   %{
     "nx/defn/grad_test.exs" => ["metadata computes custom grad"],
     "nx/serving_test.exs" => ["run/2 with client pre/post"],
     "nx/vectorize_test.exs" => ["cond only executes selected branches"]
   }},
  {"mixes the tensors of two backends, of which Nx lets one be Nx.BinaryBackend's only",
   ~r/incompatible tensor implementations: (Nx.TemplateBackend and ExBurn|ExBurn.Backend and Nx.OptionalTest)/,
   %{
     "nx/defn/evaluator_test.exs" => ["slice"],
     "nx/optional_test.exs" => [
       "optional callbacks (defn) calls the default impl if custom does not exist"
     ]
   }},
  {"expects the last bf16 digit of Nx.BinaryBackend, which cuts where we round to the nearest",
   ~r/bf16.*(43\.0.*42\.8|0\.133.*0\.132)/s,
   %{"nx/random_test.exs" => ["types uniform", "types multivariate_normal"]}},
  {"expects that the remainder of infinities raises, as in the BEAM; we answer NaN, as IEEE 754",
   ~r/Expected exception ArgumentError but nothing was raised/,
   %{"nx/non_finite_test.exs" => ["binary operations remainder"]}}
]

# Modules with examples that are skipped.
examples = %{
  Nx.Defn.Composite =>
    {"compares tensors with ===, so the references that ours hold", [flatten_list: 2]}
}

case ExBurn.NxSuite.folder() do
  nil ->
    reason =
      "the package of Nx holds no tests: name a checkout's folder in EX_BURN_NX to run them"

    IO.puts("\nNx's own tests are skipped: #{reason}")

    defmodule ExBurn.Nx.SuiteTest do
      use ExUnit.Case

      @tag skip: reason
      test "Nx's own tests" do
      end
    end

  folder ->
    ExBurn.NxSuite.load_support(folder)

    for path <- folder |> Path.join("test/**/*_test.exs") |> Path.wildcard() |> Enum.sort() do
      name = Path.relative_to(path, Path.join(folder, "test"))

      fails =
        for {reason, message, files} <- known,
            test <- Map.get(files, name, []),
            into: %{},
            do: {test, {reason, message}}

      ExBurn.NxSuite.load(folder, name, fails, examples)
    end

    # ExUnit shows no reasons, and counts a failure that is expected as a success.
    fails =
      for {reason, _message, files} <- known,
          count = files |> Map.values() |> Enum.concat() |> length(),
          do: "  #{String.pad_leading("#{count}", 2)} fail as expected: #{reason}"

    skipped =
      for {module, {reason, functions}} <- examples, {name, arity} <- functions do
        "  examples of #{inspect(module)}.#{name}/#{arity} are skipped: #{reason}"
      end

    IO.puts(["\nOf Nx's own tests\n" | Enum.intersperse(fails ++ skipped, "\n")])
    IO.puts("  tests tagged :distributed are skipped: #{ExBurn.NxSuite.distributed()}")
end
