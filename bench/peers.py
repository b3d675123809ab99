"""Times operations in PyTorch (eager) or JAX (jit) for `compare`.

    python peers.py torch|jax FOLDER

reads names of rows from its input and answers each with the median time in microseconds, or with a dash when the
library has no such row. FOLDER holds the operands that `compare` made.
"""

import sys

from measure import cores, median, operand


def torch_rows():
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(cores())
    torch.set_grad_enabled(False)

    def t(*args):
        return torch.from_numpy(operand(*args))

    rows = {}

    def row(name, function, *operands):
        def run():
            tensors = [t(*o) for o in operands]
            return median(lambda: function(*tensors))

        rows[name] = run

    matrices(row, lambda a, b: a @ b, lambda a, b: a @ b.T)
    million4 = [("a", (4_000_000,)), ("b", (4_000_000,))]
    row("add_4M", torch.add, *million4)
    row("multiply_4M_f64", torch.mul, ("a64", (4_000_000,), "float64"), ("b64", (4_000_000,), "float64"))
    row("chain_4M", lambda x, y: torch.tanh(x * y + 1.0) * 0.5 + torch.exp(-x * x), *million4)
    for name in ("exp", "tanh", "sigmoid", "sin", "erf"):
        row(f"{name}_4M", getattr(torch, name), million4[0])
    row("log_4M", torch.log, ("positive", (4_000_000,)))
    row("sum_4M", torch.sum, million4[0])
    square = ("a", (1024, 1024))
    row("sum_rows_2048", lambda m: m.sum(1), ("a", (2048, 2048)))
    row("sum_columns_2048", lambda m: m.sum(0), ("a", (2048, 2048)))
    row("sum_short_rows", lambda m: m.sum(1), ("a", (1_000_000, 4)))
    row("reduce_max_1024", lambda m: m.amax(1, keepdim=True), square)
    row("subtract_column_1024", torch.sub, square, ("b", (1024, 1)))
    row("exp_1024", torch.exp, square)
    row("divide_column_1024", torch.div, square, ("positive", (1024, 1)))
    row("softmax_1024", lambda m: torch.softmax(m, 1), square)
    row("layernorm_1024", lambda m: F.layer_norm(m, (1024,)), square)
    million = ("a", (1_000_000,))
    for suffix, one in types(million):
        row(f"sort_1M{suffix}", lambda x: torch.sort(x, stable=True).values, one)
        row(f"argsort_1M{suffix}", lambda x: torch.argsort(x, stable=True), one)
    row("sort_rows_1024", lambda m: torch.sort(m, dim=1, stable=True).values, square)
    row("cumulative_sum_1M", lambda x: x.cumsum(0), million)
    row("cumulative_sum_rows_1024", lambda m: m.cumsum(1), square)
    row("cumulative_sum_columns_1024", lambda m: m.cumsum(0), square)
    row("take_rows", lambda t, i: t[i], ("a", (50_000, 64)), ("rows", (65_536,), "int64"))
    row("gather_1M", lambda x, i: x[i], million, ("places", (1_000_000,), "int64"))
    row("transpose_copy_2048", lambda m: m.T.contiguous(), ("a", (2048, 2048)))
    row("concatenate_4M", lambda x, y: torch.cat([x, y]), ("a", (2_000_000,)), ("b", (2_000_000,)))
    row("select_4M", torch.where, ("flags", (4_000_000,), "bool"), *million4)
    images, kernel = ("a", (8, 64, 56, 56)), ("b", (64, 64, 3, 3))
    row("conv3x3_64_56_b8", lambda x, k: F.conv2d(x, k, padding=1), images, kernel)
    return rows


