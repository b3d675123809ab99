"""The operands of the models, the same for every library."""

from measure import operand, weights

ENCODER = [(256, 256)] * 4 + [(256, 1024), (1024, 256)]
MLP = [(784, 256), (256,), (256, 128), (128,), (128, 10), (10,)]
CNN = [(32, 1, 3, 3), (32,), (64, 32, 3, 3), (64,), (1600, 128), (128,), (128, 10), (10,)]
BLOCK = [(768, 2304), (2304,), (768, 768), (768,), (768, 3072), (3072,), (3072, 768), (768,), (768,), (768,)]
CACHE = (1, 12, 256, 64)
POSITION = 255


def normal(*shape):
    return operand("a", shape)


def encoder_layer(number):
    """The weights of queries, keys, values and the output, and of the two dense layers."""
    return weights(ENCODER, 6 * number)


def training_state(shapes):
    """The parameters and Adam's two moments of each; the next step is the tenth."""
    return weights(shapes), weights(shapes, 0, "a", 0.001), weights(shapes, 0, "positive", 1e-8)


def labels():
    return operand("places", (32,), "int64") % 10


def block():
    """The weights of a block of GPT-2, small, its two gains at the end, and the caches of keys and values."""
    gains = [operand("positive", (768,))] * 2
    return weights(BLOCK) + gains, weights([CACHE, CACHE], 20)


def lstm():
    """The input of 64 steps of 32 sequences, the weights of inputs and outputs, and the biases."""
    return normal(64, 32, 128), *weights([(128, 512), (128, 512), (512,)])
