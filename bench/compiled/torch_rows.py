"""The rows of compiled functions in PyTorch: each answers its first result, as a list, and what is timed."""

import torch
import torch.nn as nn
import torch.nn.functional as F

import operands as o
from measure import cores

torch.set_num_threads(cores())


def rows(compiled):
    """The rows in eager mode, or those compiled by torch.compile: all but products and convolutions of one call."""
    wrap = (lambda f: torch.compile(f, dynamic=False)) if compiled else (lambda f: f)

    def array(function, *shapes):
        named = zip("ab", shapes)
        return lambda: call(wrap(function), *[o.operand(name, shape) for name, shape in named])

    def model(make, weights, x):
        return lambda: call(wrap(make(weights)), x)

    kernels = {
        **{f"matmul_{n}": array(torch.matmul, (n, n), (n, n)) for n in (512, 1024, 2048)},
        "conv3x3_64_56_b8": array(lambda x, k: F.conv2d(x, k, padding=1), (8, 64, 56, 56), (64, 64, 3, 3)),
        "lstm_fwd": lstm,
    }
    million4 = (4_000_000,)
    return ({} if compiled else kernels) | {
        "chain_4M": array(chain, million4, million4),
        "gelu_4M": array(F.gelu, million4),
        "chain12_1M": array(chain12, (1_000_000,), (1_000_000,)),
        "softmax_1024": array(lambda m: torch.softmax(m, -1), (1024, 1024)),
        "layernorm_1024": array(lambda m: F.layer_norm(m, (1024,)), (1024, 1024)),
        "sum_4M": array(torch.sum, million4),
        "call_overhead_1": array(torch.add, (4,), (4,)),
        "call_overhead_8": array(chain, (4,), (4,)),
        "mlp_infer_b1": model(mlp, o.weights(o.MLP), o.normal(1, 784)),
        "mlp_infer_b128": model(mlp, o.weights(o.MLP), o.normal(128, 784)),
        "encoder_fwd_8x128x256": model(encoder, o.encoder_layer(0), o.normal(8, 128, 256)),
        "mlp_defn_step_b32": lambda: train(mlp, o.MLP, (32, 784), compiled),
        "cnn_defn_step_b32": lambda: train(cnn, o.CNN, (32, 1, 28, 28), compiled),
        "gpt2_block_decode": lambda: decode(wrap),
    }


def call(function, *operands):
    operands = [torch.from_numpy(operand) for operand in operands]

    @torch.no_grad()
    def run():
        return function(*operands)

    return [run()], run


def chain(x, y):
    return torch.tanh(x * y + 1.0) * 0.5 + torch.exp(-x * x)


def chain12(x, y):
    t = torch.tanh(x * y + 1.0)
    u = torch.exp(-x * x)
    v = torch.sqrt(u + t * t)
    return torch.maximum(v - y, t) * 0.5


def assign(parameters, weights):
    """Sets the parameters; PyTorch keeps the matrix of a dense layer transposed."""
    with torch.no_grad():
        for parameter, weight in zip(parameters, weights, strict=True):
            parameter.copy_(as_parameter(weight))


def as_parameter(weight):
    weight = torch.from_numpy(weight)
    return weight.T.contiguous() if weight.ndim == 2 else weight


def mlp(weights):
    net = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
    assign(net.parameters(), weights)
    return net


def cnn(weights):
    convolution = [nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)]
    net = nn.Sequential(*convolution, nn.Flatten(), nn.Linear(1600, 128), nn.ReLU(), nn.Linear(128, 10))
    assign(net.parameters(), weights)
    return net


def encoder(weights):
    layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, activation="gelu").eval()
    q, k, v, out, up, down = map(as_parameter, weights)
    with torch.no_grad():
        layer.self_attn.in_proj_weight.copy_(torch.cat([q, k, v]))
        layer.self_attn.out_proj.weight.copy_(out)
        layer.linear1.weight.copy_(up)
        layer.linear2.weight.copy_(down)
        for bias in (layer.self_attn.in_proj_bias, layer.self_attn.out_proj.bias):
            bias.zero_()
        for bias in (layer.linear1.bias, layer.linear2.bias):
            bias.zero_()
    return layer


def train(model, shapes, input, compiled):
    parameters, first, second = o.training_state(shapes)
    net = model(parameters)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3, fused=compiled)
    for parameter, m, v in zip(net.parameters(), first, second):
        moments = {"exp_avg": as_parameter(m).clone(), "exp_avg_sq": as_parameter(v).clone()}
        optimizer.state[parameter] = {"step": torch.tensor(9.0), **moments}
    forward = torch.compile(net, dynamic=False) if compiled else net
    x, y = torch.from_numpy(o.normal(*input)), torch.from_numpy(o.labels())

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return [step(), *trained(net, optimizer)], step


def trained(net, optimizer):
    """The parameters, Adam's moments and the number of the next step as the other sides have them."""
    states = [optimizer.state[parameter] for parameter in net.parameters()]
    tensors = [*net.parameters(), *[s["exp_avg"] for s in states], *[s["exp_avg_sq"] for s in states]]
    return [*[(t.T if t.ndim == 2 else t).detach().clone() for t in tensors], states[0]["step"] + 1]


def lstm():
    x, input, recurrent, bias = o.lstm()
    net = nn.LSTM(128, 128)
    assign(net.parameters(), [input, recurrent, bias, 0 * bias])
    return call(lambda x: net(x)[0], x)


def decode(wrap):
    weights, caches = o.block()
    weights, caches = [torch.from_numpy(w) for w in weights], [torch.from_numpy(c) for c in caches]
    x, function = torch.from_numpy(o.normal(1, 1, 768)), wrap(block)

    @torch.no_grad()
    def run():
        return function(x, *caches, o.POSITION, weights)

    return [run(), *[cache.clone() for cache in caches]], run


def block(x, keys, values, position, w):
    """Writes into the caches, and looks at as much of them as is filled."""
    h = F.layer_norm(x, (768,), w[10], w[8]).view(1, 768)
    q, k, v = torch.addmm(w[1], h, w[0]).view(3, 1, 12, 1, 64)
    keys[:, :, position : position + 1] = k
    values[:, :, position : position + 1] = v
    attention = F.scaled_dot_product_attention(q, keys[:, :, : position + 1], values[:, :, : position + 1])
    x = x.view(1, 768) + torch.addmm(w[3], attention.reshape(1, 768), w[2])
    h = F.gelu(torch.addmm(w[5], F.layer_norm(x, (768,), w[11], w[9]), w[4]), approximate="tanh")
    return (x + torch.addmm(w[7], h, w[6])).view(1, 1, 768)
