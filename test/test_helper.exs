# What compiles functions fuses nothing where the environment says so: each instruction is a kernel of its own then.
case System.get_env("EX_BURN_TEST_FUSION") do
  "off" -> Application.put_env(:ex_burn, :fusion, false)
  mode when mode in [nil, "", "on"] -> :ok
end

# A second, as Nx has it: the tests of Nx run among ours wait for messages too.
ExUnit.start(assert_receive_timeout: 1000)
