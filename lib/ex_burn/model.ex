defmodule ExBurn.Model do
  @moduledoc """
  A model: parameters in native memory and the program that predicts with them.

  `ExBurn.compile/2` makes one from an Axon model, `ExBurn.load/1` from a file; the second kind has no `:axon` and needs
  none to predict.

  Fields:

    * `:axon` - the `%Axon{}` it was compiled from, or `nil` for a loaded model
    * `:inputs` - `[{name, {type, shape}}]` ordered by name. `type` is an Nx type, `shape` a list whose first axis is `nil`
      where the batch size is free
    * `:parameters` - `[{path, tensor}]` ordered by path: what an optimizer may change. A path is a list of strings,
      the layer's name first, e.g. `["dense_0", "kernel"]`
    * `:states` - `[{path, tensor}]` ordered by path: what the layers themselves change in training, such as the running
      mean of batch normalisation and the key of dropout
    * `:frozen` - `MapSet` of the paths that training leaves as they are
    * `:forward` - how to predict: `ExBurn.Model.Forward`
    * `:loss`, `:optimizer`, `:learning_rate`, `:metrics` - as given to `ExBurn.compile/2`; `:loss` may be `nil`
    * `:seed` - (integer) of the initial parameters
    * `:device` - where it runs, e.g. `:cpu`
    * `:trained` - what training reports of itself, kept in the file: a map of strings to strings

  `ExBurn.Model.State` turns parameters and states into what Axon takes and back.
  """

  @enforce_keys [:inputs, :parameters, :states, :forward]
  defstruct axon: nil,
            inputs: [],
            parameters: [],
            states: [],
            frozen: MapSet.new(),
            forward: nil,
            loss: nil,
            optimizer: :adam,
            learning_rate: 1.0e-3,
            metrics: [],
            seed: 42,
            device: :cpu,
            trained: %{}

  @type path :: [String.t(), ...]
  @type leaves :: [{path(), Nx.Tensor.t()}]
  @type input :: {String.t(), {Nx.Type.t(), [non_neg_integer() | nil]}}

  @type t :: %__MODULE__{
          axon: struct() | nil,
          inputs: [input()],
          parameters: leaves(),
          states: leaves(),
          frozen: MapSet.t(path()),
          forward: ExBurn.Model.Forward.t() | nil,
          loss: atom() | (Nx.Tensor.t(), Nx.Tensor.t() -> Nx.Tensor.t()) | nil,
          optimizer: atom() | {atom(), keyword()},
          learning_rate: float(),
          metrics: [atom()],
          seed: non_neg_integer(),
          device: atom() | {atom(), non_neg_integer()},
          trained: %{String.t() => String.t()}
        }
end
