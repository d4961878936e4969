"""The printed program as a functional model of Keras's own layers: an operator makes a layer, and a weight's name maps
to its variable in that. Images have their channels last, the one order that Keras has on every backend."""

from dataclasses import dataclass, field

import keras
import numpy as np

KERNEL, MATRIX = (2, 3, 1, 0), (1, 0)  # ONNX's axes in Keras's order


@dataclass
class Weight:
    """An array of the program, to become a layer's variable."""

    name: str
    array: np.ndarray


@dataclass
class Made:
    """The layers of a program: the variables of its arrays, by name, with the order of their axes; dropouts, with
    their rates."""

    variables: dict = field(default_factory=dict)
    orders: dict = field(default_factory=dict)
    dropouts: list = field(default_factory=list)


class Unsaid(NotImplementedError):
    """Keras has no layer for it; names the operator."""


class Unbiased(keras.layers.BatchNormalization):
    """With PyTorch's running variance, which is the population's; Keras's own is the batch's."""

    def call(self, inputs, training=None, mask=None):
        before = self.moving_variance.value
        outputs = super().call(inputs, training=training, mask=mask)
        if training:
            shape = keras.ops.shape(inputs)
            n = keras.ops.cast(keras.ops.prod(keras.ops.convert_to_tensor(shape[:-1])), "float32")
            added = self.moving_variance.value - before * self.momentum
            self.moving_variance.assign(before * self.momentum + added * (n / keras.ops.maximum(n - 1.0, 1.0)))
        return outputs


class Frozen(keras.layers.BatchNormalization):
    """Stays in evaluation; its scale and shift are still trained."""

    def call(self, inputs, training=None, mask=None):
        return super().call(inputs, training=False, mask=mask)


