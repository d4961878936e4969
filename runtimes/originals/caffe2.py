"""Caffe2, as PyTorch 1.8.1 has it: the printed text as operators of a net, which a workspace runs; inference only.

While the text is read each operator is run once, so that shapes are known.
"""

import numpy as np
import torch
from caffe2.python import core, workspace

from xbench.runtimes.originals.reading import Unsupported, gates, operators, plain, type_of

VERSIONS = {"torch": torch.__version__}


class Blob:
    """A tensor of the workspace, by name."""

    def __init__(self, name):
        self.name = name

    @property
    def shape(self):
        return workspace.FetchBlob(self.name).shape


class Trace:
    """The net that is being written, and how many blobs it has."""

    net, count = None, 0


def fed(array, name=None):
    """An array as a blob, of a name of its own where none is settings."""
    Trace.count += 1
    blob = Blob(name or "fed%d" % Trace.count)
    workspace.FeedBlob(blob.name, np.ascontiguousarray(array))
    return blob


def emit(kind, inputs, outputs=1, **arguments):
    """Adds an operator to the net and runs it once; its first output."""
    inputs = [each if isinstance(each, Blob) else fed(np.float32(each)) for each in inputs]
    names = ["blob%d" % (Trace.count + i + 1) for i in range(outputs)]
    Trace.count += outputs
    made = core.CreateOperator(kind, [each.name for each in inputs], names, **arguments)
    Trace.net.Proto().op.extend([made])
    workspace.RunOperatorOnce(made)
    return Blob(names[0])


def Conv(x, w, b=None, *, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None, strides=None):
    plain("Conv", auto_pad)
    size = w.shape[2:]
    one = [1] * len(size)
    settings = {"kernels": list(size), "strides": list(strides or one), "dilations": list(dilations or one)}
    inputs = [x, w] if b is None else [x, w, b]
    return emit("Conv", inputs, pads=list(pads or [0] * 2 * len(size)), group=group, **settings)


def _pool(kind, x, kernel_shape, pads, strides, **settings):
    pads = list(pads or [0] * 2 * len(kernel_shape))
    return emit(
        kind, [x], kernels=list(kernel_shape), pads=pads, strides=list(strides or [1] * len(kernel_shape)), **settings
    )


def MaxPool(x, *, kernel_shape, pads=None, strides=None, ceil_mode=0, dilations=None, auto_pad="NOTSET", outputs=1):
    plain("MaxPool", auto_pad, ceil_mode=ceil_mode, dilations=dilations, indices=outputs > 1)
    return _pool("MaxPool", x, kernel_shape, pads, strides)


def AveragePool(x, *, kernel_shape, pads=None, strides=None, ceil_mode=0, count_include_pad=0, auto_pad="NOTSET"):
    plain("AveragePool", auto_pad, ceil_mode=ceil_mode)
    return _pool("AveragePool", x, kernel_shape, pads, strides, count_include_pad=bool(count_include_pad))


def GlobalAveragePool(x):
    return emit("AveragePool", [x], global_pooling=True)


def BatchNormalization(x, scale, bias, mean, var, *, epsilon=1e-5, momentum=0.9, training_mode=False, unbiased=0):
    return emit("SpatialBN", [x, scale, bias, mean, var], is_test=1, epsilon=epsilon, order="NCHW"), None, None


def Relu(x):
    return emit("Relu", [x])


def Sigmoid(x):
    return emit("Sigmoid", [x])


def Tanh(x):
    return emit("Tanh", [x])


def Softmax(x, *, axis=-1):
    if axis % len(x.shape) != len(x.shape) - 1:
        raise Unsupported("Softmax along an axis that is not the last")
    return emit("Softmax", [x], axis=len(x.shape) - 1)


def Add(a, b):
    return emit("Add", [a, b], broadcast=1)


def Sub(a, b):
    return emit("Sub", [a, b], broadcast=1)


def Mul(a, b):
    return emit("Mul", [a, b], broadcast=1)


def Div(a, b):
    return emit("Div", [a, b], broadcast=1)


def Cast(x, *, to):
    return emit("Cast", [x], to=getattr(core.DataType, type_of(to).upper().replace("FLOAT32", "FLOAT")))


def Dropout(x, ratio=0.5, training=False, *, seed=0, rng=None):
    return x


def Reshape(x, sizes, *, allowzero=0):
    return emit("Reshape", [x], 2, shape=list(sizes))


def Flatten(x, *, axis=1):
    return emit("Flatten", [x], axis=axis)


def Transpose(x, *, perm=None):
    return emit("Transpose", [x], axes=list(perm or reversed(range(len(x.shape)))))


def Concat(*arrays, axis):
    return emit("Concat", arrays, 2, axis=axis % len(arrays[0].shape))


def Unsqueeze(x, axes):
    rank = len(x.shape) + len(axes)
    return emit("ExpandDims", [x], dims=sorted(axis % rank for axis in axes))


def Squeeze(x, axes=None):
    rank = len(x.shape)
    found = [i for i, size in enumerate(x.shape) if size == 1] if axes is None else [axis % rank for axis in axes]
    return emit("Squeeze", [x], dims=sorted(found))


