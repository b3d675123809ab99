# Nx's own tests, see `ExBurn.NxSuite`.

# Tests that fail, by the modes of ExBurn.NxModes, the reason and the message with which they do. They are run: one that
# passes is reported. Of two entries for a test the first holds.
known = [
  {[:both, :compiler], "expects the message with which Nx.Defn.Evaluator refuses templates",
   ~r/Expected exception RuntimeError but got ExBurn.Error \(from_nx: /,
   %{
     "nx/defn/evaluator_test.exs" => ["concatenate", "slice"]
   }},
  {[:compiler], "compares tensors in a pattern, so the references that ours hold",
   ~r/no matching message|match \(=\) failed/,
   %{
     "nx/defn/grad_test.exs" => ["metadata computes custom grad"],
     "nx/vectorize_test.exs" => ["cond only executes selected branches"]
   }},
  {[:both, :compiler],
   "expects that a hook sees no vectorized axes, which Nx.Defn.Evaluator forgets and we keep",
   ~r/vectorized\[x: 3\]/,
   %{
     "nx/vectorize_test.exs" => ["cond if with container result"]
   }},
  {[:both, :compiler], "asks for the name of the compiler",
   ~r/no match of right hand side value: (false|ExBurn.Defn.Compiler)/,
   %{
     "nx/defn_test.exs" => [
       "jit compiles elixir function",
       "transform back and forth between Elixir and defn"
     ]
   }},
  {[:both, :compiler],
   "puts a tensor into an expression, which Nx allows with Nx.BinaryBackend only",
   ~r/cannot convert tensor allocated on ExBurn.Backend to an expression/,
   %{
     "nx/defn_test.exs" => ["jit raises on nested JIT unless forcing"]
   }},
  {[:both, :compiler],
   "expects that new tensors are made by the default backend, which compiled functions do not use",
   ~r/Expected exception RuntimeError but nothing was raised/,
   %{
     "nx/defn_test.exs" => ["jit uses the default backend on iota"]
   }},
  {[:compiler],
   "expects what Nx's rounding leaves of a vector that the matrix does not determine",
   ~r/0\.141, -0\.825, -0\.001/,
   %{
     "nx/lin_alg_test.exs" => ["svd finds the singular values of tall matrices"]
   }},
  {[:compiler],
   "expects the last bf16 digit of Nx.BinaryBackend, which cuts where we round to the nearest",
   ~r/bf16.*(43\.0.*42\.8|0\.133.*0\.132)/s,
   %{
     "nx/random_test.exs" => ["types multivariate_normal", "types uniform"]
   }},
  {[:both, :compiler], "names all options that a serving gets, and the compiler is one more",
   ~r/no matching message/,
   %{
     "nx/serving_test.exs" => [
       "batched_run + streaming 2+2=4 with pre and post",
       "batched_run + streaming 3+3=4+2(+pad) with pre and post",
       "batched_run + streaming 5=3+2(+pad) (oversized)",
       "batched_run + streaming 5=3+3 (oversized)",
       "batched_run + streaming with output streaming",
       "batched_run 1=1",
       "batched_run 2+2=4",
       "batched_run 2+2=4 with pre and post",
       "batched_run 5=3+2(+pad) (oversized)",
       "batched_run 5=3+3 (oversized)",
       "batched_run with input streaming",
       "run + streaming with client pre/post",
       "run + streaming with module callbacks",
       "run/2 with module callbacks"
     ]
   }},
  {[:compiler], "names all options that a serving gets, and the compiler is one more",
   ~r/no matching message/,
   %{
     "nx/serving_test.exs" => ["run/2 with client pre/post"]
   }},
  {[:both, :compiler],
   "runs operations on a backend of its own, which compiled functions do not use",
   ~r/TestBackend.to_binary\/2 is undefined/,
   %{
     "nx/optional_test.exs" => [
       ~S(inspect works with defn call for backend #{backend})
     ]
   }},
  {[:backend, :both],
   "puts a tensor into an expression, which Nx allows with Nx.BinaryBackend only",
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
  {[:backend, :both],
   "captures a tensor in a function under Nx.Defn.grad, which Nx allows with Nx.BinaryBackend only",
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
  {[:backend, :both], "compares tensors in a pattern, so the references that ours hold",
   ~r/no matching message|match \(=\) failed/,
   %{
     "nx/defn/grad_test.exs" => ["metadata computes custom grad"],
     "nx/serving_test.exs" => ["run/2 with client pre/post"],
     "nx/vectorize_test.exs" => ["cond only executes selected branches"]
   }},
  {[:backend, :both],
   "mixes the tensors of two backends, of which Nx lets one be Nx.BinaryBackend's only",
   ~r/incompatible tensor implementations: (Nx.TemplateBackend and ExBurn|ExBurn.Backend and Nx.OptionalTest)/,
   %{
     "nx/defn/evaluator_test.exs" => ["slice"],
     "nx/optional_test.exs" => [
       "optional callbacks (defn) calls the default impl if custom does not exist"
     ]
   }},
  {[:backend, :both],
   "expects the last bf16 digit of Nx.BinaryBackend, which cuts where we round to the nearest",
   ~r/bf16.*(43\.0.*42\.8|0\.133.*0\.132)/s,
   %{"nx/random_test.exs" => ["types uniform", "types multivariate_normal"]}},
  {[:backend, :both],
   "expects that the remainder of infinities raises, as in the BEAM; we answer NaN, as IEEE 754",
   ~r/Expected exception ArgumentError but nothing was raised/,
   %{"nx/non_finite_test.exs" => ["binary operations remainder"]}}
]

# Modules with examples that are skipped.
examples = %{
  Nx.Defn.Composite =>
    {"compares tensors with ===, so the references that ours hold", [flatten_list: 2]}
}

# Nx after 0.13.1: tests it has added, and one whose digits it prints as we do.
{known, examples} =
  if ExBurn.NxSuite.newer?() do
    known =
      for {modes, reason, message, files} <- known,
          not Map.has_key?(files, "nx/lin_alg_test.exs"),
          do: {modes, reason, message, files}

    captured = "multi-tensor ops with captured closure tensors "

    mixed =
      {[:backend, :both],
       "puts a tensor into an expression, which Nx allows with Nx.BinaryBackend only",
       ~r/incompatible tensor implementations: (Nx.Defn.Expr and ExBurn|ExBurn.Backend and Nx.Defn.Expr)/,
       %{
         "nx/defn/donation_test.exs" => [
           "donatable propagation expression parameters keep the mark, expressions built from them do not"
         ],
         "nx/defn_test.exs" =>
           ["block accepts a constant tensor argument"] ++
             for(
               name <- [
                 "put_slice in a jit closure over a concrete target",
                 "clip in a jit closure over a concrete target",
                 "gather in a jit closure over a concrete source"
               ],
               do: captured <> name
             )
       }}

    in_gradients =
      {[:backend, :both],
       "captures a tensor in a function under Nx.Defn.grad, which Nx allows with Nx.BinaryBackend only",
       ~r/a tensor captured as a closure inside the gradient function is on a non-default backend \(ExBurn/,
       %{
         "nx/defn/grad_test.exs" =>
           ["solve computes the grad when the right-hand side is a constant"] ++
             for(
               name <- [
                 "put_slice grad wrt the update with a captured target",
                 "clip grad wrt min and max with a captured target",
                 "reduce and window_reduce raise their documented no-grad error, not a dispatch crash"
               ],
               do: captured <> name
             )
       }}

    batched =
      {[:both, :compiler],
       "expects every digit of a matrix alone of the same in a batch, whose products sum in another order",
       ~r/Tensor assertion failed/,
       %{
         "nx/defn/grad_test.exs" => [
           "svd computes grad for batched tensor",
           "svd computes grad for batched wide tensor"
         ]
       }}

    qr = {"prints the digits of another order of steps than that of 0.13.1", [qr: 2]}
    {known ++ [mixed, in_gradients, batched], Map.put(examples, Nx.LinAlg, qr)}
  else
    {known, examples}
  end

# On a GPU these too.
{known, examples} =
  if ExBurn.TestDevice.gpu() do
    clamped =
      {[:backend, :both],
       "expects that indices out of bounds raise; a GPU moves them to the edge, as Nx allows",
       ~r/Expected exception ArgumentError but nothing was raised/,
       %{
         "nx_test.exs" =>
           for(op <- ~w(gather indexed_add indexed_put), do: "#{op} raises when out of bounds")
       }}

    single =
      {[:backend, :both],
       "expects zeros as double precision leaves them beside sums of 1200; a GPU transforms in f32",
       ~r/f32\[2400\].*e-[67].*to be close to/s,
       %{"nx_test.exs" => ["fft/ifft Bluestein clause"]}}

    digits = "prints the last digit of one order of sums, and ours is another"

    others =
      Map.new(ExBurn.NxDoctests.other_digits(), fn {module, fs} -> {module, {digits, fs}} end)

    {known ++ [clamped, single], Map.merge(examples, others)}
  else
    {known, examples}
  end

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

    # It waits for the first message of any serving, so no other may run beside it.
    alone = fn
      {:use, meta, [{:__aliases__, _, [:ExUnit, :Case]} = module | _]} ->
        {:use, meta, [module, [async: false]]}

      node ->
        node
    end

    for path <- folder |> Path.join("test/**/*_test.exs") |> Path.wildcard() |> Enum.sort() do
      name = Path.relative_to(path, Path.join(folder, "test"))

      fails =
        for {modes, reason, message, files} <- known,
            test <- Map.get(files, name, []),
            do: {test, {modes, reason, message}}

      fails = Enum.group_by(fails, &elem(&1, 0), &elem(&1, 1))

      rewrite = if name == "nx/serving_test.exs", do: alone, else: & &1
      ExBurn.NxSuite.load(folder, name, fails, examples, rewrite)
    end

    # ExUnit shows no reasons, and counts a failure that is expected as a success.
    fails =
      for {modes, reason, _message, files} <- known,
          count = files |> Map.values() |> Enum.concat() |> length(),
          do: "  #{String.pad_leading("#{count * length(modes)}", 2)} fail as expected: #{reason}"

    skipped =
      for {module, {reason, functions}} <- examples, {name, arity} <- functions do
        "  examples of #{inspect(module)}.#{name}/#{arity} are skipped: #{reason}"
      end

    IO.puts(["\nOf Nx's own tests\n" | Enum.intersperse(fails ++ skipped, "\n")])
    IO.puts("  tests tagged :distributed are skipped: #{ExBurn.NxSuite.distributed()}")
end
