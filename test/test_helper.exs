# A second, as Nx has it: the tests of Nx run among ours wait for messages too.
ExUnit.start(assert_receive_timeout: 1000)