def jax_rows():
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    rows = {}

    def row(name, function, *operands):
        def run():
            arrays = [jnp.array(operand(*o)) for o in operands]
            compiled = jax.jit(function)
            return median(lambda: jax.block_until_ready(compiled(*arrays)))

        rows[name] = run

    matrices(row, lambda a, b: a @ b, lambda a, b: a @ b.swapaxes(-1, -2))
    million4 = [("a", (4_000_000,)), ("b", (4_000_000,))]
    row("add_4M", jnp.add, *million4)
    row("multiply_4M_f64", jnp.multiply, ("a64", (4_000_000,), "float64"), ("b64", (4_000_000,), "float64"))
    for name, function in (
        ("exp", jnp.exp),
        ("tanh", jnp.tanh),
        ("sigmoid", jax.nn.sigmoid),
        ("sin", jnp.sin),
        ("erf", jax.scipy.special.erf),
    ):
        row(f"{name}_4M", function, million4[0])
    row("log_4M", jnp.log, ("positive", (4_000_000,)))
    row("sum_4M", jnp.sum, million4[0])
    square = ("a", (1024, 1024))
    row("sum_rows_2048", lambda m: m.sum(1), ("a", (2048, 2048)))
    row("sum_columns_2048", lambda m: m.sum(0), ("a", (2048, 2048)))
    row("sum_short_rows", lambda m: m.sum(1), ("a", (1_000_000, 4)))
    row("reduce_max_1024", lambda m: m.max(1, keepdims=True), square)
    row("subtract_column_1024", jnp.subtract, square, ("b", (1024, 1)))
    row("exp_1024", jnp.exp, square)
    row("divide_column_1024", jnp.divide, square, ("positive", (1024, 1)))
    million = ("a", (1_000_000,))
    for suffix, one in types(million):
        row(f"sort_1M{suffix}", jnp.sort, one)
        row(f"argsort_1M{suffix}", jnp.argsort, one)
    row("sort_rows_1024", lambda m: jnp.sort(m, 1), square)
    row("cumulative_sum_1M", jnp.cumsum, million)
    row("cumulative_sum_rows_1024", lambda m: jnp.cumsum(m, 1), square)
    row("cumulative_sum_columns_1024", lambda m: jnp.cumsum(m, 0), square)
    row("take_rows", lambda t, i: t[i], ("a", (50_000, 64)), ("rows", (65_536,), "int64"))
    row("gather_1M", lambda x, i: x[i], million, ("places", (1_000_000,), "int64"))
    row("transpose_copy_2048", lambda m: m.T.reshape(-1), ("a", (2048, 2048)))
    row("concatenate_4M", lambda x, y: jnp.concatenate([x, y]), ("a", (2_000_000,)), ("b", (2_000_000,)))
    row("select_4M", jnp.where, ("flags", (4_000_000,), "bool"), *million4)
    images, kernel = ("a", (8, 64, 56, 56)), ("b", (64, 64, 3, 3))
    row("conv3x3_64_56_b8", lambda x, k: jax.lax.conv(x, k, (1, 1), "SAME"), images, kernel)
    return rows


def matrices(row, product, with_transposed):
    """The rows of products of matrices."""
    for n in (256, 512, 1024, 2048):
        row(f"matmul_{n}", product, ("a", (n, n)), ("b", (n, n)))
        row(f"matmul_{n}_f64", product, ("a64", (n, n), "float64"), ("b64", (n, n), "float64"))
    row("matmul_transposed_1024", with_transposed, ("a", (1024, 1024)), ("b", (1024, 1024)))
    row("matmul_batched_64x128", product, ("a", (64, 128, 128)), ("b", (64, 128, 128)))


def types(million):
    """A million elements of each type that is sorted."""
    return [("", million), ("_f64", ("a64", (1_000_000,), "float64")), ("_s32", ("ints", (1_000_000,), "int32"))]


def main():
    rows = {"torch": torch_rows, "jax": jax_rows}[sys.argv[1]]()
    for line in sys.stdin:
        run = rows.get(line.strip())
        print(f"{run():.1f}" if run else "-", flush=True)


main()
