import Config

# The cargo features of the native part, for builds of this repository; an application sets
# `config :ex_burn, ExBurn.NIF, features: [...]` in its own configuration.
if features = System.get_env("EX_BURN_FEATURES") do
  config :ex_burn, ExBurn.NIF, features: String.split(features, [",", " "], trim: true)
end
