"""Training steps in PyTorch: each row answers its first gradients with a mean loss, and what is timed."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from measure import cores
from tasks import CHECKED, TASKS, task

torch.set_num_threads(cores())


def rows(compiled):
    """The rows in eager mode, or with the model compiled by torch.compile and Adam fused. The LSTM is one call."""
    steps = {name: (lambda name=name: step(name, compiled)) for name in TASKS if name != "mlp_epoch_60000"}
    if compiled:
        del steps["lstm_step"]
    return steps | {"mlp_epoch_60000": lambda: epoch("mlp_epoch_60000", compiled)}


class Mlp(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))


class Cnn(nn.Sequential):
    def __init__(self):
        images = [nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)]
        super().__init__(*images, nn.Flatten(), nn.Linear(1600, 128), nn.ReLU(), nn.Linear(128, 10))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [(256, 256)] * 4 + [(256, 1024), (1024, 256)]
        biases = [True, False, True, True, True, True]
        layers = [nn.Linear(*size, bias=bias) for size, bias in zip(sizes, biases)]
        self.q, self.k, self.v, self.out, self.up, self.down = layers
        self.norm1, self.norm2 = nn.LayerNorm(256), nn.LayerNorm(256)

    def forward(self, x):
        batch, steps, size = x.shape
        q, k, v = [layer(x).view(batch, steps, 4, 64).transpose(1, 2) for layer in (self.q, self.k, self.v)]
        attention = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, steps, size)
        x = self.norm1(x + self.out(attention))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Lstm(nn.Module):
    """The second of PyTorch's two biases is zero and stays so."""

    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(128, 128, batch_first=True), nn.Linear(128, 10)
        nn.init.zeros_(self.lstm.bias_hh_l0).requires_grad_(False)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


MODELS = {"mlp": Mlp, "cnn": Cnn, "encoder": Encoder, "lstm": Lstm}


def transposed(weight):
    """PyTorch keeps the matrix of a dense layer transposed."""
    return weight.T if weight.ndim == 2 else weight


class Training:
    def __init__(self, name, compiled):
        weights, x, y = task(name)
        self.x, self.y = torch.from_numpy(x), torch.from_numpy(y)
        net = MODELS[name.split("_")[0]]()
        self.parameters = [parameter for parameter in net.parameters() if parameter.requires_grad]
        with torch.no_grad():
            for parameter, weight in zip(self.parameters, weights, strict=True):
                parameter.copy_(transposed(torch.from_numpy(weight)))
        self.optimizer = torch.optim.Adam(self.parameters, 1e-3, fused=compiled)
        self.forward = torch.compile(net, dynamic=False) if compiled else net
        self.loss = F.mse_loss if name.startswith("encoder") else F.cross_entropy

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.loss(self.forward(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def first(self, count):
        """The gradients of the first step, and the mean loss of `count` steps."""
        losses, gradients = [], None
        for x, y in zip(self.x[:count], self.y[:count]):
            losses.append(self.step(x, y).item())
            gradients = gradients or [transposed(p.grad).clone() for p in self.parameters]
        return [*gradients, torch.tensor(losses).mean()]


def step(name, compiled):
    training = Training(name, compiled)
    results, at = training.first(CHECKED), 0

    def run():
        nonlocal at
        training.step(training.x[at], training.y[at])
        at = (at + 1) % len(training.x)

    return results, run


def epoch(name, compiled):
    training = Training(name, compiled)
    results = training.first(CHECKED)
    size, x, y = training.x.shape[1], training.x.flatten(0, 1), training.y.flatten()

    def run():
        for rows in torch.randperm(len(x)).split(size):
            training.step(x[rows], y[rows])

    return results, run
