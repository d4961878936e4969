"""MXNet 1.9.1: the printed text as a symbol, which a cached operator runs, as a hybrid block of Gluon does.

BatchNorm's running variance is MXNet's biased one. The rule by which it runs is linear, so what is kept is PyTorch's
times (n - 1) / n: MXNet's own update then gives PyTorch's, times the same.
"""

import mxnet as mx
import numpy as np

from xbench.runtimes.originals.reading import Unsupported, gates, operators, plain, symmetric, type_of
from xbench.runtimes.originals.update import numbers, slots, update

VERSIONS = {"mxnet": mx.__version__}
SYM = mx.sym


class Statistics:
    """The symbols of a text being read: shapes are inferred as it goes, BatchNorm's layers are remembered."""

    def __init__(self):
        self.aux = {}  # auxiliary state -> (name of the running statistic, n / (n - 1), or 1 for a mean)
        self.dropout = False


CURRENT = Statistics()


def shape(x):
    found = x.infer_shape()[1]
    if found is None:
        raise Unsupported("MXNet cannot infer a shape that the text needs")
    return found[0]


def Conv(x, w, b=None, *, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None, strides=None):
    plain("Conv", auto_pad)
    kernel = shape(w)
    rank = len(kernel) - 2
    settings = {"kernel": kernel[2:], "num_filter": kernel[0], "num_group": group, "pad": symmetric(pads, rank, "Conv")}
    settings.update(stride=strides or (1,) * rank, dilate=dilations or (1,) * rank)
    return SYM.Convolution(x, w, no_bias=True, **settings) if b is None else SYM.Convolution(x, w, b, **settings)


def _pool(x, kind, kernel_shape, pads, strides, ceil_mode, **settings):
    rank = len(kernel_shape)
    settings.update(kernel=kernel_shape, stride=strides or (1,) * rank, pad=symmetric(pads, rank, kind))
    return SYM.Pooling(x, pool_type=kind, pooling_convention="full" if ceil_mode else "valid", **settings)


def MaxPool(x, *, kernel_shape, pads=None, strides=None, ceil_mode=0, dilations=None, auto_pad="NOTSET", outputs=1):
    plain("MaxPool", auto_pad)
    if dilations or outputs > 1:
        raise Unsupported("MaxPool with dilations or indices")
    return _pool(x, "max", kernel_shape, pads, strides, ceil_mode)


def AveragePool(x, *, kernel_shape, pads=None, strides=None, ceil_mode=0, count_include_pad=0, auto_pad="NOTSET"):
    plain("AveragePool", auto_pad)
    return _pool(x, "avg", kernel_shape, pads, strides, ceil_mode, count_include_pad=bool(count_include_pad))


def GlobalAveragePool(x):
    return SYM.mean(x, axis=tuple(range(2, len(shape(x)))), keepdims=True)


def BatchNormalization(x, scale, bias, mean, var, *, epsilon=1e-5, momentum=0.9, training_mode=False, unbiased=0):
    size = shape(x)
    n = int(np.prod(size)) // size[1]
    kept = [mean, var]
    if training_mode:
        kept = [SYM.var(each.name + "#", shape=size[1:2]) for each in (mean, var)]
        CURRENT.aux[kept[0].name] = mean.name, 1.0
        CURRENT.aux[kept[1].name] = var.name, n / max(n - 1.0, 1.0) if unbiased else 1.0
    settings = {"eps": epsilon, "momentum": momentum, "fix_gamma": False, "use_global_stats": not training_mode}
    return SYM.BatchNorm(x, scale, bias, *kept, **settings), None, None


def Relu(x):
    return SYM.relu(x)


def Sigmoid(x):
    return SYM.sigmoid(x)


def Tanh(x):
    return SYM.tanh(x)


def Add(a, b):
    return _with_number(a, b, SYM.broadcast_add, lambda a, b: a + b)


def Sub(a, b):
    return _with_number(a, b, SYM.broadcast_sub, lambda a, b: a - b)


