# Axon's own tests that learn, with our backend and compiler:
#
#     mix test test/soak/axon.exs
#
# They start from random parameters, with the time as the seed, so one in some runs learns too little.

known = [
  {[:both], "changes the type of the loss from f32 to f64, which Nx refuses with each compiler",
   ~r/argument at position 3 is not compatible with compiled function template/,
   %{"axon/integration_test.exs" => ["f64 input test"]}},
  {[:both],
   "compares steps of Adam along gradients of 0, where rounding decides, with each compiler",
   ~r/to be within tolerance of/,
   %{"axon/integration_test.exs" => ["rnns static and dynamic unroll match"]}}
]

folder = ExBurn.AxonSuite.folder() || raise "name a folder of Axon with its tests in EX_BURN_AXON"
ExBurn.AxonSuite.load_support(folder)
ExBurn.AxonSuite.load(folder, ExBurn.AxonSuite.learning(), known)
