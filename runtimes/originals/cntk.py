"""CNTK 2.7: the printed text as its functions. Samples lie along its own batch axis, which no shape of CNTK names:
every tensor knows where in ONNX's shape that axis is, and what the text says of axes is said of the others.

The update is a learner of its `universal` kind, whose formula is CNTK's functions, too.
"""

import math
import warnings

import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it knows Ubuntu 16.04 only, and wants a GPU
    import cntk as C

from xbench.runtimes.originals.reading import Unsupported, operators, plain, symmetric, type_of
from xbench.runtimes.originals.update import numbers, slots, update

VERSIONS = {"cntk": C.__version__}
BATCH, ALL, MANY = C.Axis.default_batch_axis(), C.Axis.all_axes(), 1e9


class Tensor:
    """A CNTK value without its batch axis, and the place of that axis in ONNX's shape; None where it has none."""

    def __init__(self, value, batch=0):
        self.value, self.batch = value, batch

    @property
    def rank(self):
        return len(self.value.shape) + (self.batch is not None)

    def axis(self, axis):
        """The static axis that is meant by one of ONNX's.

        Raises:
            Unsupported: it is the batch.
        """
        axis %= self.rank
        if axis == self.batch:
            raise Unsupported("CNTK has no such operation along the batch")
        return axis - (self.batch is not None and axis > self.batch)


class Trace:
    """What a text that is read must know: the batch, whether dropout is on, whether statistics are kept."""

    size, dropout, keeps = 1, False, False


def of(x):
    return x if isinstance(x, Tensor) else Tensor(x, None)


def elementwise(function):
    return lambda x: Tensor(function(of(x).value), of(x).batch)


