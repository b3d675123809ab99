"""What is trained: the data and the parameters of each row, the same for every library."""

import numpy as np

from measure import operand, weights

MLP = [(784, 256), (256,), (256, 128), (128,), (128, 10), (10,)]
CNN = [(32, 1, 3, 3), (32,), (64, 32, 3, 3), (64,), (1600, 128), (128,), (128, 10), (10,)]
# Kernel and bias of queries, keys, values, the output and the two dense layers, gain and bias of the two norms. Keys have
# no bias: its gradient would be zero, and nothing but rounding to compare.
DENSE = [(256, 256), (256,)]
ENCODER = [*DENSE, (256, 256), *DENSE * 2, (256, 1024), (1024,), (1024, 256), (256,), *[(256,)] * 4]
# Of the inputs, the outputs, the gates' biases (input, forget, cell, output), and a dense layer.
LSTM = [(128, 512), (128, 512), (512,), (128, 10), (10,)]

# Shapes of the parameters, rows of a batch, shape of a row, batches.
TASKS = {
    "mlp_step_b32": (MLP, 32, (784,), 128),
    "mlp_step_b128": (MLP, 128, (784,), 32),
    "cnn_step_b32": (CNN, 32, (1, 28, 28), 16),
    "encoder_step_8x128x256": (ENCODER, 8, (128, 256), 8),
    "lstm_step": (LSTM, 32, (64, 128), 8),
    "mlp_epoch_60000": (MLP, 32, (784,), 1875),
}
# So many steps of Adam have the mean of their losses compared.
CHECKED = 4


def task(name):
    """The parameters, and the batches of inputs and targets: class numbers, or for the encoder what it should answer."""
    shapes, rows, shape, batches = TASKS[name]
    x = inputs(rows * batches, shape).reshape(batches, rows, *shape)
    if name.startswith("encoder"):
        return weights(shapes), x, operand("b", x.shape)
    return weights(shapes), x, (operand("places", (batches * rows,), "int64") % 10).reshape(batches, rows)


def inputs(rows, shape):
    """Normal numbers; where the file has not so many, its first 5000 rows over and over."""
    return np.resize(operand("a", (min(rows, 5000), *shape)), (rows, *shape))