def Mul(a, b):
    return _with_number(a, b, SYM.broadcast_mul, lambda a, b: a * b)


def Div(a, b):
    return _with_number(a, b, SYM.broadcast_div, lambda a, b: a / b)


def _with_number(a, b, both, one):
    return both(a, b) if isinstance(a, mx.sym.Symbol) and isinstance(b, mx.sym.Symbol) else one(a, b)


def Less(a, b):
    return SYM.broadcast_lesser(SYM.cast(a, "float32"), SYM.cast(b, "float32"))


def Cast(x, *, to):
    return SYM.cast(x, type_of(to))


def Dropout(x, ratio=0.5, training=False, *, seed=0, rng=None):
    return SYM.Dropout(x, p=ratio) if training and CURRENT.dropout else x


def Reshape(x, sizes, *, allowzero=0):
    return SYM.reshape(x, shape=tuple(sizes))


def Flatten(x, *, axis=1):
    sizes = shape(x)
    return SYM.reshape(x, shape=(int(np.prod(sizes[:axis])), -1))


def Transpose(x, *, perm=None):
    return SYM.transpose(x, axes=perm or tuple(reversed(range(len(shape(x))))))


def Concat(*arrays, axis):
    return SYM.concat(*arrays, dim=axis)


def Unsqueeze(x, axes):
    sizes = [*shape(x)]
    for axis in sorted(a % (len(sizes) + len(axes)) for a in axes):
        sizes.insert(axis, 1)
    return SYM.reshape(x, shape=tuple(sizes))


def Squeeze(x, axes=None):
    return SYM.squeeze(x, axis=None if axes is None else tuple(axes))


def Slice(x, starts, ends, axes=None, steps=None):
    for index, (start, end) in enumerate(zip(starts, ends)):
        axis = axes[index] if axes else index
        settings = [None] * len(shape(x))
        begin, stop, step = list(settings), list(settings), list(settings)
        begin[axis], stop[axis], step[axis] = start, end if abs(end) < 2**31 else None, steps[index] if steps else 1
        x = SYM.slice(x, begin=begin, end=stop, step=step)
    return x


def Pad(x, pads, value=0.0, axes=None, *, mode="constant"):
    """MXNet's own pads no channels."""
    if mode != "constant" or axes is not None:
        raise Unsupported("Pad with mode %s, or axes" % mode)
    sizes = shape(x)
    for axis, (before, behind) in enumerate(zip(pads[: len(sizes)], pads[len(sizes) :])):
        parts = [x]
        for place, count in ((0, before), (2, behind)):
            if count:
                filled = SYM.full(tuple(count if a == axis else s for a, s in enumerate(shape(x))), value or 0.0)
                parts.insert(place, filled)
        x = SYM.concat(*parts, dim=axis) if len(parts) > 1 else x
    return x


