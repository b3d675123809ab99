defmodule ExBurn.Serving do
  @moduledoc """
  Serves a model to many callers with `Nx.Serving`.

      serving = ExBurn.Serving.build(model, batch_size: [1, 8, 32], batch_timeout: 10)
      ExBurn.Serving.run(serving, input)

      children = [{Nx.Serving, serving: serving, name: MyServing}]
      Nx.Serving.batched_run(MyServing, input)

  Requests that arrive together run as one batch, filled up with zeros to the next of the sizes in `:batch_size`. Each
  caller gets the rows of its own request. A compiled model and a loaded one are served alike.
  """

  alias ExBurn.{Error, Model, Options}
  alias ExBurn.Model.Input

  @doc """
  An ordinary `Nx.Serving` of a model.

  Its input is what `ExBurn.predict/2` takes, checked in the calling process, or an `Nx.Batch`.

  ## Options

    * `:batch_size` - the largest batch, or a list of sizes; a batch runs at the smallest size that holds it. Programs are
      prepared for these sizes now. Defaults to 32
    * `:batch_timeout` - how long a request waits for others, in milliseconds. Defaults to 100
    * `:device` - where the model runs, see `ExBurn.Device`; one that isn't there is an `ExBurn.Error`. Defaults to where
      the model is

  ## Examples

      iex> axon = Axon.input("x", shape: {nil, 2}) |> Axon.nx(&Nx.sum(&1, axes: [1]))
      iex> serving = axon |> ExBurn.compile() |> ExBurn.Serving.build(batch_size: [1, 4])
      iex> serving |> ExBurn.Serving.run(Nx.tensor([[1.0, 2.0], [3.0, 4.0]])) |> Nx.to_list()
      [3.0, 7.0]

  """
  @spec build(Model.t(), keyword()) :: Nx.Serving.t()
  def build(%Model{} = model, opts \\ []) do
    opts = Options.validate!(:serving, opts, batch_size: 32, batch_timeout: 100, device: nil)
    model = if opts[:device], do: Model.to_device(model, opts[:device]), else: model
    sizes = sizes!(opts[:batch_size])
    timeout!(opts[:batch_timeout])
    Enum.each(sizes, &Model.Forward.executable(model, &1))

    fn _defn_options -> &run_batch(model, sizes, &1) end
    |> Nx.Serving.new()
    |> Nx.Serving.batch_size(List.last(sizes))
    |> Nx.Serving.process_options(batch_timeout: opts[:batch_timeout])
    |> Nx.Serving.client_preprocessing(&{to_batch(model, &1), :ok})
  end

  defp sizes!(sizes) do
    list = List.wrap(sizes)
    valid? = list != [] and Enum.all?(list, &(is_integer(&1) and &1 > 0))
    Options.check!(valid?, :serving, :batch_size, sizes, "a positive integer or a list of them")
    list |> Enum.uniq() |> Enum.sort()
  end

  defp timeout!(timeout) do
    valid? = is_integer(timeout) and timeout >= 0
    Options.check!(valid?, :serving, :batch_timeout, timeout, "milliseconds as an integer")
  end

  defp to_batch(_model, %Nx.Batch{} = batch), do: batch

  defp to_batch(model, input) do
    {tensors, _batch} = Input.check!(:serving, model.inputs, input)
    names = Enum.map(model.inputs, &elem(&1, 0))
    Nx.Batch.concatenate([names |> Enum.zip(tensors) |> Map.new()])
  end

  # The batch is put together here rather than by a program, which would be another one for each mix of requests.
  defp run_batch(model, sizes, %Nx.Batch{size: size} = batch) do
    compiled = Enum.find(sizes, List.last(sizes), &(&1 >= size))
    batch = Nx.Batch.pad(batch, max(compiled - size, 0))

    {input, :ok} =
      Nx.LazyContainer.traverse(batch, :ok, fn _template, fun, :ok -> {fun.(), :ok} end)

    Model.Predict.predict!(model, input)
  end

  @doc """
  Runs a serving in the calling process, without waiting for other requests.

  ## Examples

      iex> axon = Axon.input("x", shape: {nil, 2}) |> Axon.nx(&Nx.multiply(&1, 2))
      iex> serving = axon |> ExBurn.compile() |> ExBurn.Serving.build()
      iex> serving |> ExBurn.Serving.run(Nx.tensor([[1.0, 2.0]])) |> Nx.to_list()
      [[2.0, 4.0]]

  """
  @spec run(Nx.Serving.t(), term()) :: Nx.Container.t()
  def run(%Nx.Serving{} = serving, input), do: Nx.Serving.run(serving, input)

  @doc """
  Starts a serving process under a supervisor, for `Nx.Serving.batched_run/2`.

  ## Options

    * `:name` - name of the serving. Required
    * `:supervisor` - a `DynamicSupervisor` that starts and restarts it. Without one it is linked to the caller
    * those of `build/2`, when a model is given rather than a serving

  ## Examples

      iex> axon = Axon.input("x", shape: {nil, 1}) |> Axon.nx(&Nx.add(&1, 1))
      iex> {:ok, supervisor} = DynamicSupervisor.start_link([])
      iex> {:ok, _pid} = axon |> ExBurn.compile() |> ExBurn.Serving.supervise(name: Plus, supervisor: supervisor)
      iex> Plus |> Nx.Serving.batched_run(Nx.tensor([[1.0], [2.0]])) |> Nx.to_list()
      [[2.0], [3.0]]

  """
  @spec supervise(Model.t() | Nx.Serving.t(), keyword()) :: {:ok, pid()} | {:error, term()}
  def supervise(model, opts) do
    {own, opts} = Keyword.split(opts, [:name, :supervisor])
    name = own[:name]
    Options.check!(is_atom(name) and name != nil, :serving, :name, name, "an atom")
    start(own[:supervisor], serving: serving!(model, opts), name: name)
  end

  defp serving!(%Model{} = model, opts), do: build(model, opts)

  defp serving!(%Nx.Serving{} = serving, opts) do
    Options.validate!(:serving, opts, [])
    serving
  end

  defp serving!(other, _opts) do
    raise Error,
      op: :serving,
      reason: "got #{Options.short(other)}, expected an %ExBurn.Model{} or an %Nx.Serving{}"
  end

  defp start(nil, opts), do: Nx.Serving.start_link(opts)
  defp start(supervisor, opts), do: DynamicSupervisor.start_child(supervisor, {Nx.Serving, opts})
end