class Layers:
    """The operators, each a method of its name; their results are in `made`."""

    def __init__(self):
        self.made = Made()

    def table(self):
        return {name: getattr(self, name) for name in dir(self) if name[0].isupper()}

    def _hold(self, layer, **weights):
        """Records which variables of a layer are which arrays of the program."""
        for attribute, (weight, order) in weights.items():
            if weight is None:
                continue
            if weight.name in self.made.variables:
                raise Unsaid(f"{weight.name} belongs to two layers")
            self.made.variables[weight.name] = getattr(layer, attribute)
            if order:
                self.made.orders[weight.name] = order

    def Constant(self, *, value_float=None, value_ints=None):
        return value_float if value_ints is None else value_ints

    def Conv(
        self, x, w, b=None, *, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None, strides=None,
        channels_last=0,
    ):  # fmt: skip
        size = w.array.shape[2:]
        if auto_pad != "NOTSET" or len(size) != 2 or not channels_last:
            raise Unsaid("Conv with auto_pad, or of images that are not two-dimensional")
        pads, strides = pads or (0, 0, 0, 0), strides or (1, 1)
        same = strides == (1, 1) and not dilations and all(k % 2 and p == k // 2 for k, p in zip(size * 2, pads))
        if any(pads) and not same:
            x = keras.layers.ZeroPadding2D(((pads[0], pads[2]), (pads[1], pads[3])))(x)
        options = {"padding": "same" if same else "valid", "dilation_rate": dilations or 1, "groups": group}
        layer = keras.layers.Conv2D(w.array.shape[0], size, strides, use_bias=b is not None, **options)
        y = layer(x)
        self._hold(layer, kernel=(w, KERNEL), bias=(b, None))
        return y

    def MaxPool(self, x, *, kernel_shape, strides=None, channels_last=0, outputs=1, **others):
        return self._pooled(x, keras.layers.MaxPooling2D, "MaxPool", kernel_shape, strides, channels_last, others)

    def AveragePool(self, x, *, kernel_shape, strides=None, channels_last=0, count_include_pad=0, **others):
        layer = keras.layers.AveragePooling2D
        return self._pooled(x, layer, "AveragePool", kernel_shape, strides, channels_last, others)

    def _pooled(self, x, layer, what, size, strides, channels_last, others):
        if not channels_last or len(size) != 2 or any(map(bool, others.values())):
            raise Unsaid(f"{what} with {', '.join(others) or 'images that are not two-dimensional'}")
        return layer(size, strides or (1, 1))(x)

    def GlobalAveragePool(self, x, *, channels_last=0):
        if not channels_last:
            raise Unsaid("GlobalAveragePool of images that are not two-dimensional")
        return keras.layers.GlobalAveragePooling2D(keepdims=True)(x)

    def BatchNormalization(
        self, x, scale, bias, mean, var, *, epsilon=1e-5, momentum=0.9, training_mode=0, unbiased=0, channels_last=0
    ):
        if not channels_last and len(x.shape) > 2:
            raise Unsaid("BatchNormalization of images that are not two-dimensional")
        kind = Unbiased if unbiased else keras.layers.BatchNormalization
        layer = (kind if training_mode else Frozen)(momentum=momentum, epsilon=epsilon)
        y = layer(x)
        self._hold(layer, gamma=(scale, None), beta=(bias, None))
        self._hold(layer, moving_mean=(mean, None), moving_variance=(var, None))
        return y, None, None

    def Relu(self, x):
        return keras.layers.ReLU()(x)

    def Tanh(self, x):
        return keras.layers.Activation("tanh")(x)

    def Sigmoid(self, x):
        return keras.layers.Activation("sigmoid")(x)

    def Softmax(self, x, *, axis=-1):
        return keras.layers.Softmax(axis)(x)

    def Add(self, a, b):
        return keras.layers.Add()([a, b])

    def Mul(self, a, b):
        return keras.layers.Multiply()([a, b])

    def Concat(self, *arrays, axis):
        return keras.layers.Concatenate(axis)(list(arrays))

    def Dropout(self, x, ratio=0.5, training=False, *, seed=0, rng=None):
        layer = keras.layers.Dropout(ratio)
        self.made.dropouts.append((layer, ratio))
        return layer(x)

    def Reshape(self, x, sizes, *, allowzero=0):
        if sizes[0] != -1 or -1 in sizes[1:]:
            raise Unsaid("Reshape that moves the batch")
        return keras.layers.Reshape(sizes[1:])(x)

    def Flatten(self, x, *, axis=1):
        if axis != 1:
            raise Unsaid(f"Flatten at axis {axis}")
        return keras.layers.Flatten()(x)

    def Transpose(self, x, *, perm):
        if perm[0]:
            raise Unsaid("Transpose of the batch")
        return keras.layers.Permute(perm[1:])(x)

    def Slice(self, x, starts, ends, axes=None, steps=None):
        cut = [slice(None)] * len(x.shape)
        for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
            stop = end if abs(end) < 2**31 else None
            cut[axes[index] if axes else index] = slice(start, stop, steps[index] if steps else 1)
        return x[tuple(cut)]

    def Pad(self, x, pads, value=0.0, axes=None, *, mode="constant"):
        if mode != "constant":
            raise Unsaid(f"Pad with mode {mode}")
        widths, half = [(0, 0)] * len(x.shape), len(pads) // 2
        for index, axis in enumerate(range(len(x.shape)) if axes is None else axes):
            widths[axis] = pads[index], pads[half + index]
        return keras.ops.pad(x, widths, constant_values=value or 0.0)

    def ReduceMean(self, x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
        if axes == (1, 2) and len(x.shape) == 4:
            return keras.layers.GlobalAveragePooling2D(keepdims=bool(keepdims))(x)
        return keras.ops.mean(x, axes, bool(keepdims))

    def Gemm(self, a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
        if alpha != 1 or beta != 1 or transA or not isinstance(b, Weight):
            raise Unsaid("Gemm with alpha, beta or transA, or of two tensors")
        layer = keras.layers.Dense(b.array.shape[0 if transB else 1], use_bias=c is not None)
        y = layer(a)
        self._hold(layer, kernel=(b, MATRIX if transB else None), bias=(c, None))
        return y


def built(program, inputs):
    """The model of a program, and its layers. `inputs` are the shapes, the batch first, and types.

    Raises:
        UnsupportedOps: Keras has no layer for some of its operators; all are named.
        Unsaid: it has none for the attributes of one.
    """
    layers = Layers()
    apply = program.bind(layers.table())
    given = [keras.Input(shape[1:], dtype=dtype) for shape, dtype in inputs]
    params, state = ({n: Weight(n, a) for n, a in group.items()} for group in (program.params, program.state))
    outputs, _ = apply(params, state, *given, training=True, rng=None)
    if missing := sorted({*program.params} - {*layers.made.variables}):
        raise Unsaid(f"{missing[0]} belongs to no layer")
    for name, variable in layers.made.variables.items():
        variable.trainable = name in program.params  # a layer may hold a constant, as a scale of ones
    return keras.Model(given, list(outputs)), layers.made
