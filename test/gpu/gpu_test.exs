defmodule ExBurn.GPUTest do
  @moduledoc """
  Tensors and programs on a GPU against the CPU, with `EX_BURN_TEST_DEVICE=gpu`.
  """

  use ExUnit.Case, async: false

  import ExBurn.TestDevice
  import ExUnit.CaptureLog

  alias ExBurn.{Backend, Error}
  alias ExBurn.Defn.Compiler

  @moduletag skip: skip()

  setup do
    on_exit(fn -> ExBurn.Fallback.set!(:cpu) end)
    {:ok, device: ExBurn.Device.validate!(gpu())}
  end

  defp random(shape, seed) do
    {t, _key} = Nx.Random.uniform(Nx.Random.key(seed), -2.0, 2.0, shape: shape)
    t |> Nx.backend_transfer(Backend)
  end

  defp on_gpu(t), do: Nx.backend_copy(t, {Backend, device: gpu()})

  # Of operands on `Nx.BinaryBackend`, whose answers are expected to the last bit.
  defp assert_compiled(fun, operands) do
    expected = Nx.Defn.jit_apply(fun, operands, compiler: Nx.Defn.Evaluator)
    operands = Enum.map(operands, &on_gpu/1)
    result = Nx.Defn.jit_apply(fun, operands, compiler: Compiler, device: gpu())
    assert Nx.to_flat_list(result) == Nx.to_flat_list(expected)
  end

  # Within so many units of the last place of the largest element.
  defp assert_near(left, right, units \\ 8) do
    [left, right] = for t <- [left, right], do: Nx.backend_copy(t, Nx.BinaryBackend)
    scale = right |> Nx.abs() |> Nx.reduce_max() |> Nx.to_number()
    error = left |> Nx.subtract(right) |> Nx.abs() |> Nx.reduce_max() |> Nx.to_number()
    assert error <= units * 1.2e-7 * scale
  end

  defp small,
    do: Axon.input("x", shape: {nil, 3}) |> Axon.dense(8, activation: :tanh) |> Axon.dense(2)

  # What runs on the CPU instead while `fun` runs.
  defp fallbacks(fun) do
    me = self()
    name = {__MODULE__, make_ref()}
    tell = fn _event, measured, metadata, _ -> send(me, {name, metadata.op, measured.count}) end
    :telemetry.attach(name, [:ex_burn, :fallback], tell, nil)
    result = fun.()
    :telemetry.detach(name)
    {result, drain(name)}
  end

  defp drain(name) do
    receive do
      {^name, op, count} -> [{op, count} | drain(name)]
    after
      0 -> []
    end
  end

  test "GPUs are listed, named and described", %{device: {kind, index} = device} do
    assert device in ExBurn.devices()
    assert ExBurn.gpu?()
    assert %{kind: ^kind, index: ^index, name: name, largest: largest} = ExBurn.device_info(gpu())
    assert String.length(name) > 0
    assert largest > 1_000_000
    assert ExBurn.smoke_test()[device] == :ok

    assert_raise Error, ~r/^device: there is no device {:vulkan, 99}; devices are/, fn ->
      Nx.tensor(1, backend: {Backend, device: {:vulkan, 99}})
    end
  end

  test "a tensor goes to a GPU and comes back, of any type", %{device: device} do
    for type <- ExBurn.Type.all() do
      t = Nx.tensor([0, 1, 1, 0, 1], type: type, backend: Nx.BinaryBackend)
      there = Nx.backend_copy(t, {Backend, device: gpu()})
      assert there.data.device == device
      assert Nx.to_binary(there) == Nx.to_binary(t)
      assert there |> Nx.backend_transfer(Nx.BinaryBackend) |> Nx.to_binary() == Nx.to_binary(t)
    end
  end

  test "operations run where an operand is, eager ones and compiled ones", %{device: device} do
    x = random({5, 7}, 1)
    there = on_gpu(x)
    fun = &Nx.tanh(Nx.add(Nx.multiply(&1, 3), Nx.exp(Nx.negate(&1))))

    for run <- [fun, &Nx.Defn.jit_apply(fun, [&1], compiler: Compiler)] do
      {result, helped} = fallbacks(fn -> run.(there) end)
      assert result.data.device == device
      assert helped == []
      assert_near(result, run.(x))
    end

    asked = Nx.Defn.jit_apply(fun, [x], compiler: Compiler, device: gpu())
    assert asked.data.device == device
    assert_near(asked, fun.(x))
  end

  test "what an Axon model does needs no CPU" do
    model =
      Axon.input("x", shape: {nil, 12, 12, 1})
      |> Axon.conv(4, kernel_size: 3, activation: :relu)
      |> Axon.max_pool(kernel_size: 2)
      |> Axon.flatten()
      |> Axon.dense(16, activation: :gelu)
      |> Axon.layer_norm()
      |> Axon.dense(5, activation: :softmax)

    {init, predict} = Axon.build(model, compiler: Compiler)
    x = random({3, 12, 12, 1}, 2)
    state = init.(Nx.to_template(x), Axon.ModelState.empty())
    expected = predict.(state, x)

    {result, helped} =
      fallbacks(fn ->
        Nx.Defn.jit_apply(predict, [state, x], compiler: Compiler, device: gpu())
      end)

    assert helped == []
    assert_near(result, expected, 64)
  end

  test "a model predicts on a GPU as on the CPU", %{device: device} do
    model = ExBurn.compile(small(), loss: :mse, seed: 1, device: :cpu)
    there = ExBurn.to_device(model, gpu())
    assert there.device == device
    x = random({5, 3}, 8)
    {:ok, expected} = ExBurn.predict(model, x)
    {{:ok, result}, helped} = fallbacks(fn -> ExBurn.predict(there, x) end)
    assert result.data.device == device
    assert helped == []
    assert_near(result, expected, 32)
  end

  test "memory of a GPU is counted" do
    before = ExBurn.memory_info(gpu())
    t = on_gpu(Nx.iota({1000, 1000}, type: :f32, backend: Backend))
    held = ExBurn.memory_info(gpu())
    assert held.in_use >= before.in_use + 4_000_000
    assert held.reserved >= held.in_use
    Nx.backend_deallocate(t)
    assert ExBurn.Device.release_memory(gpu()).in_use <= held.in_use - 4_000_000
  end

  test "loops, branches and hooks run on a GPU as on the CPU" do
    me = self()

    fun = fn x ->
      {x, _i} = ExBurn.GPUTest.Loops.halve(x)
      Nx.Defn.Kernel.hook(x, :last, &send(me, {:last, Nx.to_flat_list(&1)}))
    end

    x = random({4}, 3)
    expected = Nx.Defn.jit_apply(fun, [x], compiler: Compiler)
    assert_received {:last, on_cpu}
    result = Nx.Defn.jit_apply(fun, [on_gpu(x)], compiler: Compiler)
    assert_received {:last, ^on_cpu}
    assert Nx.to_flat_list(result) == Nx.to_flat_list(expected)
  end

  test "halves and whole numbers of 32 bits need no CPU" do
    for type <- [:f16, :bf16] do
      x = Nx.as_type(random({40}, 9), type)
      fun = fn x -> x |> Nx.max(0) |> Nx.multiply(Nx.iota({40}, type: :s32)) |> Nx.divide(3) end

      for run <- [fun, &Nx.Defn.jit_apply(fun, [&1], compiler: Compiler)] do
        {result, helped} = fallbacks(fn -> run.(on_gpu(x)) end)
        assert helped == []
        assert Nx.to_binary(result) == Nx.to_binary(fun.(x))
      end
    end
  end

  test "numbers of 64 bits stay with the host, and their operations are told" do
    t = Nx.tensor([1, 2, 3], type: :s64, backend: {Backend, device: gpu()})
    {sum, helped} = fallbacks(fn -> Nx.add(t, t) end)
    assert Nx.to_flat_list(sum) == [2, 4, 6]
    assert helped == [{"add", 1}]
  end

  test "updates of 64 bits keep their digits" do
    t = Nx.tensor([1, 2, 3], type: :s64)
    indices = Nx.tensor([[1], [1]], type: :s64)
    updates = Nx.tensor([2 ** 40, 5], type: :s64)
    added = Nx.indexed_add(on_gpu(t), on_gpu(indices), on_gpu(updates))
    assert Nx.to_flat_list(added) == [1, 2 ** 40 + 7, 3]
    put = Nx.put_slice(on_gpu(t), [on_gpu(Nx.tensor(1))], on_gpu(updates))
    assert Nx.to_flat_list(put) == [1, 2 ** 40, 5]
  end

  test "rows of 64 bits that repeat are folded" do
    fun = fn t -> Nx.equal(t, Nx.reduce_min(t, axes: [2], keep_axes: true)) end
    count = fn -> fun.(Nx.iota({1, 3, 2}, axis: 2, type: :s64)) end
    result = Nx.Defn.jit_apply(count, [], compiler: Compiler, device: gpu())
    assert Nx.to_flat_list(result) == [1, 0, 1, 0, 1, 0]
  end

  test "rows that repeat become numbers of 64 bits" do
    rows = Nx.iota({5, 4}, type: :s32, backend: Nx.BinaryBackend)
    row = Nx.tensor([1, 2, 3, 4], type: :s32, backend: Nx.BinaryBackend)

    for type <- [:f64, :s64, :u64] do
      rows = Nx.as_type(rows, type)

      for {fun, operands} <- [
            {fn t, r -> Nx.add(Nx.as_type(Nx.broadcast(r, {5, 4}), type), t) end, [rows, row]},
            {fn t -> Nx.subtract(Nx.as_type(Nx.iota({5, 4}, axis: 1, type: :s32), type), t) end,
             [rows]},
            {fn t, r ->
               r = Nx.broadcast(r, {5, 4})
               Nx.select(Nx.equal(r, 1), r, t)
             end, [rows, Nx.as_type(row, type)]},
            {fn t ->
               count = Nx.iota({2, 1, 1}, axis: 2, type: type)
               Nx.multiply(Nx.subtract(count, Nx.mean(count, axes: [2], keep_axes: true)), t)
             end, [Nx.reshape(rows[[0..1, 0]], {2, 1, 1})]}
          ] do
        assert_compiled(fun, operands)
      end
    end
  end

  test "what is one for each row, or one in all, is folded as often as rows repeat it" do
    rows = Nx.iota({5, 4}, type: :s32, backend: Nx.BinaryBackend)
    sum = fn t -> Nx.sum(Nx.broadcast(t, {5, 4}), axes: [1], keep_axes: true) end

    for type <- [:f64, :s64, :u64, :f32],
        small <- [Nx.iota({5, 1}), Nx.tensor([[3]]), Nx.tensor(3), Nx.iota({1, 4})],
        fun <- [
          fn t, s -> Nx.add(t, sum.(s)) end,
          fn t, s -> Nx.multiply(sum.(s), sum.(Nx.multiply(t, s))) end,
          fn t, s -> Nx.subtract(Nx.as_type(t, :s64), sum.(Nx.as_type(s, :s64))) end
        ] do
      operands = [Nx.as_type(rows, type), Nx.as_type(small, type)]
      assert_compiled(fun, Enum.map(operands, &Nx.backend_copy(&1, Nx.BinaryBackend)))
    end
  end

  test "what has no kernel can be refused", %{device: device} do
    t = Nx.tensor([2.0], backend: {Backend, device: gpu()})
    assert_near(Nx.acosh(t), Nx.acosh(Nx.backend_copy(t, Nx.BinaryBackend)))
    ExBurn.configure!(fallback: :raise)

    message = ~r/^acosh: has no kernel for f32 on #{elem(device, 0)}/
    assert_raise Error, message, fn -> Nx.acosh(t) end
    assert Nx.to_flat_list(Nx.add(t, 1.0)) == [3.0]

    # The type that the GPU lacks, which is not that of the result.
    wide = Nx.tensor([2.0, 3.0], type: :f64, backend: {Backend, device: gpu()})

    for {name, fun} <- [
          argmax: &Nx.argmax/1,
          as_type: &Nx.as_type(&1, :f32),
          less: &Nx.less(&1, 2)
        ] do
      assert_raise Error, ~r/^#{name}: has no kernel for f64 on/, fn -> fun.(wide) end
    end

    ExBurn.configure!(fallback: :cpu)
    assert [number] = t |> Nx.acosh() |> Nx.to_flat_list()
    assert_in_delta number, 1.3169578969, 1.0e-6
  end

  test "what fails on a GPU is tried on the CPU", %{device: device} do
    Application.put_env(:ex_burn, :device, gpu())
    on_exit(fn -> Application.delete_env(:ex_burn, :device) end)
    ExBurn.configure!(fallback: :raise)
    me = self()

    fun = fn device ->
      t = Nx.tensor([2.0])
      send(me, {:tried, device, t.data.device})
      t |> Nx.acosh() |> Nx.to_flat_list()
    end

    log = capture_log(fn -> assert [_number] = ExBurn.try_with_fallback(fun) end)
    assert log =~ "failed, trying the next device: acosh: has no kernel"
    assert_received {:tried, ^device, ^device}
    assert_received {:tried, :cpu, :cpu}
  end

  test "what names no device is tried on the CPU too", %{device: device} do
    Application.put_env(:ex_burn, :device, gpu())
    on_exit(fn -> Application.delete_env(:ex_burn, :device) end)
    ExBurn.configure!(fallback: :raise)
    fun = fn -> Nx.Defn.jit_apply(&Nx.acosh/1, [2.0], compiler: Compiler) end
    assert ExBurn.Device.default() == device

    capture_log(fn ->
      assert %{data: %{device: :cpu}} = ExBurn.try_with_fallback(fun)
    end)

    assert ExBurn.Device.default() == device
  end

  test "a transfer to another device gives the original up", %{device: device} do
    there = Nx.tensor([1.0, 2.0], backend: {Backend, device: gpu()})
    back = Nx.backend_transfer(there, {Backend, device: :cpu})
    assert back.data.device == :cpu
    assert Nx.to_flat_list(back) == [1.0, 2.0]
    assert_raise Error, ~r/freed|deallocated/, fn -> Nx.to_flat_list(there) end
    again = Nx.backend_transfer(back, {Backend, device: device})
    assert_raise Error, ~r/freed|deallocated/, fn -> Nx.to_flat_list(back) end

    # To where it is already, and numbers of 64 bits, which stay in the host's memory.
    assert Nx.backend_transfer(again, {Backend, device: device}) == again
    assert Nx.to_flat_list(again) == [1.0, 2.0]
    wide = Nx.tensor([1, 2], type: :s64, backend: {Backend, device: gpu()})
    assert wide |> Nx.backend_transfer({Backend, device: :cpu}) |> Nx.to_flat_list() == [1, 2]
  end

  test "random numbers are those of the CPU" do
    draw = fn ->
      key = Nx.Random.key(42)
      {uniform, key} = Nx.Random.uniform(key, shape: {100})
      {normal, key} = Nx.Random.normal(key, shape: {100})
      {gumbel, _key} = Nx.Random.gumbel(key, shape: {100})
      {uniform, normal, gumbel}
    end

    there = Nx.with_default_backend({Backend, device: gpu()}, draw)
    here = Nx.with_default_backend(Backend, draw)

    assert Nx.to_binary(elem(there, 0)) == Nx.to_binary(elem(here, 0))
    assert_near(elem(there, 1), elem(here, 1), 4)
    assert_near(elem(there, 2), elem(here, 2), 4)
  end

  test "random bits of compiled functions are those of the CPU, without a loop" do
    key = Nx.with_default_backend(Nx.BinaryBackend, fn -> Nx.Random.key(42) end)

    draws = [
      &Nx.Random.split(&1, parts: 5),
      &elem(Nx.Random.uniform(&1, shape: {101}), 0),
      &elem(Nx.Random.uniform(&1, shape: {6, 5}, type: :f16), 0),
      &elem(Nx.Random.uniform(&1, shape: {33}, type: :bf16), 0),
      &elem(Nx.Random.randint(&1, -7, 90, shape: {40}, type: :u16), 0)
    ]

    for draw <- draws do
      assert_compiled(draw, [key])
      refute ExBurn.explain(draw, [key]) =~ "while"
    end
  end

  test "factors make the matrix" do
    a = random({4, 4}, 5)
    {p, l, u} = Nx.LinAlg.lu(on_gpu(a))
    assert_near(p |> Nx.dot(l) |> Nx.dot(u), a, 32)
    cube = Nx.LinAlg.matrix_power(on_gpu(a), 3)
    assert_near(cube, a |> Nx.dot(a) |> Nx.dot(a), 32)
    b = random({4}, 6)
    solution = Nx.LinAlg.least_squares(on_gpu(a), on_gpu(b))
    assert_near(Nx.dot(a, solution), b, 4096)
  end

  test "many processes share a GPU" do
    x = random({64}, 7)
    expected = Nx.to_flat_list(Nx.sort(Nx.multiply(x, 2)))

    results =
      1..40
      |> Task.async_stream(fn _ -> Nx.to_flat_list(Nx.sort(Nx.multiply(on_gpu(x), 2))) end)
      |> Enum.map(fn {:ok, result} -> result end)

    assert Enum.all?(results, &(&1 == expected))
  end

  defmodule Loops do
    import Nx.Defn

    defn halve(x) do
      while {x, i = 0}, i < 5 do
        x = if Nx.sum(x) > 0, do: x / 2, else: x * 2
        {x, i + 1}
      end
    end
  end
end
