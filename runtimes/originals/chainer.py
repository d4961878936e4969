"""Chainer 7.8.1: the printed text in its functions, define by run: the graph is made anew in every step, on NumPy."""

import chainer
import chainer.functions as F
import numpy as np

from xbench.runtimes.originals.reading import Unsupported, gates, operators, plain, symmetric, type_of
from xbench.runtimes.originals.update import numbers, slots, update

VERSIONS = {"chainer": chainer.__version__}
chainer.config.use_ideep = "never"  # it is not installed
chainer.config.dtype = np.float32


def Conv(x, w, b=None, *, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None, strides=None):
    plain("Conv", auto_pad)
    rank = len(w.shape) - 2
    settings = {"stride": strides or (1,) * rank, "pad": symmetric(pads, rank, "Conv"), "groups": group}
    return F.convolution_nd(x, w, b, dilate=dilations or (1,) * rank, **settings)


def MaxPool(x, *, kernel_shape, pads=None, strides=None, ceil_mode=0, dilations=None, auto_pad="NOTSET", outputs=1):
    plain("MaxPool", auto_pad)
    if dilations or outputs > 1:
        raise Unsupported("MaxPool with dilations or indices")
    rank = len(kernel_shape)
    settings = {"stride": strides or (1,) * rank, "pad": symmetric(pads, rank, "MaxPool"), "cover_all": bool(ceil_mode)}
    return F.max_pooling_nd(x, kernel_shape, **settings)


def AveragePool(x, *, kernel_shape, pads=None, strides=None, ceil_mode=0, count_include_pad=0, auto_pad="NOTSET"):
    plain("AveragePool", auto_pad)
    if ceil_mode:
        raise Unsupported("AveragePool with ceil_mode")
    rank = len(kernel_shape)
    settings = {"stride": strides or (1,) * rank, "pad": symmetric(pads, rank, "AveragePool")}
    return F.average_pooling_nd(x, kernel_shape, pad_value=0 if count_include_pad else None, **settings)


def GlobalAveragePool(x):
    return F.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True)


def BatchNormalization(x, scale, bias, mean, var, *, epsilon=1e-5, momentum=0.9, training_mode=False, unbiased=0):
    """Chainer's own running variance is the unbiased one, as PyTorch's is."""
    if not training_mode:
        return F.fixed_batch_normalization(x, scale, bias, mean, var, eps=epsilon), mean, var
    if not unbiased:
        raise Unsupported("BatchNormalization with a biased running variance")
    kept = {"running_mean": mean.copy(), "running_var": var.copy()}  # which it overwrites
    y = F.batch_normalization(x, scale, bias, eps=epsilon, decay=momentum, **kept)
    return y, kept["running_mean"], kept["running_var"]


def Relu(x):
    return F.relu(x)


def Sigmoid(x):
    return F.sigmoid(x)


def Tanh(x):
    return F.tanh(x)


def _alike(a, b):
    """Two arrays of one shape, which Chainer's arithmetic wants."""
    if not (hasattr(a, "shape") and hasattr(b, "shape")) or a.shape == b.shape:
        return a, b
    return F.broadcast(a, b)


def Add(a, b):
    a, b = _alike(a, b)
    return a + b


def Sub(a, b):
    a, b = _alike(a, b)
    return a - b


def Mul(a, b):
    a, b = _alike(a, b)
    return a * b


def Div(a, b):
    a, b = _alike(a, b)
    return a / b


def Less(a, b):
    a, b = (each.array if isinstance(each, chainer.Variable) else each for each in (a, b))
    return np.less(a, b)


def Cast(x, *, to):
    return x.astype(type_of(to)) if isinstance(x, np.ndarray) else F.cast(x, type_of(to))


def Dropout(x, ratio=0.5, training=False, *, seed=0, rng=None):
    return F.dropout(x, ratio) if training and rng else x


def Reshape(x, sizes, *, allowzero=0):
    return F.reshape(x, tuple(x.shape[i] if s == 0 and not allowzero else s for i, s in enumerate(sizes)))


def Flatten(x, *, axis=1):
    return F.reshape(x, (int(np.prod(x.shape[:axis])), -1))


def Transpose(x, *, perm=None):
    return F.transpose(x, perm)


def Concat(*arrays, axis):
    return F.concat(arrays, axis=axis)


def Unsqueeze(x, axes):
    for axis in sorted(a % (len(x.shape) + len(axes)) for a in axes):
        x = np.expand_dims(x, axis) if isinstance(x, np.ndarray) else F.expand_dims(x, axis)
    return x


def Squeeze(x, axes=None):
    return F.squeeze(x, axis=None if axes is None else tuple(axes))


def Slice(x, starts, ends, axes=None, steps=None):
    cut = [slice(None)] * x.ndim
    for index, (start, end) in enumerate(zip(starts, ends)):
        cut[axes[index] if axes else index] = slice(start, end, steps[index] if steps else 1)
    return F.get_item(x, tuple(cut))


