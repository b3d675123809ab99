# Learns to read handwritten digits: two Axon models trained, saved, loaded elsewhere and served.
#
#     bin/demo                           does the set-up, then runs this file
#     mix run examples/digits.exs

for file <- ~w(data networks report), do: Code.require_file("digits/#{file}.exs", __DIR__)

defmodule Digits.Demo do
  alias Digits.{Data, Networks, Report}

  @wanted_accuracy 0.97
  @requests 200

  def run do
    # Tensors live in native memory, and Nx's functions run there.
    Nx.default_backend(ExBurn.Backend)

    {train, test} = Data.split(Data.load())
    introduce(train, test)
    {train, test} = {Data.tensors(train), Data.tensors(test)}

    learn("A multi-layer perceptron", Networks.mlp(), 20, train, test)
    {cnn, accuracy} = learn("A convolutional network", Networks.cnn(), 12, train, test)
    load_in_second_vm(cnn, test)
    serve(cnn, test)

    IO.puts("\nTest accuracy of the convolutional network: #{Report.percent(accuracy)}")
  end

  defp introduce(train, test) do
    Report.heading("Handwritten digits")
    {pixels, label} = hd(test)
    IO.puts(Report.image(pixels))
    IO.puts("A #{label}, the first of #{length(test)} images to test with.")
    IO.puts("#{length(train)} others are to learn from.")
    IO.puts("ExBurn #{ExBurn.version()} on #{ExBurn.device_name()}")
  end

  # -- Training

  defp learn(title, network, epochs, train, test) do
    Report.heading(title)
    model = Networks.compile(network)
    IO.puts([ExBurn.summary(model), "\n"])

    # The test images are watched, too, but nothing is chosen by what is seen.
    {model, history} =
      ExBurn.fit_with_progress(model, train,
        epochs: epochs,
        batch_size: 32,
        lr_schedule: {:cosine, 5.0e-3, 1.0e-4},
        validation_data: test
      )

    IO.puts(["\n", ExBurn.Training.plot(history)])
    {model, examine(model, test)}
  end

  defp examine(model, {x, y}) do
    labels = Nx.to_list(y)
    predicted = model |> ExBurn.predict!(x) |> Nx.argmax(axis: 1) |> Nx.to_list()
    accuracy = Report.accuracy(labels, predicted)

    IO.puts("How often each digit (row) was taken for which (column):\n")
    IO.puts([Report.confusion(labels, predicted), "\n"])

    check(
      accuracy >= @wanted_accuracy,
      "test accuracy #{Report.percent(accuracy)} (wanted: #{Report.percent(@wanted_accuracy)})"
    )

    accuracy
  end

  # -- The model file

  defp load_in_second_vm(model, {x, _y}) do
    Report.heading("Saved, and loaded in a second VM")

    in_temporary_folder(fn folder ->
      file = Path.join(folder, "digits.safetensors")
      ExBurn.save(model, file)
      IO.puts("#{Path.basename(file)} has #{div(File.stat!(file).size, 1024)} KiB.")

      check(
        predict_in_second_vm(file) == Nx.to_binary(ExBurn.predict!(model, x)),
        "a VM without Axon answers the same, bit by bit"
      )
    end)
  end

  defp predict_in_second_vm(model_file) do
    scores_file = model_file <> ".scores"
    script = Path.join(__DIR__, "digits/second_vm.exs")
    arguments = code_paths() ++ [script, model_file, scores_file]

    case System.cmd("elixir", arguments, stderr_to_stdout: true) do
      {_output, 0} -> File.read!(scores_file)
      {output, status} -> check(false, "the second VM ended with #{status}:\n#{output}")
    end
  end

  # Where this VM finds its libraries, without Axon and its optimizers.
  defp code_paths do
    for path <- :code.get_path(),
        app = path |> Path.dirname() |> Path.basename(),
        app not in ["axon", "polaris"],
        option <- ["-pa", to_string(path)],
        do: option
  end

  defp in_temporary_folder(fun) do
    folder = Path.join(System.tmp_dir!(), "ex_burn_digits_#{System.pid()}")
    File.mkdir_p!(folder)

    try do
      fun.(folder)
    after
      File.rm_rf!(folder)
    end
  end

  # -- Serving

  defp serve(model, {x, _y}) do
    Report.heading("Served")
    {:ok, supervisor} = DynamicSupervisor.start_link(strategy: :one_for_one)

    {:ok, _pid} =
      ExBurn.Serving.supervise(model,
        name: Digits.Serving,
        supervisor: supervisor,
        batch_size: [1, 4, 16],
        batch_timeout: 5
      )

    requests = x[0..(@requests - 1)]
    {microseconds, answers} = :timer.tc(fn -> ask_all_at_once(requests) end)
    difference = largest_difference(answers, ExBurn.predict!(model, requests))

    check(
      difference <= 1.0e-5,
      "#{@requests} concurrent requests answered in #{div(microseconds, 1000)} ms, " <>
        "at most #{difference} from what the model says itself"
    )
  end

  defp ask_all_at_once(requests) do
    requests
    |> Nx.to_batched(1)
    |> Task.async_stream(&Nx.Serving.batched_run(Digits.Serving, &1), max_concurrency: @requests)
    |> Enum.map(fn {:ok, scores} -> scores end)
    |> Nx.concatenate()
  end

  defp largest_difference(a, b),
    do: a |> Nx.subtract(b) |> Nx.abs() |> Nx.reduce_max() |> Nx.to_number()

  defp check(true, claim), do: IO.puts("✓ #{claim}")

  defp check(false, claim) do
    IO.puts("✗ #{claim}")
    exit({:shutdown, 1})
  end
end

Digits.Demo.run()
