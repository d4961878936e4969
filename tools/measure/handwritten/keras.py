"""Keras 3 on TensorFlow: the functional API, channels last, `tf.function` around the model."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from handwritten import Arrays, Both, Network, attention, channels_last, either, kernel
from xbench.models.mobilenet import STAGES

Tensor = Any

# ***** ResNet-50 *****


def convolution(x: Tensor, filters: int, size: int, stride: int, name: str) -> Tensor:
    """PyTorch pads both sides alike; "same" does so only if the stride is 1, so Keras' own ResNet pads by a layer."""
    if stride > 1 and size > 1:
        x = layers.ZeroPadding2D(size // 2)(x)
    padding = "same" if stride == 1 else "valid"
    return layers.Conv2D(filters, size, stride, padding, use_bias=False, name=name)(x)


def norm(x: Tensor, name: str) -> Tensor:
    return layers.BatchNormalization(momentum=0.9, epsilon=1e-5, name=name)(x)


def bottleneck(x: Tensor, width: int, stride: int, name: str) -> Tensor:
    shortcut = x
    if x.shape[-1] != 4 * width:
        shortcut = convolution(x, 4 * width, 1, stride, f"{name}.shortcut.conv")
        shortcut = norm(shortcut, f"{name}.shortcut.norm")
    x = layers.ReLU()(norm(convolution(x, width, 1, 1, f"{name}.conv1"), f"{name}.norm1"))
    x = layers.ReLU()(norm(convolution(x, width, 3, stride, f"{name}.conv2"), f"{name}.norm2"))
    x = norm(convolution(x, 4 * width, 1, 1, f"{name}.conv3"), f"{name}.norm_out")
    return layers.ReLU()(layers.Add()([x, shortcut]))


def resnet50(shape: Sequence[int]) -> keras.Model:
    inputs = keras.Input(shape)
    x = layers.ReLU()(norm(convolution(inputs, 64, 7, 2, "conv1"), "norm1"))
    x = layers.MaxPooling2D(3, 2)(layers.ZeroPadding2D(1)(x))  # after ReLU zero is the lowest number
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 1):
        for index in range(blocks):
            x = bottleneck(x, width, 2 if stage > 1 and index == 0 else 1, f"stage{stage}.{index}")
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(1000, name="fc")(x))


# ***** MobileNetV2 *****


def inverted_residual(x: Tensor, out: int, stride: int, expansion: int, name: str) -> Tensor:
    shortcut, channels = x, x.shape[-1]
    if expansion != 1:
        x = convolution(x, channels * expansion, 1, 1, f"{name}.expand.conv")
        x = layers.ReLU(6.0)(norm(x, f"{name}.expand.norm"))
    if stride > 1:
        x = layers.ZeroPadding2D(1)(x)
    padding = "same" if stride == 1 else "valid"
    x = layers.DepthwiseConv2D(3, stride, padding, use_bias=False, name=f"{name}.depthwise.conv")(x)
    x = layers.ReLU(6.0)(norm(x, f"{name}.depthwise.norm"))
    residual = stride == 1 and channels == out
    x = convolution(x, out, 1, 1, f"{name}.project.conv")
    x = norm(x, f"{name}.project.norm_out" if residual else f"{name}.project.norm")
    return layers.Add()([shortcut, x]) if residual else x


def mobilenet_v2(shape: Sequence[int]) -> keras.Model:
    inputs = keras.Input(shape)
    x = layers.ReLU(6.0)(norm(convolution(inputs, 32, 3, 2, "stem.conv"), "stem.norm"))
    number = 0
    for expansion, out, count, first_stride in STAGES:
        for index in range(count):
            x = inverted_residual(x, out, first_stride if index == 0 else 1, expansion, f"blocks.{number}")
            number += 1
    x = layers.ReLU(6.0)(norm(convolution(x, 1280, 1, 1, "head.conv"), "head.norm"))
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(1000, name="fc")(x))


# ***** transformers *****


class ClassToken(layers.Layer):
    """One learned vector in front of every sequence."""

    def build(self, shape: Sequence[int]) -> None:
        self.value = self.add_weight(shape=(1, 1, shape[-1]))

    def call(self, x: Tensor) -> Tensor:
        token = keras.ops.broadcast_to(self.value, (keras.ops.shape(x)[0], 1, x.shape[-1]))
        return keras.ops.concatenate([token, x], 1)


class Positions(layers.Layer):
    """A learned vector for every position; a shorter sequence takes the first."""

    def __init__(self, shape: Sequence[int], **options: Any) -> None:
        super().__init__(**options)
        self.value = self.add_weight(shape=shape)

    def call(self, x: Tensor) -> Tensor:
        return x + self.value[..., : x.shape[1], :]


