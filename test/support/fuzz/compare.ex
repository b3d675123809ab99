defmodule ExBurn.Fuzz.Compare do
  @moduledoc """
  How far a result may lie from the right one, as the lanes of `ExBurn.Fuzz.Oracle` tell.
  """

  alias ExBurn.Property.{Number, Tolerance}

  # An answer may be this many times further away than the furthest lane.
  @reach 4

  # And this many units in the last place: functions of f64 have no exact values to compare with.
  @places %{{:f, 64} => 16, {:c, 128} => 512, {:c, 64} => 4}

  # Lanes that lie further apart, as a part of the largest element, say nothing.
  @parts %{
    {:f, 64} => 1.0e-9,
    {:c, 128} => 1.0e-9,
    {:f, 32} => 1.0e-3,
    {:c, 64} => 1.0e-3,
    {:f, 16} => 0.1
  }

  @doc """
  For each element, its right value and the bound: `:exact` or a distance.
  """
  def bounds([right | noisy]) do
    [numbers | others] = Enum.map([right | noisy], &Number.list/1)

    Enum.zip_with([numbers | others], fn [number | others] ->
      {number, bound(right.type, number, others)}
    end)
  end

  defp bound(type, number, others) do
    if Enum.all?(others, &(&1 == number)) or Number.integer?(type) or not finite?(number),
      do: :exact,
      else:
        @reach * spread(number, others) +
          Map.get(@places, type, 2) * Number.ulp(type, size(number)) + smallest()
  end

  # GPUs may take less for 0.
  defp smallest, do: if(ExBurn.Device.default() == :cpu, do: 0, else: 2.0 ** -126)

  defp spread(number, others), do: others |> Enum.map(&distance(number, &1)) |> Enum.max()

  @doc """
  Whether lanes lie close enough together to tell right from wrong.
  """
  def sure?([right | noisy] = lanes) do
    cond do
      Number.integer?(right.type) -> Enum.all?(noisy, &(Nx.to_binary(&1) == Nx.to_binary(right)))
      Enum.any?(noisy, &(finite(&1) != finite(right))) -> false
      true -> near?(lanes)
    end
  end

  defp near?([right | _] = lanes) do
    bounds = bounds(lanes)
    largest = bounds |> Enum.map(&size(elem(&1, 0))) |> Enum.max()
    allowed = Map.get(@parts, right.type, 1.0) * largest
    Enum.all?(bounds, fn {_, bound} -> bound == :exact or bound <= allowed end)
  end

  defp finite(t), do: t |> Number.list() |> Enum.map(&(finite?(&1) or &1))

  @doc """
  What is wrong with a result, or `nil`, if it should be `want` within the bounds of the lanes.
  """
  def difference(got, want, lanes) do
    if kind(got) == kind(want),
      do: first_difference(got, want, lanes),
      else: "want: #{inspect(kind(want))}\ngot: #{inspect(kind(got))}"
  end

  defp first_difference(got, want, lanes) do
    [Number.list(got), Number.list(want), bounds(lanes), zeros(lanes)]
    |> Enum.zip_with(fn [g, w, {_, bound}, zeros] -> {g, w, bound, zeros} end)
    |> Enum.find_value(fn {g, w, bound, zeros} ->
      if not (close?(g, w, bound) and zeros_alike?(g, w, zeros)),
        do: report(g, w, bound, got, want)
    end)
  end

  defp close?(got, want, _bound) when got == want, do: true
  defp close?(got, want, bound), do: Tolerance.close?(got, want, bound)

  # The signs that each element has in the lanes.
  defp zeros(lanes) do
    lanes
    |> Enum.map(&Number.list/1)
    |> Enum.zip_with(fn numbers -> numbers |> Enum.map(&Number.zero/1) |> Enum.uniq() end)
  end

  # Where lanes differ, nothing is said about the sign.
  defp zeros_alike?(got, want, [_one]), do: Number.zeros_alike?(got, want)
  defp zeros_alike?(_got, _want, _several), do: true

  defp report(g, want, bound, got, right) do
    "want: #{inspect(want)} in #{show(right)}\ngot: #{inspect(g)} in #{show(got)}\nallowed: #{inspect(bound)}"
  end

  defp show(t), do: inspect(Number.list(t), limit: 64)

  # Without names, which loops of a defn take from their initial values and loops of tensors from the last ones.
  defp kind(t), do: {t.type, t.shape, t.vectorized_axes}

  defp distance(%Complex{} = a, %Complex{} = b), do: a |> Complex.subtract(b) |> size()
  defp distance(a, b) when is_number(a) and is_number(b), do: abs(a - b) * 1.0
  defp distance(_a, _b), do: 0.0

  # By the larger part, because the squares of small numbers are zero and those of large ones are too large.
  defp size(%Complex{re: re, im: im}) when is_number(re) and is_number(im) do
    large = max(abs(re), abs(im)) * 1.0

    if large == 0.0,
      do: 0.0,
      else: large * :math.sqrt((re / large) ** 2 + (im / large) ** 2)
  end

  defp size(x) when is_number(x), do: abs(x) * 1.0
  defp size(_x), do: 0.0

  @doc """
  Whether a number is one.
  """
  def finite?(%Complex{re: re, im: im}), do: is_number(re) and is_number(im)
  def finite?(x), do: is_number(x)
end
