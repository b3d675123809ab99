# Predicts the test images with a model file, in a VM that has never heard of Axon:
#
#     elixir -pa … second_vm.exs MODEL_FILE SCORES_FILE

Code.require_file("data.exs", __DIR__)

[model_file, scores_file] = System.argv()
false = Code.ensure_loaded?(Axon)
{:ok, _apps} = Application.ensure_all_started(:ex_burn)

{_train, test} = Digits.Data.split(Digits.Data.load())
{x, _labels} = Digits.Data.tensors(test)

scores = model_file |> ExBurn.load() |> ExBurn.predict!(x)
File.write!(scores_file, Nx.to_binary(scores))