def Pad(x, pads, value=0.0, axes=None, *, mode="constant"):
    if mode != "constant" or axes is not None:
        raise Unsupported("Pad with mode %s, or axes" % mode)
    return F.pad(x, list(zip(pads[: x.ndim], pads[x.ndim :])), "constant", constant_values=value or 0.0)


def ReduceMean(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    return F.mean(x, axis=axes, keepdims=bool(keepdims))


def ReduceSum(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    return F.sum(x, axis=axes, keepdims=bool(keepdims))


def Gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    if alpha != 1 or beta != 1 or transA:
        raise Unsupported("Gemm with alpha, beta or transA")
    return F.linear(a, b if transB else F.transpose(b), c, n_batch_axes=a.ndim - 1)


def MatMul(a, b):
    return Gemm(a, b)


def Gather(table, indices, *, axis=0):
    if axis:
        raise Unsupported("Gather along axis %d" % axis)
    return F.embed_id(indices, table)


def LSTM(x, w, r, b=None, lengths=None, h0=None, c0=None, p=None, *, hidden_size=None, gate_order=None, **attributes):
    """Chainer's n-step LSTM, whose eight matrices are those of input, forget, cell and output, of x and then of h."""
    if attributes or any(each is not None for each in (lengths, h0, c0, p)) or b is None:
        raise Unsupported("LSTM with %s" % ", ".join([*attributes, "a state, lengths or peepholes"]))
    size, batch = r.shape[2], x.shape[1]
    rows = [slice(gate * size, (gate + 1) * size) for gate in gates(gate_order)]
    matrices = [each[0][cut] for each in (w, r) for cut in rows]
    halves = [b[0][half * 4 * size : (half + 1) * 4 * size] for half in (0, 1)]
    biases = [half[cut] for half in halves for cut in rows]
    start = np.zeros((1, batch, size), np.float32)
    rows = [x[step] for step in range(x.shape[0])]
    _, _, ys = F.n_step_lstm(1, 0.0, start, start, [matrices], [biases], rows)
    return F.expand_dims(F.stack(ys, axis=0), 1), None, None


def cross_entropy(logits, labels):
    return F.softmax_cross_entropy(F.reshape(logits, (-1, logits.shape[-1])), labels.reshape(-1))


def mean_squared_error(y, target):
    return F.mean_squared_error(y, target)


TABLE = operators(globals())
LOSSES = {"cross_entropy": cross_entropy, "mean_squared_error": mean_squared_error}


class Model:
    def __init__(self, apply, params, state, settings):
        self.apply, self.settings, self.rule, self.first = apply, settings, settings["rule"], (params, state)
        self.slots, self.rng = slots(self.rule) if settings["mode"] == "step" else (), None
        self.reset()

    def reset(self):
        params, state = self.first
        self.params = {name: chainer.Parameter(a.copy()) for name, a in params.items()}
        self.state = {name: a.copy() for name, a in state.items()}
        self.kept = {slot: {n: np.zeros_like(a) for n, a in params.items()} for slot in self.slots}
        self.count = 0

    def prepare(self, inputs, labels, dropout):
        self.rng = 1 if dropout else None
        return False

    def put(self, arrays):
        return [array.astype(np.int32) if array.dtype == np.int64 else array for array in arrays]

    def forward(self, inputs):
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            return list(self.apply(self.params, self.state, *inputs)[0])

    def run(self, inputs, labels):
        for p in self.params.values():
            p.cleargrad()
        with chainer.using_config("train", True):
            outputs, changed = self.apply(self.params, self.state, *inputs, training=True, rng=self.rng)
            rule = self.settings["loss"]
            terms = [LOSSES[rule["name"]](y, labels) * w for y, w in zip(outputs, rule["weights"])]
            loss = sum(terms[1:], terms[0])
        loss.backward()
        grads = {n: np.zeros_like(p.array) if p.grad is None else p.grad for n, p in self.params.items()}
        return loss.array, grads, changed

    def gradients(self, inputs, labels):
        return self.run(inputs, labels)[:2]

    def step(self, inputs, labels):
        loss, grads, changed = self.run(inputs, labels)
        self.count += 1
        given = [np.float32(number) for number in numbers(self.rule, self.count)]
        arrays = {name: p.array for name, p in self.params.items()}
        arrays, self.kept = update(self.rule, given, arrays, grads, self.kept, np.sum, np.minimum, np.sqrt)
        for name, array in arrays.items():
            self.params[name].array = array
        self.state.update(changed)
        return loss

    def get(self, value):
        return value.array if isinstance(value, chainer.Variable) else value

    def weights(self):
        return dict({name: p.array for name, p in self.params.items()}, **self.state)

    def memory(self):
        return {"%s.%s" % (slot, name): a for slot, kept in self.kept.items() for name, a in kept.items()}