def _window(x, kernel, pads, dilations, what, fill=True):
    """The input, padded where CNTK's own padding, the middle of an odd kernel, is another; and whether it pads."""
    pads = symmetric(pads, len(kernel), what)
    own = [bool(k % 2 and p == k // 2 and d == 1) for k, p, d in zip(kernel, pads, dilations or (1,) * len(kernel))]
    if any(p and not o for p, o in zip(pads, own)):
        if not fill:
            raise Unsupported("%s with pads %s" % (what, (pads,)))
        return C.pad(x.value, [(0, 0)] + [(p, p) for p in pads]), [False] * len(kernel)
    return x.value, [o and bool(p) for o, p in zip(own, pads)]


def Conv(x, w, b=None, *, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None, strides=None):
    plain("Conv", auto_pad)
    kernel = of(w).value.shape[2:]
    value, padding = _window(x, kernel, pads, dilations, "Conv")
    settings = {"strides": strides or (1,) * len(kernel), "auto_padding": [False] + padding, "groups": group}
    y = C.convolution(of(w).value, value, dilation=dilations or (1,) * len(kernel), **settings)
    return Tensor(y if b is None else y + _by_channel(b, len(kernel)))


def _by_channel(array, rank):
    array = of(array).value
    return C.reshape(array, array.shape[:1] + (1,) * rank)


def _pool(x, kind, kernel_shape, pads, strides, ceil_mode, **settings):
    value, padding = _window(x, kernel_shape, pads, None, "a pooling", fill=False)
    settings.update(strides=strides or (1,) * len(kernel_shape), auto_padding=padding, ceil_out_dim=bool(ceil_mode))
    return Tensor(C.pooling(value, kind, kernel_shape, **settings))


def MaxPool(x, *, kernel_shape, pads=None, strides=None, ceil_mode=0, dilations=None, auto_pad="NOTSET", outputs=1):
    plain("MaxPool", auto_pad)
    if dilations or outputs > 1:
        raise Unsupported("MaxPool with dilations or indices")
    return _pool(x, C.MAX_POOLING, kernel_shape, pads, strides, ceil_mode)


def AveragePool(x, *, kernel_shape, pads=None, strides=None, ceil_mode=0, count_include_pad=0, auto_pad="NOTSET"):
    plain("AveragePool", auto_pad)
    return _pool(x, C.AVG_POOLING, kernel_shape, pads, strides, ceil_mode, include_pad=bool(count_include_pad))


def GlobalAveragePool(x):
    return ReduceMean(x, tuple(range(2, x.rank)))


def BatchNormalization(x, scale, bias, mean, var, *, epsilon=1e-5, momentum=0.9, training_mode=False, unbiased=0):
    """CNTK's own running variance is the unbiased one, as PyTorch's is, and it writes the statistics it is given. Its
    momentum is a number of samples; `MANY` it has seen before, else the first ones would count for more."""
    if training_mode and not unbiased:
        raise Unsupported("BatchNormalization with a biased running variance")
    kept = [of(mean).value, of(var).value]
    if training_mode and not Trace.keeps:
        kept = [C.Constant(each.value) for each in kept]
    settings = {"spatial": True, "epsilon": epsilon, "normalization_time_constant": -Trace.size / math.log(momentum)}
    given = (x.value, of(scale).value, of(bias).value, *kept)
    return (
        Tensor(C.batch_normalization(*given, running_count=C.constant(MANY, ()), use_cudnn_engine=False, **settings)),
        None,
        None,
    )


Relu, Sigmoid, Tanh = elementwise(C.relu), elementwise(C.sigmoid), elementwise(C.tanh)


def both(function):
    """A function of two tensors, or of one and a number; a batch is at the same place in both, or in one alone."""

    def call(a, b):
        a, b = of(a), of(b)
        if a.batch is not None and b.batch is not None and a.batch - a.rank != b.batch - b.rank:
            raise Unsupported("arithmetic of batches along different axes")
        return Tensor(function(a.value, b.value), b.batch if a.batch is None else a.batch)

    return call


Add, Sub = both(lambda a, b: a + b), both(lambda a, b: a - b)
Mul, Div = both(lambda a, b: a * b), both(lambda a, b: a / b)
Less = both(C.less)


def Cast(x, *, to):
    """All of its numbers are float32."""
    type_of(to)
    return x


def Dropout(x, ratio=0.5, training=False, *, seed=0, rng=None):
    return Tensor(C.dropout(x.value, ratio), x.batch) if training and Trace.dropout else x


def Reshape(x, sizes, *, allowzero=0):
    x = of(x)
    if x.batch is None:
        return Tensor(C.reshape(x.value, tuple(sizes)), None)
    if x.batch or sizes[0] not in (-1, Trace.size):
        raise Unsupported("CNTK has no Reshape that moves the batch")
    return Tensor(C.reshape(x.value, tuple(sizes[1:])))


def Flatten(x, *, axis=1):
    if axis != 1:
        raise Unsupported("Flatten at axis %d" % axis)
    return Tensor(C.reshape(x.value, (int(np.prod(x.value.shape)),)))


def Transpose(x, *, perm=None):
    x = of(x)
    perm = perm or tuple(reversed(range(x.rank)))
    static = [x.axis(axis) for axis in perm if axis != x.batch]
    value = x.value if static == sorted(static) else C.transpose(x.value, static)
    return Tensor(value, None if x.batch is None else perm.index(x.batch))


def Concat(*arrays, axis):
    first = of(arrays[0])
    return Tensor(C.splice(*[of(each).value for each in arrays], axis=first.axis(axis)), first.batch)


def Unsqueeze(x, axes):
    """The new axes are among the static ones, wherever they are in ONNX's shape."""
    x = of(x)
    rank = x.rank + len(axes)
    new, old = {axis % rank for axis in axes}, iter(range(x.rank))
    order = [None if place in new else next(old) for place in range(rank)]
    sizes = [1 if o is None else x.value.shape[x.axis(o)] for o in order if o is None or o != x.batch]
    batch = None if x.batch is None else order.index(x.batch)
    return Tensor(C.reshape(x.value, tuple(sizes)), batch)


def Squeeze(x, axes=None):
    x = of(x)
    if axes is None:
        raise Unsupported("Squeeze without axes")
    gone = {axis % x.rank for axis in axes}
    left = [axis for axis in range(x.rank) if axis not in gone]
    value = C.reshape(x.value, tuple(x.value.shape[x.axis(axis)] for axis in left if axis != x.batch))
    return Tensor(value, None if x.batch is None else left.index(x.batch))


def Slice(x, starts, ends, axes=None, steps=None):
    value = x.value
    for index, (start, end) in enumerate(zip(starts, ends)):
        axis, step = x.axis(axes[index] if axes else index), steps[index] if steps else 1
        stop = min(end, value.shape[axis]) if end >= 0 else end
        value = C.slice(value, [axis], [start], [0 if stop == value.shape[axis] else stop], [step])
    return Tensor(value, x.batch)


def Pad(x, pads, value=0.0, axes=None, *, mode="constant"):
    if mode != "constant" or axes is not None:
        raise Unsupported("Pad with mode %s, or axes" % mode)
    pattern = list(zip(pads[: x.rank], pads[x.rank :]))
    if x.batch is not None and any(pattern.pop(x.batch)):
        raise Unsupported("CNTK has no Pad of the batch")
    return Tensor(C.pad(x.value, pattern, constant_value=value or 0.0), x.batch)


def _reduced(x, axes, keepdims, function):
    if axes is None:
        raise Unsupported("CNTK has no reduction along the batch")
    y = Tensor(function(x.value, axis=[x.axis(axis) for axis in axes]), x.batch)  # which keeps them
    return y if keepdims else Squeeze(y, axes)


def ReduceMean(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    return _reduced(x, axes, keepdims, C.reduce_mean)


def ReduceSum(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    return _reduced(x, axes, keepdims, C.reduce_sum)


def Gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    if alpha != 1 or beta != 1 or transA or a.batch == a.rank - 1:
        raise Unsupported("Gemm with alpha, beta or transA")
    y = (C.times_transpose if transB else C.times)(a.value, of(b).value)
    return Tensor(y if c is None else y + of(c).value, a.batch)


def MatMul(a, b):
    return Gemm(a, b)


def Gather(table, indices, *, axis=0):
    if axis:
        raise Unsupported("Gather along axis %d" % axis)
    return Tensor(C.gather(of(table).value, indices.value), indices.batch)


def LSTM(x, w, r, b=None, lengths=None, h0=None, c0=None, p=None, *, hidden_size=None, gate_order=None, **attributes):
    """Step by step; x is (time, batch, input). CNTK's fused layer is for GPUs alone."""
    if attributes or any(each is not None for each in (lengths, h0, c0, p)) or b is None or x.batch != 1:
        raise Unsupported("LSTM with %s" % ", ".join([*attributes, "a state, lengths or peepholes"]))
    order, size, steps = gate_order or (0, 1, 2, 3), of(r).value.shape[2], x.value.shape[0]
    w, r = (C.reshape(of(each).value, of(each).value.shape[1:]) for each in (w, r))
    halves = C.reshape(of(b).value, (2, 4 * size))
    rows = C.times_transpose(x.value, w) + C.reduce_sum(halves, axis=0)  # (time, 4 * hidden), of all steps at once
    h = c = None
    found = []
    for step in range(steps):
        z = C.reshape(C.slice(rows, [0], [step], [step + 1]), (4 * size,))
        z = z if h is None else z + C.times_transpose(h, r)
        i, o, f, g = (C.slice(z, [0], [gate * size], [(gate + 1) * size]) for gate in order)
        new = C.sigmoid(i) * C.tanh(g)
        c = new if c is None else C.sigmoid(f) * c + new
        h = C.sigmoid(o) * C.tanh(c)
        found.append(C.reshape(h, (1, 1, size)))
    return Tensor(C.splice(*found, axis=0), 2), None, None


def cross_entropy(logits, labels):
    """Of every sample, by its share of the mean. CNTK's own takes all of a sample for one row."""
    value, target = logits.value, C.one_hot(labels, logits.value.shape[-1])
    if len(value.shape) == 1:
        return C.cross_entropy_with_softmax(value, target) / float(Trace.size)
    each = C.reduce_log_sum_exp(value, axis=-1) - C.reduce_sum(value * target, axis=-1)
    return C.reduce_sum(each) / (Trace.size * float(np.prod(value.shape[:-1])))


def mean_squared_error(y, target):
    away = y.value - target
    return C.reduce_sum(away * away) / (Trace.size * float(np.prod(y.value.shape)))


TABLE = operators(globals())
LOSSES = {"cross_entropy": cross_entropy, "mean_squared_error": mean_squared_error}


class Model:
    def __init__(self, apply, params, state, settings):
        C.device.try_set_default_device(C.device.cpu())
        C.cntk_py.set_max_num_cputhreads(settings["threads"])
        self.apply, self.settings, self.rule, self.first = apply, settings, settings["rule"], (params, state)
        self.params = {name: C.Parameter(init=np.asarray(a, np.float32)) for name, a in params.items()}
        self.state = {name: C.Constant(np.asarray(a, np.float32)) for name, a in state.items()}
        names = slots(self.rule) if settings["mode"] == "step" else ()
        self.kept = {slot: {n: C.Constant(np.zeros_like(a)) for n, a in params.items()} for slot in names}
        self.scalars = [C.constant(1.0, ()) for _ in numbers(self.rule, 1)]
        self.answer, self.count = None, 0

    def traced(self, inputs, training):
        """CNTK's inputs, and the outputs of the text."""
        given = [C.input_variable(a.shape[1:], dynamic_axes=[BATCH]) for a in inputs]
        params, state = ({n: Tensor(v, None) for n, v in each.items()} for each in (self.params, self.state))
        tensors = [Tensor(each) for each in given]
        outputs, _ = self.apply(params, state, *tensors, training=training, rng=1 if Trace.dropout else None)
        return given, outputs

    def prepare(self, inputs, labels, dropout):
        Trace.size, Trace.dropout, self.answer = len(labels), dropout, None
        Trace.keeps = self.settings["mode"] == "step"
        if self.settings["mode"] == "forward":
            self.answering(inputs)
            return True
        self.given, outputs = self.traced(inputs, True)
        self.target = C.input_variable(labels.shape[1:], dynamic_axes=[BATCH])
        rule = self.settings["loss"]
        terms = [w * LOSSES[rule["name"]](y, self.target) for y, w in zip(outputs, rule["weights"])]
        self.loss = C.reduce_sum(sum(terms[1:], terms[0]), axis=ALL)
        if self.settings["mode"] == "step":
            learner = C.universal(lambda params, grads: self.updated(params, grads), list(self.params.values()))
            self.trainer = C.Trainer(self.loss, (self.loss, None), [learner])
        return True

    def updated(self, params, grads):
        """The update as one of CNTK's functions; it is given what has a gradient."""
        names = {p.uid: name for name, p in self.params.items()}
        params = {names[p.uid]: p for p in params}
        grads = dict(zip(params, grads))
        use = (lambda a: C.reduce_sum(a, axis=C.Axis.all_static_axes())), C.element_min, C.sqrt
        news, kept = update(self.rule, self.scalars, params, grads, self.kept, *use)
        assigned = [C.assign(params[name], new) for name, new in news.items()]
        assigned += [C.assign(self.kept[slot][n], new) for slot, arrays in kept.items() for n, new in arrays.items()]
        return C.combine(assigned)

    def answering(self, inputs):
        Trace.dropout, dropout = False, Trace.dropout
        self.asked, outputs = self.traced(inputs, False)
        Trace.dropout = dropout
        self.answer, self.places = C.combine([y.value for y in outputs]), [y.batch for y in outputs]

    def put(self, arrays):
        """CNTK's own values, with a batch; all numbers are float32."""
        arrays = [np.ascontiguousarray(array, np.float32) for array in arrays]
        return [C.Value.create(C.input_variable(a.shape[1:], dynamic_axes=[BATCH]), a) for a in arrays]

    def forward(self, inputs):
        if self.answer is None:
            self.answering(inputs)
        found = self.answer.eval(dict(zip(self.asked, inputs)))
        found = [found[each] for each in self.answer.outputs] if isinstance(found, dict) else [found]
        return [np.moveaxis(y, 0, place) if place else np.asarray(y) for y, place in zip(found, self.places)]

    def fed(self, inputs, labels):
        return dict(zip([*self.given, self.target], [*inputs, labels]))

    def gradients(self, inputs, labels):
        wrt = list(self.params.values())
        grads, loss = self.loss.grad(self.fed(inputs, labels), wrt=wrt, outputs=[self.loss.output])
        grads = grads if isinstance(grads, dict) else {wrt[0]: grads}
        return np.asarray(loss), {name: np.asarray(grads[p]) for name, p in self.params.items()}

    def step(self, inputs, labels):
        self.count += 1
        for held, number in zip(self.scalars, numbers(self.rule, self.count)):
            held.value = np.array(number, np.float32)
        _, found = self.trainer.train_minibatch(self.fed(inputs, labels), outputs=[self.loss.output])
        return np.asarray(found[self.loss.output], np.float32).reshape(())

    def get(self, value):
        return value

    def weights(self):
        return {name: v.value.astype(a.dtype) for v, name, a in self.named()}

    def named(self):
        for held, first in zip((self.params, self.state), self.first):
            yield from ((held[name], name, array) for name, array in first.items())

    def memory(self):
        return {"%s.%s" % (slot, name): v.value for slot, kept in self.kept.items() for name, v in kept.items()}

    def reset(self):
        for held, _, array in self.named():
            held.value = np.asarray(array, np.float32)
        for kept in self.kept.values():
            for held in kept.values():
                held.value = np.zeros(held.shape, np.float32)
        self.count = 0
