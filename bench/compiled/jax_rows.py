"""The rows of compiled functions in JAX: each answers its first result, as a list, and what is timed."""

import jax
import jax.numpy as jnp
from jax.tree_util import tree_map

import operands as o

conv = lambda x, k, padding: jax.lax.conv(x, k, (1, 1), padding)


def rows():
    def array(function, *shapes):
        named = zip("ab", shapes)
        return lambda: call(function, *[o.operand(name, shape) for name, shape in named])

    million4 = (4_000_000,)
    chain = lambda x, y: jnp.tanh(x * y + 1.0) * 0.5 + jnp.exp(-x * x)
    return {
        **{f"matmul_{n}": array(jnp.matmul, (n, n), (n, n)) for n in (512, 1024, 2048)},
        "chain_4M": array(chain, million4, million4),
        "gelu_4M": array(gelu, million4),
        "chain12_1M": array(chain12, (1_000_000,), (1_000_000,)),
        "softmax_1024": array(lambda m: jax.nn.softmax(m, -1), (1024, 1024)),
        "layernorm_1024": array(layer_norm, (1024, 1024)),
        "sum_4M": array(jnp.sum, million4),
        "conv3x3_64_56_b8": array(lambda x, k: conv(x, k, "SAME"), (8, 64, 56, 56), (64, 64, 3, 3)),
        "call_overhead_1": array(jnp.add, (4,), (4,)),
        "call_overhead_8": array(chain, (4,), (4,)),
        "mlp_infer_b1": lambda: call(mlp, o.weights(o.MLP), o.normal(1, 784)),
        "mlp_infer_b128": lambda: call(mlp, o.weights(o.MLP), o.normal(128, 784)),
        "encoder_fwd_8x128x256": lambda: call(encoder, o.normal(8, 128, 256), o.encoder_layer(0)),
        "mlp_defn_step_b32": lambda: train(mlp, o.MLP, (32, 784)),
        "cnn_defn_step_b32": lambda: train(cnn, o.CNN, (32, 1, 28, 28)),
        "lstm_fwd": lambda: call(lstm, *o.lstm()),
        "gpt2_block_decode": decode,
        "compile_encoder12": compile_encoders,
    }


def call(function, *operands):
    operands = tree_map(jnp.array, operands)
    compiled = jax.jit(function)
    return [compiled(*operands)], lambda: jax.block_until_ready(compiled(*operands))


def gelu(x):
    return jax.nn.gelu(x, approximate=False)


def chain12(x, y):
    t = jnp.tanh(x * y + 1.0)
    u = jnp.exp(-x * x)
    v = jnp.sqrt(u + t * t)
    return jnp.maximum(v - y, t) * 0.5


def layer_norm(x):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5)


def heads(x, count):
    batch, steps, size = x.shape
    return x.reshape(batch, steps, count, size // count).transpose(0, 2, 1, 3)


def merge(x):
    batch, count, steps, size = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, steps, count * size)


def encoder(x, weights):
    q, k, v = [heads(x @ w, 4) for w in weights[:3]]
    attention = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) / 8.0, -1) @ v
    x = layer_norm(x + merge(attention) @ weights[3])
    return layer_norm(x + gelu(x @ weights[4]) @ weights[5])


def mlp(p, x):
    x = jax.nn.relu(x @ p[0] + p[1])
    x = jax.nn.relu(x @ p[2] + p[3])
    return x @ p[4] + p[5]


def cnn(p, x):
    def layer(x, kernel, bias):
        x = jax.nn.relu(conv(x, kernel, "VALID") + bias.reshape(-1, 1, 1))
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    x = layer(layer(x, *p[:2]), *p[2:4]).reshape(x.shape[0], -1)
    return jax.nn.relu(x @ p[4] + p[5]) @ p[6] + p[7]


def train(model, shapes, input):
    def loss(p, x, y):
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(model(p, x)), y[:, None], 1))

    def step(p, m, v, t, x, y):
        l, g = jax.value_and_grad(loss)(p, x, y)
        m = tree_map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        unbiased = lambda m, v: (m / (1 - 0.9**t), v / (1 - 0.999**t))
        move = lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8)
        p = tree_map(lambda p, m, v: move(p, *unbiased(m, v)), p, m, v)
        return l, p, m, v, t + 1

    compiled = jax.jit(step, donate_argnums=range(4))
    x, y = jnp.array(o.normal(*input)), jnp.array(o.labels())
    state = [*tree_map(jnp.array, o.training_state(shapes)), jnp.float32(10)]
    return repeat(lambda *state: compiled(*state, x, y), state)


def repeat(step, state):
    """Timed is a step that begins with the state that the last one answered behind its first result."""

    def run():
        state[:] = jax.block_until_ready(step(*state))[1:]

    first = step(*state)
    results = tree_map(jnp.copy, jax.tree_util.tree_leaves(first))
    state[:] = first[1:]
    return results, run


def lstm(x, input, recurrent, bias):
    def step(carry, x):
        h, c = carry
        i, f, g, o = jnp.split(x @ input + h @ recurrent + bias, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    start = jnp.zeros((x.shape[1], 128))
    return jax.lax.scan(step, (start, start), x)[1]


def decode():
    weights, caches = tree_map(jnp.array, o.block())
    x, position = jnp.array(o.normal(1, 1, 768)), jnp.int32(o.POSITION)
    compiled = jax.jit(block, donate_argnums=(1, 2))
    return repeat(lambda keys, values: compiled(x, keys, values, position, weights), list(caches))


def block(x, keys, values, position, w):
    qkv = (layer_norm(x) * w[10] + w[8]) @ w[0] + w[1]
    q, k, v = [heads(part, 12) for part in jnp.split(qkv, 3, -1)]
    keys = jax.lax.dynamic_update_slice(keys, k, (0, 0, position, 0))
    values = jax.lax.dynamic_update_slice(values, v, (0, 0, position, 0))
    scores = q @ keys.transpose(0, 1, 3, 2) / 8.0
    scores = jnp.where(jnp.arange(keys.shape[2]) <= position, scores, -1e9)
    x = x + merge(jax.nn.softmax(scores, -1) @ values) @ w[2] + w[3]
    hidden = jax.nn.gelu((layer_norm(x) * w[11] + w[9]) @ w[4] + w[5])
    return x + hidden @ w[6] + w[7], keys, values


def compile_encoders():
    jax.config.update("jax_enable_compilation_cache", False)
    operands = tree_map(jnp.array, (o.normal(8, 128, 256), [o.encoder_layer(n) for n in range(12)]))

    def compile():
        jax.clear_caches()

        def encoders(x, layers):
            for layer in layers:
                x = encoder(x, layer)
            return x

        return jax.jit(encoders).lower(*operands).compile()

    return [compile()(*operands)], compile