def ReduceMean(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    return SYM.mean(x, axis=axes, keepdims=bool(keepdims))


def ReduceSum(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    return SYM.sum(x, axis=axes, keepdims=bool(keepdims))


def Gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    if alpha != 1 or beta != 1 or transA:
        raise Unsupported("Gemm with alpha, beta or transA")
    b = b if transB else SYM.transpose(b)
    settings = {"num_hidden": shape(b)[0], "flatten": False}
    return SYM.FullyConnected(a, b, no_bias=True, **settings) if c is None else SYM.FullyConnected(a, b, c, **settings)


def MatMul(a, b):
    return Gemm(a, b)


def Gather(table, indices, *, axis=0):
    return SYM.take(table, indices, axis=axis)


def LSTM(x, w, r, b=None, lengths=None, h0=None, c0=None, p=None, *, hidden_size=None, gate_order=None, **attributes):
    """MXNet's own, whose gates are stored as input, forget, cell, output."""
    if attributes or any(each is not None for each in (lengths, h0, c0, p)) or b is None:
        raise Unsupported("LSTM with %s" % ", ".join([*attributes, "a state, lengths or peepholes"]))
    size = shape(r)[2]
    wanted = gates(gate_order)

    def stored(array):
        """The rows of one direction, gate by gate as MXNet wants them."""
        parts = [SYM.slice_axis(array, axis=0, begin=gate * size, end=(gate + 1) * size) for gate in wanted]
        return SYM.reshape(array if wanted == [0, 1, 2, 3] else SYM.concat(*parts, dim=0), shape=(-1,))

    biases = SYM.reshape(b, shape=(2, 4 * size))
    halves = [SYM.reshape(SYM.slice_axis(biases, axis=0, begin=i, end=i + 1), shape=(-1,)) for i in (0, 1)]
    flat = [stored(SYM.reshape(w, shape=(4 * size, -1))), stored(SYM.reshape(r, shape=(4 * size, -1)))]
    given = SYM.concat(*flat, *map(stored, halves), dim=0)
    start = SYM.zeros((1, shape(x)[1], size))
    y = SYM.RNN(x, given, start, start, mode="lstm", state_size=size, num_layers=1)
    return SYM.expand_dims(y, axis=1), None, None


def cross_entropy(logits, labels):
    flat = SYM.log_softmax(SYM.reshape(logits, shape=(-1, shape(logits)[-1])))
    return -SYM.mean(SYM.pick(flat, SYM.reshape(labels, shape=(-1,)), axis=1))


def mean_squared_error(y, target):
    return SYM.mean(SYM.square(y - target))


TABLE = operators(globals())
LOSSES = {"cross_entropy": cross_entropy, "mean_squared_error": mean_squared_error}


class Model:
    def __init__(self, apply, params, state, settings):
        self.apply, self.settings, self.rule = apply, settings, settings["rule"]
        self.first = params, state
        self.params = {name: mx.nd.array(a, dtype=a.dtype) for name, a in params.items()}
        self.state = {name: mx.nd.array(a, dtype=a.dtype) for name, a in state.items()}
        self.aux, self.forms, self.answer, self.count = {}, {}, None, 0
        self.slots = slots(self.rule) if settings["mode"] == "step" else ()
        self.kept = {s: {n: mx.nd.zeros(a.shape) for n, a in params.items()} for s in self.slots}
        self.stale = False

    def symbols(self, arrays):
        """The inputs as symbols that know their shapes, and the text's params and state."""
        inputs = [SYM.var("input%d" % i, shape=a.shape, dtype=a.dtype) for i, a in enumerate(arrays)]
        named = [
            {n: SYM.var(n, shape=a.shape, dtype=a.dtype) for n, a in group.items()}
            for group in (self.params, self.state)
        ]
        return inputs, named

    def prepare(self, inputs, labels, dropout):
        self.write_back()
        self.shapes = [a.shape for a in inputs]
        self.answer = None
        if self.settings["mode"] == "forward":
            self.answering(inputs)
            return True
        CURRENT.aux, CURRENT.dropout = {}, dropout
        given, (params, state) = self.symbols(inputs)
        target = SYM.var("labels", shape=labels.shape, dtype=labels.dtype)
        outputs, _ = self.apply(params, state, *given, training=True)
        loss = self.settings["loss"]
        terms = [w * LOSSES[loss["name"]](y, target) for y, w in zip(outputs, loss["weights"])]
        total = SYM.reshape(sum(terms[1:], terms[0]), shape=(1,))
        self.forms = dict(CURRENT.aux)
        self.aux = {name: mx.nd.zeros(self.state[n].shape) for name, (n, _) in self.forms.items()}
        for p in self.params.values():
            p.attach_grad()
        self.grads = {name: p.grad for name, p in self.params.items()}
        self.call = self.bound(total)
        self.scale_in()
        return True

    def bound(self, symbol):
        """A symbol as a function of its inputs: it reads them, and our own arrays, where they lie."""
        names, call = symbol.list_inputs(), mx.nd.CachedOp(symbol)
        own = dict(self.state, **self.params)
        own.update(self.aux)

        def made(inputs, *labels):
            given = dict(own, labels=labels[0] if labels else None)
            given.update(("input%d" % i, x) for i, x in enumerate(inputs))
            found = call(*[given[name] for name in names])
            return found if isinstance(found, list) else [found]

        return made

    def answering(self, arrays):
        """The function of evaluation, for arrays of these shapes."""
        CURRENT.dropout = False
        given, (params, state) = self.symbols(arrays)
        outputs, _ = self.apply(params, state, *given, training=False)
        self.answer = self.bound(SYM.Group(list(outputs)))

    def scale_in(self):
        for name, (statistic, factor) in self.forms.items():
            self.aux[name][:] = self.state[statistic] / factor

    def write_back(self):
        """The running statistics of what trains, as PyTorch keeps them."""
        if self.stale:
            for name, (statistic, factor) in self.forms.items():
                self.state[statistic][:] = self.aux[name] * factor
            self.stale = False

    def put(self, arrays):
        values = [mx.nd.array(a, dtype=a.dtype) for a in arrays]
        mx.nd.waitall()
        return values

    def forward(self, inputs):
        self.write_back()
        if self.answer is None:
            self.answering(inputs)
        outputs = self.answer(inputs)
        mx.nd.waitall()
        return outputs

    def run(self, inputs, labels):
        with mx.autograd.record():
            (loss,) = self.call(inputs, labels)
        loss.backward()
        return loss

    def gradients(self, inputs, labels):
        loss = self.run(inputs, labels)
        grads = {name: grad.copy() for name, grad in self.grads.items()}
        mx.nd.waitall()
        return loss, grads

    def step(self, inputs, labels):
        loss = self.run(inputs, labels)
        self.stale, self.count = bool(self.forms), self.count + 1
        rule, given = self.rule, numbers(self.rule, self.count)
        plain = rule["name"] == "sgd" and not (rule["nesterov"] or rule["clip"] or rule["schedule"])
        if plain and self.slots:
            self.fused(given[0])
        else:
            params, kept = update(rule, given, self.params, self.grads, self.kept, lambda a: a.sum(), smaller, root)
            for name, value in params.items():
                self.params[name][:] = value
            for slot, arrays in kept.items():
                for name, value in arrays.items():
                    self.kept[slot][name][:] = value
        mx.nd.waitall()
        return loss

    def fused(self, lr):
        """MXNet's own step with momentum, which keeps PyTorch's times minus the learning rate."""
        rule = self.rule
        for name, p in self.params.items():
            settings = {"lr": lr, "momentum": rule["momentum"], "wd": rule["weight_decay"], "out": p}
            mx.nd.sgd_mom_update(p, self.grads[name], self.kept["momentum"][name], **settings)

    def get(self, value):
        found = value.asnumpy()
        return found.reshape(()) if found.shape == (1,) else found

    def weights(self):
        self.write_back()
        return {name: a.asnumpy() for name, a in [*self.params.items(), *self.state.items()]}

    def memory(self):
        rule = self.rule
        fused = rule["name"] == "sgd" and not (rule["nesterov"] or rule["clip"] or rule["schedule"])
        factor = -1 / numbers(rule, 1)[0] if fused else 1.0
        return {"%s.%s" % (s, n): a.asnumpy() * np.float32(factor) for s in self.slots for n, a in self.kept[s].items()}

    def reset(self):
        for arrays, first in ((self.params, self.first[0]), (self.state, self.first[1])):
            for name, array in arrays.items():
                array[:] = first[name]
        for arrays in self.kept.values():
            for array in arrays.values():
                array[:] = 0
        self.count, self.stale = 0, False
        self.scale_in()
        mx.nd.waitall()


def smaller(a, b):
    return mx.nd.minimum(a, b)


def root(a):
    return a**0.5
