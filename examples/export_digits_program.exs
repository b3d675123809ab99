# Writes `priv/digits_mlp.safetensors`, from which `native/engine/examples/digits.rs` trains without Elixir:
#
#     mix run examples/export_digits_program.exs
#
# The file's tensors are the initial parameters in the order of the programs' inputs. Its texts `steps` and
# `evaluations` are JSON lists of the programs for each size of batch that occurs.

for file <- ~w(data networks), do: Code.require_file("digits/#{file}.exs", __DIR__)

alias ExBurn.{Error, NIF}
alias ExBurn.Training.Step

batch_size = 32
{train, test} = Digits.Data.split(Digits.Data.load())
model = Digits.Networks.compile(Digits.Networks.mlp())

# Whole batches, and the last one with what is left.
programs = fn images, mode ->
  for rows <- [batch_size, rem(length(images), batch_size)] do
    batch = {%{"pixels" => Nx.template({rows, 64}, :f32)}, Nx.template({rows}, :s64)}
    %Step{program: program} = Step.fetch!(model, mode, batch, :export)
    Error.unwrap!(NIF.program_to_json(program))
  end
end

metadata =
  for {name, images, mode} <- [{"steps", train, :train}, {"evaluations", test, :inference}],
      into: %{} do
    {name, "[#{Enum.join(programs.(images, mode), ",")}]"}
  end

{trainable, []} = Step.arguments(model)

parameters =
  for {path, tensor} <- trainable, do: {Enum.join(path, "."), ExBurn.Backend.ref(tensor)}

file = Path.expand("../priv/digits_mlp.safetensors", __DIR__)
Error.unwrap!(NIF.file_write(file, parameters, metadata))
IO.puts("#{Path.relative_to_cwd(file)}: #{File.stat!(file).size} bytes")
