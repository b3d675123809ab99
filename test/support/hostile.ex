defmodule ExBurn.Hostile do
  @moduledoc """
  Random calls of the native functions, most of which make no sense.

  Addresses of memory that is not ours are left out: whoever hands out an address vouches for it.
  """

  alias ExBurn.{Instruction, NIF}

  @numbers [0, 1, 2, 3, -1, 7, 100, 2 ** 31, 2 ** 62]
  @types ~w(f32 f64 s32 u8 u64 bf16 f16 s8 c64 c128 u4 s2 f8 f8_e4m3fn)a

  @doc """
  Makes `count` calls and counts what became of them: `:ok`, a kind of error, or `:argument`.

  Another outcome is an exception that shows the call.
  """
  @spec run(pos_integer(), integer()) :: %{atom() => pos_integer()}
  def run(count, seed) do
    :rand.seed(:exsss, {seed, 2, 3})
    world = world()
    Enum.frequencies_by(1..count, fn _ -> world |> call() |> outcome() end)
  end

  # What calls are made with: tensors of many kinds, one of them freed, a program, a folder for files.
  defp world do
    lists = [[1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]], [1, 2, 3], [5], [[[1.0]]]]
    tensors = for list <- lists, do: Nx.tensor(list, backend: ExBurn.Backend)
    deep = Nx.reshape(hd(tensors), List.to_tuple([2 | List.duplicate(1, 63)]))
    strided = tensors |> Enum.at(1) |> Nx.transpose()
    complex = Nx.tensor([Complex.new(1, 2)], backend: ExBurn.Backend)
    packed = Nx.tensor([1, 2, 3], type: :u4, backend: ExBurn.Backend)
    freed = Nx.tensor([1.0], backend: ExBurn.Backend)
    Nx.backend_deallocate(freed)
    f32 = %{dtype: :f32, shape: [2]}
    double = %{op: {:binary, :add}, inputs: [0, 0], outputs: [f32]}
    program = %{inputs: [f32], instructions: [double], outputs: [1]}
    {:ok, executable} = NIF.program_new(program, [], [])
    call = %{op: {:runtime_call, %{id: 0}}, inputs: [0], outputs: [f32]}
    {:ok, calling} = NIF.program_new(%{program | instructions: [call]}, [], [])

    %{
      tensors: [deep, strided, complex, packed, freed | tensors],
      refs: Enum.map([deep, strided, complex, packed, freed | tensors], & &1.data.ref),
      program: program,
      executable: executable,
      calling: calling,
      folder: Path.join(System.tmp_dir!(), "ex_burn_hostile_#{System.pid()}")
    }
  end

  defp call(world) do
    case Enum.random(1..20) do
      n when n <= 10 -> {:instruction_run, [operation(), inputs(world), outputs()]}
      11 -> {:instruction_run_dirty, [operation(), inputs(world), outputs()]}
      n when n in 12..13 -> tensor_call(world)
      14 -> program_call(world)
      15 -> file_call(world)
      16 -> device_call(world)
      _ -> any_call(world)
    end
  end

  # Drivers of GPUs, which may be broken, are not loaded for this.
  defp device_call(world) do
    where = [Enum.random(["cpu", "abacus", "", <<255>>]), Enum.random([0, 0, 1, -1, nil])]

    Enum.random([
      {:tensor_to_device, [Enum.random(world.refs) | where]},
      {:instruction_run_on, [operation(), inputs(world), outputs() | where]},
      {:program_run_on, [world.executable, inputs(world), [] | where]}
    ])
  end

  defp outcome({name, args}) do
    case apply(NIF, name, args) do
      {:ok, _result} ->
        :ok

      {:error, {:panic, %{message: message}}} ->
        raise "panics: " <> message

      {:error, {kind, %{message: message}}} when is_atom(kind) and is_binary(message) ->
        kind

      other
      when is_boolean(other) or is_list(other) or is_binary(other) or is_integer(other) or
             is_nil(other) ->
        :ok
    end
  rescue
    ArgumentError ->
      :argument

    error ->
      reraise "NIF.#{name}(#{inspect(args, limit: 100)}): #{Exception.message(error)}",
              __STACKTRACE__
  end

  ## Operations

  defp inputs(world) do
    inputs = Enum.take_random(world.refs, Enum.random(0..3))
    rarely(fn -> Enum.random([inputs ++ [make_ref()], [self()], improper(inputs)]) end, inputs)
  end

  defp outputs do
    outputs = for _ <- 1..Enum.random([0, 1, 1, 1, 2])//1, do: {Enum.random(@types), shape()}
    rarely(fn -> improper(outputs) end, outputs)
  end

  defp shape do
    rarely(
      fn ->
        Enum.random([
          List.duplicate(1, 64),
          List.duplicate(2, 64),
          [2 ** 31, 2 ** 31],
          [2 ** 62, 4],
          [2 ** 64],
          [-1],
          [0, 2 ** 40],
          improper([2])
        ])
      end,
      small()
    )
  end

  defp operation, do: rarely(&term/0, one_of(operations()))

  defp operations do
    [
      fn -> {:unary, Enum.random(Instruction.unary())} end,
      fn -> {:binary, Enum.random(Instruction.binary())} end,
      fn -> Enum.random(~w(cast bitcast select clip reshape put_slice eye nonsense)a) end,
      fn ->
        {Enum.random(~w(broadcast transpose reverse gather indexed_add indexed_put)a),
         %{axes: axes()}}
      end,
      fn ->
        {Enum.random(~w(concatenate stack take take_along_axis iota)a), %{axis: number()}}
      end,
      fn -> {:pad, %{config: [{number(), number(), number()}]}} end,
      fn -> {:slice, %{starts: axes(), lengths: axes(), strides: axes()}} end,
      fn -> {:dynamic_slice, %{lengths: axes(), strides: axes()}} end,
      fn ->
        {:dot, Map.new(~w(lhs_contract lhs_batch rhs_contract rhs_batch)a, &{&1, axes()})}
      end,
      fn -> {:conv, convolution()} end,
      fn ->
        {:reduce,
         %{fold: Enum.random(~w(sum max all)a), axes: Enum.random([nil, axes()]), keep_axes: true}}
      end,
      fn ->
        {:arg_reduce,
         %{extremum: :max, axis: Enum.random([nil, 0, 5]), keep_axis: true, tie_break: :low}}
      end,
      fn -> {:cumulative, %{fold: :sum, axis: number(), reverse: true}} end,
      fn -> {Enum.random([:sort, :argsort]), %{axis: number(), direction: :asc}} end,
      fn -> {:top_k, %{k: number()}} end,
      fn -> {:window_reduce, %{fold: :max, windows: windows()}} end,
      fn -> {:window_scatter, %{extremum: :max, windows: windows()}} end,
      fn ->
        {:custom_reduce, %{axes: Enum.random([nil, axes()]), keep_axes: true, body: body()}}
      end,
      fn -> {:custom_window_reduce, %{windows: windows(), body: body()}} end,
      fn -> {:all_close, %{equal_nan: true, rtol: 0.1, atol: 1.0e300}} end,
      fn -> {:cond, %{predicates: [body()], branches: [body(), body()]}} end,
      fn ->
        {:fft,
         %{transform: Enum.random([:fft, :ifft]), eps: 1.0e-5, length: number(), axis: number()}}
      end,
      fn -> {:triangular_solve, %{lower: true, left_side: false, transform_a: :transpose}} end,
      fn -> {:constant, %{bytes: Enum.random([[0, 0, 0, 0], [], [300], improper([1])])}} end
    ]
  end

  defp body do
    scalar = %{dtype: Enum.random([:f32, :s32]), shape: Enum.random([[], [], [2]])}

    instruction = %{
      op: {:binary, Enum.random(Instruction.binary())},
      inputs: [Enum.random(0..2), Enum.random(0..1)],
      outputs: [scalar]
    }

    %{inputs: [scalar, scalar], instructions: [instruction], outputs: [Enum.random(0..3)]}
  end

  defp convolution do
    lists =
      ~w(strides input_dilation kernel_dilation input_permutation kernel_permutation output_permutation)a

    Map.new(lists, &{&1, axes()})
    |> Map.merge(%{
      padding: [{number(), number()}],
      feature_group_size: Enum.random(0..2),
      batch_group_size: Enum.random(0..2)
    })
  end

  defp windows,
    do: %{dimensions: axes(), padding: [{number(), number()}], strides: axes(), dilations: axes()}

  ## Tensors, programs, files

  defp tensor_call(world) do
    ref = Enum.random(world.refs)
    type = {Enum.random(@types), shape()}
    bytes = Enum.random([<<>>, <<1, 2, 3, 4>>, :binary.copy(<<7>>, 5000), <<1::4>>])
    address = own_address(world)

    Enum.random([
      {:tensor_from_binary, [type, bytes]},
      {:tensor_from_binary_dirty, [type, bytes]},
      {:tensor_over_binary, [type, bytes]},
      {:tensor_to_binary, [ref, number()]},
      {:tensor_to_binary_dirty, [ref, number()]},
      {:tensor_type, [ref]},
      {:tensor_copy, [ref]},
      {:tensor_free, [List.last(Enum.take(world.refs, 5))]},
      {:memory_stand_in, [number()]},
      {:tensor_address, [ref]},
      {:tensor_share, [ref, number()]},
      {:tensor_from_address, [type, address]},
      {:tensor_from_shared,
       [
         type,
         Enum.random(["", "/", "/no.such", "a/b", <<0>>, <<255>>, String.duplicate("x", 5000)])
       ]}
    ])
  end

  # Of the first element of a tensor that lives on, of one that can't be there, or of no memory at all.
  defp own_address(world) do
    {:ok, {address, _size}} = NIF.tensor_address(Enum.at(world.refs, 5))
    Enum.random([address, address + 1, 0, 1, 64, -8, 2 ** 64 - 1, 2 ** 64, 2 ** 80])
  end

  defp program_call(world) do
    program = Enum.random([world.program, body(), broken(world.program)])
    captures = inputs(world)

    json =
      Enum.random(["", "{}", "[", <<255>>, ~s({"inputs":[],"instructions":[],"outputs":[0]})])

    Enum.random([
      {:program_new, [program, captures, []]},
      {:program_from_json, [json, captures]},
      {:program_to_json, [world.executable]},
      {:program_text, [world.executable]},
      {:program_types, [world.executable]},
      {:program_captures, [world.executable]},
      {:program_is_brief, [world.executable]},
      {:program_run, [world.executable, captures, donated(world)]},
      {:program_run_dirty, [world.executable, captures, donated(world)]},
      {Enum.random([:program_resume, :program_resume_dirty]), [continuation(world), captures]},
      {:train_gradients_dirty, [world.executable, Enum.random(0..3), captures, checkpointing()]},
      {:template_any, [[{number(), program}]]},
      {:template_sizes, [[{Enum.random(0..3), program}]]},
      {:template_program, [json, Enum.random(0..3), captures]},
      {:manifest_to_json, [program]},
      {:manifest_from_json, [json]}
    ])
  end

  defp checkpointing, do: Enum.random([:off, :balanced, {:every, 2}, {:every, 0}, -1])

  # The tensor that is freed at times too.
  defp donated(world), do: Enum.random([[], [List.last(Enum.take(world.refs, 5))]])

  # A run that waits, or something that is none.
  defp continuation(world) do
    x = Enum.at(world.refs, 5)
    {:ok, {:call, 0, _, continuation}} = NIF.program_run(world.calling, [x], [])
    Enum.random([continuation, continuation, world.executable, x])
  end

  defp broken(program),
    do: Map.put(program, Enum.random(~w(inputs instructions outputs other)a), term())

  defp file_call(world) do
    path =
      Enum.random([
        "",
        "/",
        <<0>>,
        world.folder,
        Path.join(world.folder, "none"),
        "/proc/self/mem"
      ])

    {:file_read, [path]}
  end

  # Any function with any arguments, but those that would write files, and addresses.
  defp any_call(world) do
    {name, arity} = Enum.random(functions())
    values = [world.executable | world.refs] ++ for _ <- 1..3, do: term()
    {name, for(_ <- 1..arity//1, do: Enum.random(values))}
  end

  defp functions,
    do:
      NIF.__info__(:functions) --
        [rustler_init: 0, file_write: 3, tensor_from_address: 2, panic_with: 1, tensor_free: 1]

  ## Terms

  defp term do
    one_of([
      fn -> number() end,
      fn -> -1.5 end,
      fn -> Enum.random([:nonsense, nil, true, :f32]) end,
      fn -> Enum.random(["text", <<255>>, <<1::3>>]) end,
      fn -> Enum.random([[], %{}, {}, make_ref(), self(), &term/0]) end,
      fn -> improper(small()) end,
      fn -> Enum.reduce(1..200, [], fn _, inner -> [inner] end) end,
      fn -> %{dtype: :f32, shape: shape()} end
    ])
  end

  defp improper(list), do: list ++ Enum.random([:end, 1])

  defp axes,
    do: rarely(fn -> Enum.random([[-1], [2 ** 62], improper([0]), :nonsense]) end, small())

  defp small, do: for(_ <- 1..Enum.random(1..3), do: Enum.random(0..3))
  defp number, do: Enum.random(@numbers)
  defp one_of(makers), do: Enum.random(makers).()
  defp rarely(maker, otherwise), do: if(:rand.uniform(20) == 1, do: maker.(), else: otherwise)
end
