defmodule ExBurn.Defn.Artifact do
  @moduledoc """
  A translated function in a file, for the option `cache: "path"`.

  The file holds the program, the tensors in it and the form of the answer, as data: reading it makes no atoms and runs no
  code. It also holds what it was made for, and is used for that only; otherwise, and when it is damaged, the function is
  translated anew and the file replaced, with a warning. A path is for one function with one set of argument types.
  """

  alias ExBurn.Defn.Key
  alias Nx.Tensor, as: T

  require Logger

  @magic "ExBurn program 1\n"

  @doc """
  What a file has to be made for, to be used for this function.
  """
  @spec facts(term(), [Nx.Container.t()], keyword(), [String.t()]) :: map()
  def facts(fun, vars, opts, disabled) do
    %{
      function: Key.digest(fun),
      arguments: Key.digest(Key.types(vars)),
      hooks: Key.hooks(opts),
      passes: disabled,
      versions: Enum.map([:ex_burn, :nx], &to_string(Application.spec(&1, :vsn)))
    }
  end

  @doc """
  What `prepare` makes of what the file at `path` holds, if it was made for `facts` and `prepare` takes it; `:error`
  otherwise.
  """
  @spec read(Path.t(), map(), (map() -> {:ok, prepared} | :error)) :: prepared | :error
        when prepared: term()
  def read(path, facts, prepare) do
    case File.read(path) do
      {:ok, bytes} -> use_bytes(path, bytes, facts, prepare)
      {:error, :enoent} -> :error
      {:error, reason} -> warn(path, :file.format_error(reason))
    end
  end

  # Whatever a file holds, it is no reason to fail.
  defp use_bytes(path, bytes, facts, prepare) do
    with {:ok, {found, lowered}} <- decode(bytes),
         :ok <- same(found, facts),
         {:ok, prepared} <- prepare.(%{lowered | captures: Enum.map(lowered.captures, &tensor/1)}) do
      prepared
    else
      {:error, reason} -> warn(path, reason)
      :error -> warn(path, "it takes and answers other tensors")
    end
  rescue
    error -> warn(path, Exception.message(error))
  end

  defp warn(path, reason) do
    Logger.warning("ExBurn compiles anew, since #{path} cannot be used: #{reason}")
    :error
  end

  defp decode(<<@magic, digest::binary-size(32), body::binary>>) do
    if :crypto.hash(:sha256, body) == digest, do: term(body), else: {:error, "it is damaged"}
  end

  defp decode(_bytes), do: {:error, "it is not a program of this version of ExBurn"}

  # The names of operations are atoms of modules that may not be loaded yet.
  defp term(body) do
    {:ok, modules} = :application.get_key(:ex_burn, :modules)
    Enum.each(modules, &Code.ensure_loaded/1)

    case :erlang.binary_to_term(body, [:safe]) do
      {%{}, %{captures: _, output: _, program: _} = lowered} = term ->
        cond do
          function?(term) -> {:error, "it holds functions"}
          runs?(lowered) -> {:ok, term}
          true -> {:error, "it holds something else"}
        end

      _ ->
        {:error, "it holds something else"}
    end
  rescue
    ArgumentError -> {:error, "it names what this VM does not know"}
  end

  # Whether what Elixir reads of it at a run is what it can read there.
  defp runs?(%{used: used, calls: calls, cost: cost, fused_cost: fused})
       when is_list(used) and is_list(calls) do
    # Nobody knows how long a loop takes.
    Enum.all?([cost, fused], &(is_number(&1) or &1 == :infinity)) and
      used == Enum.filter(Enum.uniq(Enum.sort(used)), &(is_integer(&1) and &1 >= 0)) and
      Enum.all?(calls, &match?({:hook, {:named, _name, nil}, _template}, &1))
  end

  defp runs?(_lowered), do: false

  defp same(facts, facts), do: :ok

  defp same(found, facts) do
    other = for {name, value} <- facts, found[name] != value, do: "#{name}"
    {:error, "it was made for other #{Enum.join(other, ", ")}"}
  end

  @doc """
  Replaces the file at `path`, in one step.

  What calls back into Elixir cannot be written, and is left out with a warning; so is what the system refuses.
  """
  @spec write(Path.t(), map(), map()) :: :ok
  def write(path, facts, lowered) do
    lowered = %{lowered | captures: Enum.map(lowered.captures, &data/1)}

    if function?(lowered) do
      Logger.warning("ExBurn does not write #{path}: the program calls functions of Elixir")
    else
      body = :erlang.term_to_binary({facts, lowered}, [:deterministic])
      replace(path, [@magic, :crypto.hash(:sha256, body), body])
    end
  end

  defp replace(path, bytes) do
    beside = "#{path}.#{System.pid()}-#{System.unique_integer([:positive])}"

    with :ok <- File.mkdir_p(Path.dirname(path)),
         :ok <- File.write(beside, bytes),
         :ok <- File.rename(beside, path) do
      :ok
    else
      {:error, reason} ->
        File.rm(beside)
        Logger.warning("ExBurn cannot write #{path}: #{:file.format_error(reason)}")
    end
  end

  defp data(%T{} = t), do: {t.type, t.shape, Nx.to_binary(t)}

  # Elements of 2 and 4 bits may end within a byte, which Nx.from_binary/3 does not take.
  defp tensor({{_, size} = type, shape, bits}) do
    template = Nx.template(shape, type)

    if bit_size(bits) != Nx.size(template) * size,
      do: raise(ArgumentError, "a tensor in it has another size than its type")

    %{template | data: %Nx.BinaryBackend{state: bits}}
  end

  defp function?(term) when is_function(term), do: true
  defp function?([head | tail]), do: function?(head) or function?(tail)
  defp function?(term) when is_tuple(term), do: term |> Tuple.to_list() |> function?()
  defp function?(term) when is_map(term), do: term |> Map.to_list() |> function?()
  defp function?(_term), do: false
end
