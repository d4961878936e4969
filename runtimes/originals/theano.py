"""Theano 1.0.5: the printed text as its symbols, compiled with g++; parameters are shared variables."""

import fcntl
import os

import numpy as np
import theano
import theano.tensor as T
from theano.sandbox.rng_mrg import MRG_RandomStreams
from theano.tensor.nnet import bn
from theano.tensor.signal import pool

from xbench.runtimes.originals.reading import Unsupported, operators, plain, symmetric, type_of
from xbench.runtimes.originals.update import NUMBERS, numbers, slots, update

VERSIONS = {"theano": theano.__version__}
EPSILON = np.float32(1.0000001e-5)  # the least that it takes: float32's 1e-5 lies below float64's
RANDOM = MRG_RandomStreams(1)


def _two(rank, what, auto_pad, **others):
    plain(what, auto_pad, **others)
    if rank != 2:
        raise Unsupported("%s of %d dimensions" % (what, rank))


def Conv(x, w, b=None, *, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None, strides=None):
    _two(x.ndim - 2, "Conv", auto_pad)
    settings = {"subsample": strides or (1, 1), "filter_dilation": dilations or (1, 1), "num_groups": group}
    settings["filter_shape"] = w.get_value(borrow=True).shape if hasattr(w, "get_value") else None
    y = T.nnet.conv2d(x, w, border_mode=symmetric(pads, 2, "Conv"), filter_flip=False, **settings)
    return y if b is None else y + b.dimshuffle("x", 0, "x", "x")


def MaxPool(x, *, kernel_shape, pads=None, strides=None, ceil_mode=0, dilations=None, auto_pad="NOTSET", outputs=1):
    _two(len(kernel_shape), "MaxPool", auto_pad)
    if dilations or outputs > 1 or ceil_mode:
        raise Unsupported("MaxPool with dilations, indices or ceil_mode")
    settings = {"stride": strides or (1, 1), "pad": symmetric(pads, 2, "MaxPool")}
    return pool.pool_2d(x, kernel_shape, ignore_border=True, mode="max", **settings)


def AveragePool(x, *, kernel_shape, pads=None, strides=None, ceil_mode=0, count_include_pad=0, auto_pad="NOTSET"):
    _two(len(kernel_shape), "AveragePool", auto_pad)
    if ceil_mode:
        raise Unsupported("AveragePool with ceil_mode")
    settings = {"stride": strides or (1, 1), "pad": symmetric(pads, 2, "AveragePool")}
    settings["mode"] = "average_inc_pad" if count_include_pad or not any(settings["pad"]) else "average_exc_pad"
    return pool.pool_2d(x, kernel_shape, ignore_border=True, **settings)


def GlobalAveragePool(x):
    return T.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True)


def BatchNormalization(x, scale, bias, mean, var, *, epsilon=1e-5, momentum=0.9, training_mode=False, unbiased=0):
    """Theano's own running variance is the unbiased one, as PyTorch's is."""
    axes, epsilon = (0,) + tuple(range(2, x.ndim)), max(np.float32(epsilon), EPSILON)
    if not training_mode:
        return bn.batch_normalization_test(x, scale, bias, mean, var, axes=axes, epsilon=epsilon), mean, var
    if not unbiased:
        raise Unsupported("BatchNormalization with a biased running variance")
    settings = {"running_average_factor": 1 - momentum, "running_mean": mean, "running_var": var}
    y, _, _, mean, var = bn.batch_normalization_train(x, scale, bias, axes=axes, epsilon=epsilon, **settings)
    return y, mean, var


def Relu(x):
    """By a choice: Theano's own has half of PyTorch's gradient at 0."""
    return T.switch(x > 0, x, T.zeros_like(x))


def Sigmoid(x):
    return T.nnet.sigmoid(x)


def Tanh(x):
    return T.tanh(x)


def Add(a, b):
    return a + b


def Sub(a, b):
    return a - b


def Mul(a, b):
    return a * b


def Div(a, b):
    return a / b


def Less(a, b):
    return T.lt(a, b)


def Cast(x, *, to):
    return T.cast(x, type_of(to))


def Dropout(x, ratio=0.5, training=False, *, seed=0, rng=None):
    if not (training and rng):
        return x
    return x * RANDOM.binomial(x.shape, p=1 - ratio, dtype="float32") / np.float32(1 - ratio)


def Reshape(x, sizes, *, allowzero=0):
    sizes = [x.shape[i] if s == 0 and not allowzero else s for i, s in enumerate(sizes)]
    return T.reshape(x, sizes, ndim=len(sizes))


def Flatten(x, *, axis=1):
    return T.reshape(x, (T.prod(x.shape[:axis]), -1), ndim=2)


def Transpose(x, *, perm=None):
    return T.transpose(x, perm)


def Concat(*arrays, axis):
    return T.concatenate(arrays, axis=axis)


def Unsqueeze(x, axes):
    for axis in sorted(a % (x.ndim + len(axes)) for a in axes):
        x = T.shape_padaxis(x, axis)
    return x


def Squeeze(x, axes=None):
    if axes is None:
        raise Unsupported("Squeeze without axes")
    gone = {axis % x.ndim for axis in axes}
    return T.addbroadcast(x, *gone).dimshuffle([axis for axis in range(x.ndim) if axis not in gone])


def Slice(x, starts, ends, axes=None, steps=None):
    cut = [slice(None)] * x.ndim
    for index, (start, end) in enumerate(zip(starts, ends)):
        stop = end if abs(end) < 2**31 else None
        cut[axes[index] if axes else index] = slice(start, stop, steps[index] if steps else 1)
    return x[tuple(cut)]


