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

  """

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
