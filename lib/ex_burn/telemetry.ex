defmodule ExBurn.Telemetry do
  @moduledoc """
  Events, by `:telemetry`.

  ## `[:ex_burn, :compile, :stop]`

  A function was compiled: `ExBurn.Defn.Compiler` found it in no cache.

  Measurements, in the VM's native unit, see `System.convert_time_unit/3`:

    * `:eval_time` - to trace the function and translate what was traced, or to read its file
    * `:compile_time` - to make the native program
    * `:total_time` - both

  Metadata:

    * `:key` - the function, or `nil` for one that holds an expression, see `ExBurn.Defn.Key.expression?/1`
    * `:source` - where its program came from: `:traced`, or `:file` with the option `cache: "path"`
    * `:options` - the compiler's options

  For example:

      :telemetry.attach("slow compilation", [:ex_burn, :compile, :stop], &MyApp.log_compilation/4, nil)

      def log_compilation(_event, %{total_time: time}, %{key: fun}, _config) do
        milliseconds = System.convert_time_unit(time, :native, :millisecond)
        Logger.info("compiled \#{inspect(fun)} in \#{milliseconds} ms")
      end

  ## `[:ex_burn, :fallback]`

  Operations ran on the CPU because the GPU that has their operands has no kernel for them: their operands came to the host, and
  their results went back. Told once a call, after it, as one call of `ExBurn.fit/3` is. They are counted for the whole VM:
  the first call to end tells what ran until then, so that while processes use GPUs at once, a handler may run in a process
  that caused none of it, and what a call did that raised is told by the next one.

  Measurements: `:count`, how often.

  Metadata: `:op`, its name in Nx, `:type`, the type that has no kernel, both strings, and `:device`, the GPU. The type is the one
  that has no place on a GPU, as `f64`, else that of the first operand. A training step that only Burn's tape can follow, which it
  does on the CPU, is the operation `grad`.

  ## `[:ex_burn, :device, :failed]`

  A function given to `ExBurn.try_with_fallback/1` failed on a device, or there is none of the configured name, and it goes to the
  next. Metadata: `:device` and `:error`.

  ## `[:ex_burn, :train, :epoch]`

  An epoch of `ExBurn.fit/3` is over.

  Measurements: `:duration` in the VM's native unit, validation included, `:samples`, `:steps`, `:skipped` (batches that
  `nan: :skip` left out) and `:loss`.

  Metadata: `:epochs` and `:entry`, the epoch's entry of the history, see `ExBurn.Training.History`.

  ## `[:ex_burn, :train, :step]`

  A run tells where its epoch stands, at most ten times a second and after its last step.

  Measurements: `:step`, `:samples_per_second` and `:loss`, the mean over the epoch so far.

  Metadata: `:epoch`, `:epochs`, `:steps` (`nil` when batches are enumerated) and `:metrics`, means over the epoch so far.

  Losses and metrics are floats, or `:nan`, `:infinity`, `:neg_infinity`.
  """

  @doc false
  @spec steps?() :: boolean()
  def steps?, do: :telemetry.list_handlers([:ex_burn, :train, :step]) != []

  @doc false
  @spec step(map(), pos_integer(), [atom()]) :: :ok
  def step(info, epochs, names) do
    about =
      info
      |> Map.take([:epoch, :steps])
      |> Map.merge(%{epochs: epochs, metrics: Map.take(info, names)})

    :telemetry.execute(
      [:ex_burn, :train, :step],
      Map.take(info, [:step, :samples_per_second, :loss]),
      about
    )
  end

  @doc false
  @spec epoch(map(), map(), pos_integer(), pos_integer()) :: :ok
  def epoch(info, entry, steps, epochs) do
    duration = round(info.seconds * System.convert_time_unit(1, :second, :native))

    measured =
      info
      |> Map.take([:samples, :skipped, :loss])
      |> Map.merge(%{duration: duration, steps: steps})

    :telemetry.execute([:ex_burn, :train, :epoch], measured, %{epochs: epochs, entry: entry})
  end

  @doc false
  @spec compiled({integer(), integer()}, map()) :: :ok
  def compiled({eval_time, compile_time}, metadata) do
    times = %{
      eval_time: eval_time,
      compile_time: compile_time,
      total_time: eval_time + compile_time
    }

    :telemetry.execute([:ex_burn, :compile, :stop], times, metadata)
  end
end
