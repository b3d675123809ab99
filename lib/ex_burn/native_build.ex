defmodule ExBurn.NativeBuild do
  @moduledoc """
  How Rustler builds the native part. Read while `ExBurn.NIF` compiles; no use at run time.
  """

  @doc """
  The environment of cargo: the target folder is outside of the checkout, so that a fresh clone
  finds what an earlier one has built.

  `CARGO_TARGET_DIR` is kept where it is set; else it is `ex_burn/target` in the user's cache folder.

      iex> [{"CARGO_TARGET_DIR", folder}] = ExBurn.NativeBuild.env()
      iex> Path.type(folder)
      :absolute
  """
  @spec env() :: [{String.t(), Path.t()}]
  def env do
    default = :filename.basedir(:user_cache, "ex_burn/target", %{os: :linux})
    [{"CARGO_TARGET_DIR", Path.expand(System.get_env("CARGO_TARGET_DIR", default))}]
  end

  @doc """
  The cargo features to build with, separated by commas or spaces: those that
  `EX_BURN_FEATURES` asks for, if no others are given.

      iex> ExBurn.NativeBuild.features("vulkan, ndarray")
      ["vulkan", "ndarray"]
      iex> ExBurn.NativeBuild.features("")
      []
  """
  @spec features(String.t()) :: [String.t()]
  def features(names \\ System.get_env("EX_BURN_FEATURES", "")) do
    String.split(names, [",", " "], trim: true)
  end

  @built_for System.get_env("EX_BURN_FEATURES", "")

  # Mix asks before each compilation; other features mean another native library.
  @doc false
  def __mix_recompile__?, do: System.get_env("EX_BURN_FEATURES", "") != @built_for
end