def transformer_block(x: Tensor, heads: int, epsilon: float, approximate: bool, causal: bool, name: str) -> Tensor:
    width = x.shape[-1]
    y = layers.LayerNormalization(epsilon=epsilon, name=f"{name}.norm1")(x)
    y = layers.MultiHeadAttention(heads, width // heads, name=f"{name}.attention")(y, y, use_causal_mask=causal)
    x = layers.Add()([x, y])
    y = layers.LayerNormalization(epsilon=epsilon, name=f"{name}.norm2")(x)
    gelu = partial(keras.activations.gelu, approximate=approximate)
    y = layers.Dense(4 * width, activation=gelu, name=f"{name}.fc1")(y)
    return layers.Add()([x, layers.Dense(width, name=f"{name}.fc2")(y)])


def vit_s16(shape: Sequence[int]) -> keras.Model:
    inputs = keras.Input(shape)
    x = layers.Conv2D(384, 16, 16, name="patches")(inputs)
    x = ClassToken(name="class_token")(layers.Reshape((-1, 384))(x))
    x = Positions((1, x.shape[1], 384), name="positions")(x)
    for index in range(12):
        x = transformer_block(x, 6, 1e-6, False, False, f"blocks.{index}")
    x = layers.LayerNormalization(epsilon=1e-6, name="norm")(x)
    return keras.Model(inputs, layers.Dense(1000, name="head")(x[:, 0]))


def gpt2(shape: Sequence[int]) -> keras.Model:
    inputs = keras.Input(shape, dtype="int64")
    wte = layers.ReversibleEmbedding(50_257, 768, name="wte")
    x = Positions((1024, 768), name="wpe")(wte(inputs))
    for index in range(12):
        x = transformer_block(x, 12, 1e-5, True, True, f"blocks.{index}")
    x = layers.LayerNormalization(epsilon=1e-5, name="norm")(x)
    return keras.Model(inputs, wte(x, reverse=True))


# ***** LSTM *****


def lstm_ptb(shape: Sequence[int]) -> keras.Model:
    """Keras has one bias per gate, PyTorch two: 2,048 parameters fewer, the same function."""
    inputs = keras.Input(shape, dtype="int64")
    x = layers.Embedding(10_000, 256, name="embedding")(inputs)
    for index in range(2):
        x = layers.LSTM(256, return_sequences=True, name=f"lstm_l{index}")(x)
    return keras.Model(inputs, layers.Dense(10_000, name="fc")(x))


NETWORKS = {each.__name__: each for each in (resnet50, mobilenet_v2, vit_s16, gpt2, lstm_ptb)}

# ***** weights *****


def loaded(model: keras.Model, source: Arrays, both: Both) -> Iterator[tuple[str, Any, np.ndarray]]:
    """Every variable with its name and the array of `source` that belongs in it, in the framework's layout."""
    for layer in model.layers:
        for attribute, array in _arrays(layer, source, both).items():
            place = layer
            for part in attribute.split("."):
                place = getattr(place, part)
            yield f"{layer.name}/{attribute}", place, array


def _arrays(layer: layers.Layer, source: Arrays, both: Both) -> dict[str, np.ndarray]:
    name = layer.name
    weight, bias = source.get(f"{name}.weight"), source.get(f"{name}.bias")
    match layer:
        case layers.DepthwiseConv2D():
            return {"kernel": weight.transpose(2, 3, 0, 1)}
        case layers.Conv2D():
            return {"kernel": kernel(weight)} | ({"bias": bias} if layer.use_bias else {})
        case layers.Dense():
            return {"kernel": weight.T, "bias": bias}
        case layers.BatchNormalization():
            statistics = {"moving_mean": f"{name}.running_mean", "moving_variance": f"{name}.running_var"}
            moving = {key: source[value] for key, value in statistics.items() if value in source}
            return {"gamma": weight, "beta": bias, **moving}
        case layers.LayerNormalization():
            return {"gamma": weight, "beta": bias}
        case layers.Embedding():
            return {"embeddings": weight}
        case ClassToken() | Positions():
            return {"value": source[name]}
        case layers.MultiHeadAttention():
            parts = (key.split(".") + [value] for key, value in attention(source, name, layer.num_heads).items())
            return {f"_{part}_dense.{kind}": value for part, kind, value in parts}
        case layers.LSTM():
            part = name.replace("lstm_", "")
            w, r, wb, rb = (source[f"lstm.{kind}_{part}"] for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            return {"cell.kernel": w.T, "cell.recurrent_kernel": r.T, "cell.bias": both(wb, rb)}
    return {}


class Keras(Network):
    def __init__(self, network: str, source: Arrays, inputs: Sequence[np.ndarray], xla: bool) -> None:
        self.model = NETWORKS[network](channels_last(inputs[0]).shape[1:])
        pairs = list(loaded(self.model, source, np.add))
        assert {id(v) for _, v, _ in pairs} == {id(v) for v in self.model.weights}, "a variable is not loaded"
        for _, variable, array in pairs:
            variable.assign(array)
        self.variables = self.model.trainable_variables
        self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.compiled = partial(tf.function, jit_compile=xla or None)
        self.calls: dict[str, Any] = {}

    def put(self, inputs: Sequence[np.ndarray], labels: np.ndarray) -> tuple[tuple[Any, ...], Any]:
        return tuple(tf.constant(channels_last(array)) for array in inputs), tf.constant(labels)

    def _forward(self, x: Tensor) -> Tensor:
        return self.model(x, training=False)

    def _gradients(self, x: Tensor, labels: Tensor) -> tuple[Tensor, list[Tensor]]:
        with tf.GradientTape() as tape:
            loss = self.loss(labels, self.model(x, training=True))
        gradients = tape.gradient(loss, [variable.value for variable in self.variables])
        # The gradient of a lookup is a list of rows: made dense here, as the converted side promises.
        return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]

    def _call(self, function: Any, *arrays: Any) -> Any:
        name = function.__name__
        if name not in self.calls:  # a concrete function costs less Python in each call
            self.calls[name] = self.compiled(function).get_concrete_function(*arrays)
        return self.calls[name](*arrays)

    def forward(self, *inputs: Any) -> Any:
        return self._call(self._forward, *inputs)

    def gradients(self, inputs: Sequence[Any], labels: Any) -> Any:
        return self._call(self._gradients, *inputs, labels)

    def pairs(self, result: Any, gradients: Arrays) -> list[tuple[str, np.ndarray, np.ndarray]]:
        mine = {id(v): g.numpy() for v, g in zip(self.variables, result[1], strict=True)}
        return [(name, mine[id(v)], array) for name, v, array in loaded(self.model, gradients, either)]

    def parameters(self) -> int:
        return sum(int(np.prod(variable.shape)) for variable in self.variables)
