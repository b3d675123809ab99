Code.require_file("mix/deps_folder.exs", __DIR__)

defmodule ExBurn.MixProject do
  use Mix.Project

  alias ExBurn.DepsFolder

  @version "0.1.0"

  def project do
    DepsFolder.activate()

    [
      app: :ex_burn,
      version: @version,
      elixir: "~> 1.17",
      elixirc_paths: elixirc_paths(Mix.env()),
      start_permanent: Mix.env() == :prod,
      # So that test files of Nx, which define containers while they run, can be run here.
      consolidate_protocols: Mix.env() != :test,
      deps: DepsFolder.deps(deps()),
      name: "ExBurn",
      description: "Runs Nx, Axon and Nx.Serving on the Rust framework Burn",
      package: package(),
      docs: docs()
    ]
  end

  def application do
    [mod: {ExBurn.Application, []}, extra_applications: [:crypto, :logger]]
  end

  defp elixirc_paths(:test), do: ["lib", "test/support"]
  defp elixirc_paths(_env), do: ["lib"]

  defp deps do
    [
      {:nx, "~> 0.13"},
      {:rustler, "~> 0.38", runtime: false},
      {:telemetry, "~> 1.0"},
      {:axon, "~> 0.8", optional: true},
      {:polaris, "~> 0.1", optional: true},
      {:stream_data, "~> 1.1", only: [:dev, :test]},
      {:ex_doc, "~> 0.34", only: :dev, runtime: false}
    ]
  end

  defp package do
    [
      licenses: ["Apache-2.0"],
      links: %{},
      files: ~w(
        lib mix mix.exs .formatter.exs .cargo README.md CHANGELOG.md LICENSE
        native/Cargo.toml native/Cargo.lock
        native/*/Cargo.toml native/*/src native/*/examples
        priv/*.*
      )
    ]
  end

  defp docs do
    [
      main: "readme",
      extras: ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"]
    ]
  end
end
