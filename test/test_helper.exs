# What compiles functions fuses nothing where the environment says so: each instruction is a kernel of its own then.
case System.get_env("EX_BURN_TEST_FUSION") do
  "off" -> Application.put_env(:ex_burn, :fusion, false)
  mode when mode in [nil, "", "on"] -> :ok
end

# Nx waits a second for a message; where all cores make kernels of a software GPU, that has been too short once.
ExUnit.start(assert_receive_timeout: 10_000)
