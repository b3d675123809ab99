# Memory of a GPU over many steps and operations; ends with an error where it grows:
#
#     MIX_ENV=test mix run test/soak/gpu.exs [STEPS [OPERATIONS]]
#
# A model trains for STEPS steps (10,000), then 50 processes run OPERATIONS operations (100,000) in all. What tensors hold and
# what this process has taken from the GPU are read after a tenth of the work and at the end.

[steps, operations] =
  case Enum.map(System.argv(), &String.to_integer/1) do
    [] -> [10_000, 100_000]
    [steps] -> [steps, 100_000]
    [steps, operations] -> [steps, operations]
  end

IO.inspect(ExBurn.device_info(:gpu).name, label: "on")

# What garbage of processes that ended still holds is given back in a moment.
settled = fn ->
  :erlang.garbage_collect()
  Process.sleep(200)
  ExBurn.memory_info(:gpu)
end

check = fn what, early, late ->
  IO.puts(
    "#{what}: in use #{early.in_use} -> #{late.in_use}, reserved #{early.reserved} -> #{late.reserved}"
  )

  if late.in_use > early.in_use + 1_000_000 or late.reserved > 1.1 * early.reserved + 1_000_000 do
    IO.puts("memory of the GPU grew")
    System.halt(1)
  end
end

model =
  "x"
  |> Axon.input(shape: {nil, 16})
  |> Axon.dense(32, activation: :relu)
  |> Axon.dropout(rate: 0.1)
  |> Axon.dense(4)
  |> ExBurn.compile(loss: :mse, optimizer: :adam)

{x, key} = Nx.Random.normal(Nx.Random.key(1), shape: {320, 16})
{y, _key} = Nx.Random.normal(key, shape: {320, 4})

# Ten steps an epoch.
train = fn epochs ->
  ExBurn.fit(model, {x, y},
    epochs: epochs,
    batch_size: 32,
    device: :gpu,
    verbose: false
  )

  settled.()
end

check.("#{steps} steps", train.(div(steps, 100)), train.(div(steps, 10)))

run = fn count ->
  1..50
  |> Task.async_stream(
    fn seed ->
      Nx.default_backend({ExBurn.Backend, device: :gpu})
      t = Nx.iota({64, 64}, type: :f32)

      Enum.reduce(1..div(count, 50), t, fn i, t ->
        case rem(i + seed, 4) do
          0 -> Nx.add(t, 1)
          1 -> Nx.tanh(t)
          2 -> Nx.transpose(t)
          3 -> Nx.dot(t, t) |> Nx.divide(100)
        end
      end)
      |> Nx.sum()
      |> Nx.to_number()
    end,
    max_concurrency: 50,
    timeout: :infinity
  )
  |> Stream.run()

  settled.()
end

check.("#{operations} operations", run.(div(operations, 10)), run.(operations))