def Slice(x, starts, ends, axes=None, steps=None):
    """Its own has no steps: those along the height and the width of an image are a pooling of single pixels."""
    for index, (start, end) in enumerate(zip(starts, ends)):
        shape, step = x.shape, steps[index] if steps else 1
        axis = (axes[index] if axes else index) % len(shape)
        stop = min(end, shape[axis]) if end >= 0 else end + shape[axis]
        begins, stops = [0] * len(shape), list(shape)
        begins[axis], stops[axis] = start % shape[axis], stop
        if (begins[axis], stop) != (0, shape[axis]):
            x = emit("Slice", [x], starts=begins, ends=stops)
        if step != 1:
            if len(shape) != 4 or axis < 2 or step < 1:
                raise Unsupported("Slice with steps along axis %d" % axis)
            x = emit("MaxPool", [x], kernels=[1, 1], strides=[step if a == axis else 1 for a in (2, 3)])
    return x


def Pad(x, pads, value=0.0, axes=None, *, mode="constant"):
    """Its own pads no channels: what is added is an array beside."""
    if mode != "constant" or axes is not None:
        raise Unsupported("Pad with mode %s, or axes" % mode)
    rank = len(x.shape)
    for axis in range(rank):
        parts = [x]
        for place, count in ((0, pads[axis]), (2, pads[rank + axis])):
            if count:
                size = tuple(count if a == axis else s for a, s in enumerate(x.shape))
                parts.insert(place, fed(np.full(size, value or 0.0, np.float32)))
        x = Concat(*parts, axis=axis) if len(parts) > 1 else x
    return x


def ReduceMean(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    return emit("ReduceMean", [x], axes=list(axes or range(len(x.shape))), keepdims=keepdims)


def ReduceSum(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    return emit("ReduceSum", [x], axes=list(axes or range(len(x.shape))), keepdims=keepdims)


def Gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    if alpha != 1 or beta != 1 or transA:
        raise Unsupported("Gemm with alpha, beta or transA")
    b = b if transB else Transpose(b)
    c = fed(np.zeros(b.shape[0], np.float32)) if c is None else c
    return emit("FC", [a, b, c], axis=len(a.shape) - 1)


def Gather(table, indices, *, axis=0):
    if axis:
        raise Unsupported("Gather along axis %d" % axis)
    return emit("Gather", [table, indices])


def LSTM(x, w, r, b=None, lengths=None, h0=None, c0=None, p=None, *, hidden_size=None, gate_order=None, **attributes):
    """Step by step, each of its own operators; x is (time, batch, input)."""
    if attributes or any(each is not None for each in (lengths, h0, c0, p)) or b is None:
        raise Unsupported("LSTM with %s" % ", ".join([*attributes, "a state, lengths or peepholes"]))
    steps, batch, size = x.shape[0], x.shape[1], r.shape[2]
    w, r = Squeeze(w, (0,)), Squeeze(r, (0,))
    halves = Reshape(b, (2, 4 * size))
    rows = emit("FC", [x, w, ReduceSum(halves, (0,), keepdims=0)], axis=2)
    nothing, found = fed(np.zeros(4 * size, np.float32)), []
    h = c = fed(np.zeros((batch, size), np.float32))
    for step in range(steps):
        z = Squeeze(emit("Slice", [rows], starts=[step, 0, 0], ends=[step + 1, batch, 4 * size]), (0,))
        z = emit("Add", [z, emit("FC", [h, r, nothing])])
        i, f, g, o = (
            emit("Slice", [z], starts=[0, at * size], ends=[batch, (at + 1) * size]) for at in gates(gate_order)
        )
        c = Add(Mul(Sigmoid(f), c), Mul(Sigmoid(i), Tanh(g)))
        h = Mul(Sigmoid(o), Tanh(c))
        found.append(Unsqueeze(h, (0, 1)))
    return Concat(*found, axis=0), None, None


TABLE = operators(globals())


class Model:
    def __init__(self, apply, params, state, settings):
        workspace.GlobalInit(["caffe2", "--caffe2_log_level=2", "--caffe2_omp_num_threads=%d" % settings["threads"]])
        self.apply = apply
        self.arrays = dict(params, **state)
        self.params, self.state = (
            {n: fed(a, "%s/%s" % (kind, n)) for n, a in group.items()}
            for kind, group in (("params", params), ("state", state))
        )

    def prepare(self, inputs, labels, dropout):
        Trace.net = core.Net("xbench")
        given = [fed(array, "input%d" % index) for index, array in enumerate(inputs)]
        outputs, _ = self.apply(self.params, self.state, *given, training=False)
        self.outputs = [each.name for each in outputs]
        self.name = Trace.net.Proto().name
        workspace.CreateNet(Trace.net, overwrite=True)
        return True

    def put(self, arrays):
        """NumPy's: a net reads blobs of its own names, into which a step copies."""
        return arrays

    def forward(self, inputs):
        for index, array in enumerate(inputs):
            workspace.FeedBlob("input%d" % index, array)
        workspace.RunNet(self.name)
        return [workspace.FetchBlob(name) for name in self.outputs]

    def get(self, value):
        return value

    def weights(self):
        blobs = dict(self.params, **self.state)
        return {name: workspace.FetchBlob(blob.name) for name, blob in blobs.items()}