def Pad(x, pads, value=0.0, axes=None, *, mode="constant"):
    if mode != "constant" or axes is not None:
        raise Unsupported("Pad with mode %s, or axes" % mode)
    begins, sizes = pads[: x.ndim], [x.shape[i] + pads[i] + pads[x.ndim + i] for i in range(x.ndim)]
    inner = tuple(slice(b, b + x.shape[i]) for i, b in enumerate(begins))
    return T.set_subtensor(T.alloc(np.float32(value or 0.0), *sizes)[inner], x)


def ReduceMean(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    return T.mean(x, axis=axes, keepdims=bool(keepdims))


def ReduceSum(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    return T.sum(x, axis=axes, keepdims=bool(keepdims))


def Gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    if alpha != 1 or beta != 1 or transA:
        raise Unsupported("Gemm with alpha, beta or transA")
    y = T.dot(a, b.T if transB else b)
    return y if c is None else y + c


def MatMul(a, b):
    return T.dot(a, b) if b.ndim == 2 else T.batched_dot(a, b)


def Gather(table, indices, *, axis=0):
    return T.take(table, indices, axis=axis)


def cross_entropy(logits, labels):
    flat = T.nnet.logsoftmax(logits if logits.ndim == 2 else logits.reshape((-1, logits.shape[-1]), ndim=2))
    labels = labels.flatten()
    return -T.mean(flat[T.arange(labels.shape[0]), labels])


def mean_squared_error(y, target):
    return T.mean(T.sqr(y - target))


TABLE = operators(globals())
LOSSES = {"cross_entropy": cross_entropy, "mean_squared_error": mean_squared_error}


def compiled(*arguments, **settings):
    """`theano.function`, in one process at a time: what one of them cleans from the disk another is about to read."""
    with open(os.path.join(theano.config.compiledir, "xbench.lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return theano.function(*arguments, **settings)


def symbol(name, dtype, rank):
    return T.TensorType(dtype, (False,) * rank)(name)


class Model:
    def __init__(self, apply, params, state, settings):
        self.apply, self.settings, self.rule, self.first = apply, settings, settings["rule"], (params, state)
        self.params, self.state = (
            {name: theano.shared(a.copy(), name=name, borrow=True) for name, a in group.items()} for group in self.first
        )
        names = slots(self.rule) if settings["mode"] == "step" else ()
        self.kept = {slot: {n: theano.shared(np.zeros_like(a)) for n, a in params.items()} for slot in names}
        self.call, self.answer, self.dropout, self.count = None, None, None, 0

    def prepare(self, inputs, labels, dropout):
        """Whatever the batch, one compilation serves: shapes are not in it."""
        self.types = [(a.dtype.name, a.ndim) for a in inputs]
        if self.settings["mode"] == "forward":
            made = self.answer is None
            self.answer = self.answer or self.answering()
            return made
        if self.call is not None and self.dropout == dropout:
            return False
        self.dropout = dropout
        given = [symbol("input%d" % i, *each) for i, each in enumerate(self.types)]
        target = symbol("labels", labels.dtype.name, labels.ndim)
        outputs, changed = self.apply(self.params, self.state, *given, training=True, rng=1 if dropout else None)
        rule = self.settings["loss"]
        terms = [LOSSES[rule["name"]](y, target) * np.float32(w) for y, w in zip(outputs, rule["weights"])]
        loss = sum(terms[1:], terms[0])
        wrt = list(self.params.values())
        grads = dict(zip(self.params, T.grad(loss, wrt, disconnected_inputs="ignore")))
        if self.settings["mode"] == "gradient":
            self.call = compiled(given + [target], [loss] + list(grads.values()))
            return True
        scalars = [T.fscalar(name) for name in NUMBERS]
        params, kept = update(self.rule, scalars, self.params, grads, self.kept, T.sum, T.minimum, T.sqrt)
        updates = [(self.params[name], new) for name, new in params.items()]
        updates += [(self.kept[slot][name], new) for slot, arrays in kept.items() for name, new in arrays.items()]
        updates += [(self.state[name], new) for name, new in changed.items()]
        updates = [(held, T.patternbroadcast(T.cast(new, "float32"), held.broadcastable)) for held, new in updates]
        settings = {"updates": updates, "on_unused_input": "ignore"}
        self.call = compiled(given + [target] + scalars, loss, **settings)
        return True

    def answering(self):
        given = [symbol("input%d" % i, *each) for i, each in enumerate(self.types)]
        outputs, _ = self.apply(self.params, self.state, *given, training=False)
        return compiled(given, list(outputs), on_unused_input="ignore")

    def recalled(self):
        """Whether it found compiled modules on disk, by its own count."""
        return theano.gof.cmodule.get_module_cache(theano.config.compiledir).stats[1] > 0

    def put(self, arrays):
        return arrays

    def forward(self, inputs):
        self.answer = self.answer or self.answering()
        return self.answer(*inputs)

    def gradients(self, inputs, labels):
        loss, *grads = self.call(*inputs, labels)
        return loss, dict(zip(self.params, grads))

    def step(self, inputs, labels):
        self.count += 1
        return self.call(*inputs, labels, *[np.float32(number) for number in numbers(self.rule, self.count)])

    def get(self, value):
        return value

    def weights(self):
        return {name: v.get_value() for name, v in [*self.params.items(), *self.state.items()]}

    def memory(self):
        return {"%s.%s" % (slot, n): v.get_value() for slot, kept in self.kept.items() for n, v in kept.items()}

    def reset(self):
        for held, first in zip((self.params, self.state), self.first):
            for name, variable in held.items():
                variable.set_value(first[name])
        for kept in self.kept.values():
            for variable in kept.values():
                variable.set_value(np.zeros_like(variable.get_value(borrow=True)))
        self.count = 0
