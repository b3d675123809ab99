"""Training steps in JAX: each row answers its first gradients with a mean loss, and what is timed."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_map

import jax_rows as models
from tasks import CHECKED, TASKS, task


def rows():
    steps = {name: (lambda name=name: step(name)) for name in TASKS if name != "mlp_epoch_60000"}
    return steps | {"mlp_epoch_60000": lambda: epoch("mlp_epoch_60000")}


def encoder(p, x):
    dense = lambda x, at: x @ p[at] + p[at + 1]
    norm = lambda x, at: models.layer_norm(x) * p[at] + p[at + 1]
    q, k, v = [models.heads(projected, 4) for projected in (dense(x, 0), x @ p[2], dense(x, 3))]
    attention = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) / 8.0, -1) @ v
    x = norm(x + dense(models.merge(attention), 5), 11)
    return norm(x + dense(models.gelu(dense(x, 7)), 9), 13)


def lstm(p, x):
    return models.lstm(x.swapaxes(0, 1), *p[:3])[-1] @ p[3] + p[4]


MODELS = {"mlp": models.mlp, "cnn": models.cnn, "encoder": encoder, "lstm": lstm}


def cross_entropy(z, y):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(z), y[:, None], 1))


def functions(name):
    """The gradients, and a step of Adam; both compiled."""
    model = MODELS[name.split("_")[0]]
    distance = (lambda z, y: jnp.mean((z - y) ** 2)) if name.startswith("encoder") else cross_entropy
    loss = lambda p, x, y: distance(model(p, x), y)

    def step(p, m, v, t, x, y):
        l, g = jax.value_and_grad(loss)(p, x, y)
        m = tree_map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        move = lambda p, m, v: p - 1e-3 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)
        return l, tree_map(move, p, m, v), m, v, t + 1

    return jax.jit(jax.grad(loss)), step


class Training:
    def __init__(self, name):
        weights, x, y = task(name)
        self.x, self.y = x, y
        self.gradient, self.function = functions(name)
        self.step = jax.jit(self.function, donate_argnums=range(4))
        p = tree_map(jnp.array, weights)
        zeros = [tree_map(jnp.zeros_like, p) for _ in range(2)]
        self.state = [p, *zeros, jnp.float32(1)]

    def first(self, count):
        """The gradients of the first step, and the mean loss of `count` steps."""
        gradients = self.gradient(self.state[0], self.x[0], self.y[0])
        losses = []
        for x, y in zip(self.x[:count], self.y[:count]):
            loss, *self.state = self.step(*self.state, x, y)
            losses.append(loss)
        return [*gradients, jnp.stack(losses).mean()]


def step(name):
    training = Training(name)
    results, at = training.first(CHECKED), 0
    batches = [tree_map(jnp.array, batch) for batch in zip(training.x, training.y)]

    def run():
        nonlocal at
        answer = jax.block_until_ready(training.step(*training.state, *batches[at]))
        training.state, at = answer[1:], (at + 1) % len(batches)

    return results, run


def epoch(name):
    """Rows are picked in the compiled step; the steps of an epoch wait for each other only at its end."""
    training = Training(name)
    results = training.first(CHECKED)
    size = training.x.shape[1]
    x, y = jnp.array(training.x.reshape(-1, 784)), jnp.array(training.y.reshape(-1))
    function, random = training.function, np.random.default_rng(0)
    pick = lambda *a: function(*a[:4], a[4][a[6]], a[5][a[6]])
    compiled = jax.jit(pick, donate_argnums=range(4))

    def run():
        for rows in random.permutation(len(x)).reshape(-1, size):
            training.state = compiled(*training.state, x, y, rows)[1:]
        jax.block_until_ready(training.state)

    return results, run
