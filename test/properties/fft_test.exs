defmodule ExBurn.Properties.FFTTest do
  use ExBurn.Property, async: true

  import StreamData

  # Along another axis than the last one, Nx.BinaryBackend mixes up the lines that are filled up with zeros.
  for name <- [:fft, :ifft, :rfft, :irfft] do
    property "#{name}" do
      reference = fn t, opts -> along_last(t, opts, &apply(Nx, unquote(name), [&1, &2])) end

      same_as(
        {Nx, unquote(name)},
        {"the same along the last axis", reference},
        lines(unquote(name)),
        {:norm, 64}
      )
    end
  end

  for name <- [:fft2, :ifft2] do
    property "#{name}", do: same({Nx, unquote(name)}, planes(), {:norm, 64})
  end

  defp along_last(t, opts, fun) do
    last = Nx.rank(t) - 1
    axis = Integer.mod(opts[:axis] || last, last + 1)
    order = for i <- 0..last, do: %{axis => last, last => axis}[i] || i

    t
    |> Nx.transpose(axes: order)
    |> fun.(Keyword.put(opts, :axis, last))
    |> Nx.transpose(axes: order)
  end

  defp lines(name) do
    kind = %{rfft: [:int, :wide_float], irfft: [:complex]}[name] || [:int, :wide_float, :complex]
    # Nx can't do with less than three elements that are half of a line.
    least = if name == :irfft, do: 3, else: 1

    bind({axes_of(least), types(kind), vector()}, fn {shape, type, vector} ->
      lengths = one_of([integer(least..9), constant(:power_of_two)])
      options = options(length: lengths, axis: axis(shape))

      map(
        {operand(type, shape, range: :moderate, vector: vector, names: false), options},
        &Tuple.to_list/1
      )
    end)
  end

  defp axes_of(least) do
    map(shape(rank: [1, 2, 3], largest: 6), fn shape ->
      shape |> Tuple.to_list() |> Enum.map(&max(&1, least)) |> List.to_tuple()
    end)
  end

  defp planes do
    bind({shape(rank: [2, 3], largest: 4), types([:int, :wide_float, :complex])}, fn {shape, type} ->
      options = options(lengths: list_of(integer(1..6), length: 2))
      map({operand(type, shape, range: :moderate, names: false), options}, &Tuple.to_list/1)
    end)
  end
end
