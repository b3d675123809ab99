defmodule ExBurn.NIFTest do
  # Calls that no caller of the library makes.
  use ExBurn.Case, async: true

  alias ExBurn.NIF

  # Programs of one scalar with no, one, two … programs inside each other.
  defp nested_programs do
    scalar = %{dtype: :f32, shape: []}
    leaf = %{inputs: [scalar], instructions: [], outputs: [0]}

    Stream.iterate(leaf, fn inner ->
      op = {:cond, %{predicates: [leaf], branches: [inner, leaf]}}
      %{leaf | instructions: [%{op: op, inputs: [0], outputs: [scalar]}], outputs: [1]}
    end)
  end

  defp tensor(list), do: ExBurn.Backend.ref(Nx.tensor(list, backend: Nx.BinaryBackend))

  test "a panic is an error with the panic's message" do
    assert {:error, {:panic, %{op: "panic_with", message: "all is lost"}}} =
             NIF.panic_with("all is lost")

    assert_raise Error, "panic_with: all is lost", fn ->
      Error.unwrap!(NIF.panic_with("all is lost"))
    end
  end

  test "operations that make no sense are errors" do
    x = tensor([1.0, 2.0])

    for {op, inputs, outputs} <- [
          {:no_such_op, [x], [{:f32, [2]}]},
          {{:unary, :no_such_function}, [x], [{:f32, [2]}]},
          {{:unary, :exp}, [x], [{:f32, [3]}]},
          {{:unary, :exp}, [x], []},
          {{:unary, :exp}, [], [{:f32, [2]}]},
          {{:unary, :exp}, [x, x], [{:f32, [2]}]},
          {{:binary, :add}, [x, tensor([1.0, 2.0, 3.0])], [{:f32, [2]}]},
          {:unary, [x], [{:f32, [2]}]},
          {{:reduce, %{fold: :sum}}, [x], [{:f32, []}]},
          {{:reduce, %{fold: :sum, axes: [7], keep_axes: false}}, [x], [{:f32, []}]},
          {{:transpose, %{axes: [0, 0]}}, [x], [{:f32, [2]}]},
          {{:slice, %{starts: [5], lengths: [2], strides: [1]}}, [x], [{:f32, [2]}]},
          {{:slice, %{starts: [0], lengths: [2], strides: [0]}}, [x], [{:f32, [2]}]},
          {{:constant, %{bytes: [1]}}, [], [{:f32, [2]}]},
          {{:iota, %{axis: 4}}, [], [{:f32, [2]}]},
          {{:iota, %{axis: nil}}, [], [{:f32, [4_294_967_296, 4_294_967_296, 4_294_967_296]}]},
          {:eye, [], [{:u8, [2 ** 53, 0]}]},
          {:eye, [], [{:u8, [0, 2 ** 53, 2]}]},
          {:reshape, [x], [{:f32, [3]}]},
          {{:dot, %{lhs_contract: [0], lhs_batch: [], rhs_contract: [], rhs_batch: []}}, [x, x],
           [{:f32, []}]}
        ] do
      assert {:error, {_kind, %{message: message}}} = NIF.instruction_run(op, inputs, outputs)
      assert is_binary(message)
    end
  end

  test "a tensor larger than the machine's memory is an error, not the end of the VM" do
    elements = div(ExBurn.Device.memory(:cpu).total || 2 ** 62, 4) + 1
    zero = {:constant, %{bytes: [0, 0, 0, 0]}}

    assert {:error, {:invalid, %{message: message}}} =
             NIF.instruction_run(zero, [], [{:f32, [elements]}])

    assert message == "constant: f32[#{elements}] is larger than memory"

    assert {:error, {:invalid, %{message: message}}} =
             NIF.instruction_run({:iota, %{axis: nil}}, [], [{:u8, [elements]}])

    assert message =~ "iota: s64[#{elements}], which counts its elements, is larger than memory"
  end

  test "terms that are no tensors, types or shapes are argument errors" do
    assert_raise ArgumentError, fn ->
      NIF.instruction_run({:unary, :exp}, [make_ref()], [{:f32, [2]}])
    end

    assert_raise ArgumentError, fn -> NIF.instruction_run({:unary, :exp}, [], [{:f33, [2]}]) end
    assert_raise ArgumentError, fn -> NIF.instruction_run({:unary, :exp}, [], [{:f32, [-1]}]) end
  end

  test "improper lists are refused wherever they stand" do
    x = tensor([1.0, 2.0])
    out = {:f32, [2]}

    assert {:error, {:invalid, _}} =
             NIF.instruction_run({:transpose, %{axes: [0 | 1]}}, [x], [out])

    for call <- [
          fn -> NIF.instruction_run({:unary, :exp}, [x | x], [out]) end,
          fn -> NIF.instruction_run({:unary, :exp}, [x], [out | out]) end,
          fn -> NIF.instruction_run({:unary, :exp}, [x], [{:f32, [2 | 3]}]) end,
          fn -> NIF.template_any([{1, %{}} | :end]) end
        ] do
      assert_raise ArgumentError, call
    end
  end

  test "programs are checked" do
    f32 = %{dtype: :f32, shape: [2]}
    instruction = %{op: {:unary, :exp}, inputs: [0], outputs: [f32]}
    program = %{inputs: [f32], instructions: [instruction], outputs: [1]}
    assert {:ok, _} = NIF.program_new(program, [], [])

    for broken <- [
          %{program | outputs: [2]},
          %{program | instructions: [%{instruction | inputs: [1]}]},
          %{
            program
            | inputs: [%{dtype: :f32, shape: [1_000_000_000, 1_000_000_000, 1_000_000_000]}]
          },
          Map.delete(program, :outputs),
          :nonsense
        ] do
      assert {:error, {:invalid, %{reason: _}}} = NIF.program_new(broken, [], [])
    end
  end

  test "programs nested too deep for a stack are refused" do
    assert {:ok, program} = NIF.program_new(Enum.at(nested_programs(), 63), [], [])
    assert {:ok, [_]} = NIF.program_run(program, [tensor(1.0)], [])
    assert {:ok, text} = NIF.program_text(program)
    assert length(String.split(text, "cond(")) == 64

    assert {:error, {:invalid, %{reason: "nested deeper than 64 levels"}}} =
             NIF.program_new(Enum.at(nested_programs(), 65), [], [])

    assert {:error, {:invalid, %{reason: "nested deeper than 396 levels" <> _}}} =
             NIF.program_new(Enum.at(nested_programs(), 5000), [], [])
  end

  test "terms nested too deep for a stack are refused wherever they stand" do
    nested = Enum.reduce(1..1_000_000, [], fn _, inner -> [inner] end)
    reduce = %{fold: :sum, axes: nil, keep_axes: false}

    for {levels, call} <- [
          {127,
           fn ->
             NIF.instruction_run({:reduce, Map.put(reduce, :no_such_field, nested)}, [], [])
           end},
          {127, fn -> NIF.manifest_to_json(%{no_such_field: nested}) end},
          {396, fn -> NIF.program_new(%{no_such_field: nested}, [], []) end}
        ] do
      reason = "nested deeper than #{levels} levels"
      assert {:error, {:invalid, %{reason: ^reason}}} = call.()
    end
  end

  test "what is nested too deep for a file is not written to one" do
    written =
      for depth <- 0..30 do
        {:ok, program} = NIF.program_new(Enum.at(nested_programs(), depth), [], [])

        with {:ok, json} <- NIF.program_to_json(program),
             do: assert({:ok, _} = NIF.program_from_json(json, []))
      end

    assert Enum.count(written, &match?({:ok, _}, &1)) == 21
    assert {:error, {:invalid, %{reason: "recursion limit" <> _}}} = List.last(written)
  end

  test "a run goes on after a call once" do
    f32 = %{dtype: :f32, shape: []}
    call = %{op: {:runtime_call, %{id: 3}}, inputs: [0], outputs: [f32]}
    {:ok, program} = NIF.program_new(%{inputs: [f32], instructions: [call], outputs: [1]}, [], [])
    x = tensor(1.0)

    for {run, resume} <- [
          {&NIF.program_run/3, &NIF.program_resume/2},
          {&NIF.program_run_dirty/3, &NIF.program_resume_dirty/2}
        ] do
      assert {:ok, {:call, 3, [_], continuation}} = run.(program, [x], [])
      assert {:ok, [_]} = resume.(continuation, [x])
      assert {:error, {:invalid, %{reason: reason}}} = resume.(continuation, [x])
      assert reason == "has gone on after this call already"

      # A mistake ends the run.
      assert {:ok, {:call, 3, [_], continuation}} = run.(program, [x], [])
      assert {:error, {:invalid, _}} = resume.(continuation, [])
      assert {:error, {:invalid, %{reason: ^reason}}} = resume.(continuation, [x])
      assert {:ok, {:call, 3, [_], continuation}} = run.(program, [x], [])
      assert {:error, {:mismatch, _}} = resume.(continuation, [tensor([1.0])])
      assert_raise ArgumentError, fn -> resume.(program, [x]) end
    end
  end

  test "a program is brief once its runs were, but not one that takes as long as its operands say" do
    f32 = %{dtype: :f32, shape: []}
    program = fn op -> %{inputs: [f32], instructions: [op], outputs: [1]} end
    doubled = %{op: {:binary, :add}, inputs: [0, 0], outputs: [f32]}
    {:ok, steady} = NIF.program_new(program.(doubled), [], [])
    branch = %{inputs: [f32], instructions: [doubled], outputs: [1]}
    positive = %{op: {:binary, :greater}, inputs: [0, 0], outputs: [%{dtype: :u8, shape: []}]}
    predicate = %{inputs: [f32], instructions: [positive], outputs: [1]}
    cond = {:cond, %{predicates: [predicate], branches: [branch, branch]}}
    choosing = %{op: cond, inputs: [0], outputs: [f32]}
    {:ok, choosing} = NIF.program_new(program.(choosing), [], [])

    for program <- [steady, choosing], do: refute(NIF.program_is_brief(program))
    for _ <- 1..7, do: {:ok, _} = NIF.program_run_dirty(steady, [tensor(1.0)], [])
    refute NIF.program_is_brief(steady)

    # Other work on the machine can make some of the runs long.
    for program <- [steady, choosing],
        _ <- 1..1000,
        do: {:ok, _} = NIF.program_run(program, [tensor(1.0)], [])

    assert NIF.program_is_brief(steady)
    refute NIF.program_is_brief(choosing)
  end

  test "a program refuses inputs of other types" do
    f32 = %{dtype: :f32, shape: [2]}
    {:ok, program} = NIF.program_new(%{inputs: [f32], instructions: [], outputs: [0]}, [], [])

    assert {:error, {:mismatch, %{expected: {"f32", [2]}, got: {"f32", [3]}}}} =
             NIF.program_run(program, [tensor([1.0, 2.0, 3.0])], [])

    assert {:error, {:invalid, _}} = NIF.program_run(program, [], [])
  end
end
