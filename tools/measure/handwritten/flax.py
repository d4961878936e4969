"""Flax NNX: channels last, `jax.jit` over the split module, compiled ahead of the first call."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from handwritten import Arrays, Both, Network, attention, channels_last, either, kernel
from xbench.models.mobilenet import STAGES

Array = Any
RNGS = nnx.Rngs(0)
norm = partial(nnx.BatchNorm, momentum=0.9, epsilon=1e-5, rngs=RNGS)


def convolution(channels: int, out: int, size: int, stride: int = 1, groups: int = 1) -> nnx.Conv:
    padding = [(size // 2, size // 2)] * 2
    options = {"padding": padding, "feature_group_count": groups, "use_bias": False, "rngs": RNGS}
    return nnx.Conv(channels, out, (size, size), (stride, stride), **options)


# ***** ResNet-50 *****


class Shortcut(nnx.Module):
    def __init__(self, channels: int, out: int, stride: int) -> None:
        self.conv, self.norm = convolution(channels, out, 1, stride), norm(out)

    def __call__(self, x: Array) -> Array:
        return self.norm(self.conv(x))


class Bottleneck(nnx.Module):
    def __init__(self, channels: int, width: int, stride: int) -> None:
        self.conv1, self.norm1 = convolution(channels, width, 1), norm(width)
        self.conv2, self.norm2 = convolution(width, width, 3, stride), norm(width)
        self.conv3, self.norm_out = convolution(width, 4 * width, 1), norm(4 * width)
        self.shortcut = None if channels == 4 * width else Shortcut(channels, 4 * width, stride)

    def __call__(self, x: Array) -> Array:
        y = nnx.relu(self.norm1(self.conv1(x)))
        y = nnx.relu(self.norm2(self.conv2(y)))
        y = self.norm_out(self.conv3(y))
        return nnx.relu(y + (x if self.shortcut is None else self.shortcut(x)))


def stage(channels: int, width: int, stride: int, blocks: int) -> nnx.List:
    rest = [Bottleneck(4 * width, width, 1) for _ in range(blocks - 1)]
    return nnx.List([Bottleneck(channels, width, stride), *rest])


class ResNet50(nnx.Module):
    def __init__(self) -> None:
        self.conv1, self.norm1 = convolution(3, 64, 7, 2), norm(64)
        self.stage1, self.stage2 = stage(64, 64, 1, 3), stage(256, 128, 2, 4)
        self.stage3, self.stage4 = stage(512, 256, 2, 6), stage(1024, 512, 2, 3)
        self.fc = nnx.Linear(2048, 1000, rngs=RNGS)

    def __call__(self, x: Array) -> Array:
        x = nnx.relu(self.norm1(self.conv1(x)))
        x = nnx.max_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))
        for block in (*self.stage1, *self.stage2, *self.stage3, *self.stage4):
            x = block(x)
        return self.fc(x.mean((1, 2)))


# ***** MobileNetV2 *****


class ConvNorm(nnx.Module):
    def __init__(
        self, channels: int, out: int, size: int, stride: int = 1, groups: int = 1, last: str = "norm"
    ) -> None:
        self.conv, self.last = convolution(channels, out, size, stride, groups), last
        setattr(self, last, norm(out))

    def __call__(self, x: Array) -> Array:
        return getattr(self, self.last)(self.conv(x))


class InvertedResidual(nnx.Module):
    def __init__(self, channels: int, out: int, stride: int, expansion: int) -> None:
        width, self.residual = channels * expansion, stride == 1 and channels == out
        self.expand = None if expansion == 1 else ConvNorm(channels, width, 1)
        self.depthwise = ConvNorm(width, width, 3, stride, groups=width)
        self.project = ConvNorm(width, out, 1, last="norm_out" if self.residual else "norm")

    def __call__(self, x: Array) -> Array:
        y = x if self.expand is None else nnx.relu6(self.expand(x))
        y = self.project(nnx.relu6(self.depthwise(y)))
        return x + y if self.residual else y


class MobileNetV2(nnx.Module):
    def __init__(self) -> None:
        self.stem, channels, blocks = ConvNorm(3, 32, 3, 2), 32, []
        for expansion, out, count, first_stride in STAGES:
            for index in range(count):
                blocks.append(InvertedResidual(channels, out, first_stride if index == 0 else 1, expansion))
                channels = out
        self.blocks = nnx.List(blocks)
        self.head = ConvNorm(320, 1280, 1)
        self.fc = nnx.Linear(1280, 1000, rngs=RNGS)

    def __call__(self, x: Array) -> Array:
        x = nnx.relu6(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return self.fc(nnx.relu6(self.head(x)).mean((1, 2)))


# ***** transformers *****


class Block(nnx.Module):
    def __init__(self, width: int, heads: int, epsilon: float, approximate: bool, causal: bool) -> None:
        self.norm1 = nnx.LayerNorm(width, epsilon=epsilon, rngs=RNGS)
        self.attention = nnx.MultiHeadAttention(heads, width, decode=False, rngs=RNGS)
        self.norm2 = nnx.LayerNorm(width, epsilon=epsilon, rngs=RNGS)
        self.fc1 = nnx.Linear(width, 4 * width, rngs=RNGS)
        self.fc2 = nnx.Linear(4 * width, width, rngs=RNGS)
        self.approximate, self.causal = approximate, causal

    def __call__(self, x: Array) -> Array:
        mask = nnx.make_causal_mask(x[..., 0]) if self.causal else None
        x = x + self.attention(self.norm1(x), mask=mask)
        return x + self.fc2(nnx.gelu(self.fc1(self.norm2(x)), approximate=self.approximate))


class ViTS16(nnx.Module):
    def __init__(self) -> None:
        self.patches = nnx.Conv(3, 384, (16, 16), (16, 16), padding="VALID", rngs=RNGS)
        self.class_token = nnx.Param(jnp.zeros((1, 1, 384)))
        self.positions = nnx.Param(jnp.zeros((1, 197, 384)))
        self.blocks = nnx.List([Block(384, 6, 1e-6, False, False) for _ in range(12)])
        self.norm = nnx.LayerNorm(384, epsilon=1e-6, rngs=RNGS)
        self.head = nnx.Linear(384, 1000, rngs=RNGS)

    def __call__(self, x: Array) -> Array:
        x = self.patches(x).reshape(x.shape[0], -1, 384)
        token = jnp.broadcast_to(self.class_token[...], (x.shape[0], 1, 384))
        x = jnp.concatenate([token, x], 1) + self.positions[...]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class GPT2(nnx.Module):
    def __init__(self) -> None:
        self.wte = nnx.Embed(50_257, 768, rngs=RNGS)
        self.wpe = nnx.Param(jnp.zeros((1024, 768)))
        self.blocks = nnx.List([Block(768, 12, 1e-5, True, True) for _ in range(12)])
        self.norm = nnx.LayerNorm(768, epsilon=1e-5, rngs=RNGS)

    def __call__(self, x: Array) -> Array:
        x = self.wte(x) + self.wpe[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.wte.attend(self.norm(x))


# ***** LSTM *****


class LSTMPTB(nnx.Module):
    """Flax has one bias per gate, PyTorch two: 2,048 parameters fewer, the same function."""

    def __init__(self) -> None:
        self.embedding = nnx.Embed(10_000, 256, rngs=RNGS)
        self.lstm = nnx.List([nnx.RNN(nnx.OptimizedLSTMCell(256, 256, rngs=RNGS), rngs=RNGS) for _ in range(2)])
        self.fc = nnx.Linear(256, 10_000, rngs=RNGS)

    def __call__(self, x: Array) -> Array:
        x = self.embedding(x)
        for layer in self.lstm:
            x = layer(x)
        return self.fc(x)


NETWORKS = {"resnet50": ResNet50, "mobilenet_v2": MobileNetV2, "vit_s16": ViTS16, "gpt2": GPT2, "lstm_ptb": LSTMPTB}

# ***** weights *****


def arrays(model: nnx.Module, source: Arrays, both: Both) -> dict[str, np.ndarray]:
    """Every array of `source` by its path in the module, in Flax's layout."""
    by_path = {}
    for path, node in nnx.iter_graph(model):
        name = ".".join(map(str, path))
        if isinstance(node, nnx.Module) and not isinstance(node, nnx.RNN):
            by_path |= {f"{name}.{key}": array for key, array in _arrays(name, node, source, both).items()}
        elif name in source:
            by_path[name] = source[name]
    return by_path


def _arrays(name: str, layer: nnx.Module, source: Arrays, both: Both) -> dict[str, np.ndarray]:
    weight, bias = source.get(f"{name}.weight"), source.get(f"{name}.bias")
    match layer:
        case nnx.Conv():
            return {"kernel": kernel(weight)} | ({"bias": bias} if layer.use_bias else {})
        case nnx.MultiHeadAttention():
            return {key.replace("output", "out"): v for key, v in attention(source, name, layer.num_heads).items()}
        case nnx.Linear() if weight is not None:  # not those inside an LSTM cell
            return {"kernel": weight.T, "bias": bias}
        case nnx.BatchNorm():
            statistics = {"mean": f"{name}.running_mean", "var": f"{name}.running_var"}
            moving = {key: source[value] for key, value in statistics.items() if value in source}
            return {"scale": weight, "bias": bias, **moving}
        case nnx.LayerNorm():
            return {"scale": weight, "bias": bias}
        case nnx.Embed():
            return {"embedding": weight}
        case nnx.OptimizedLSTMCell():
            part = f"l{name.split('.')[1]}"
            w, r, wb, rb = (source[f"lstm.{kind}_{part}"] for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            return {"dense_i.kernel": w.T, "dense_h.kernel": r.T, "dense_h.bias": both(wb, rb)}
    return {}


class Flax(Network):
    def __init__(self, network: str, source: Arrays) -> None:
        self.model = NETWORKS[network]()
        made = arrays(self.model, source, np.add)
        for kept in (nnx.Param, nnx.BatchStat):
            for path, variable in nnx.to_flat_state(nnx.state(self.model, kept)):
                array = made.pop(".".join(map(str, path)))
                assert array.shape == variable.shape, path
                variable.set_value(jnp.asarray(array))
        assert not made, f"not a variable: {list(made)}"
        self.calls: dict[str, Any] = {}

    def put(self, inputs: Sequence[np.ndarray], labels: np.ndarray) -> tuple[tuple[Any, ...], Any]:
        narrow = [a.astype(np.int32) if a.dtype == np.int64 else channels_last(a) for a in inputs]
        return tuple(jax.device_put(narrow)), jax.device_put(labels.astype(np.int32))

    def _split(self, train: bool) -> tuple[Any, Any, Any]:
        self.model.train() if train else self.model.eval()
        return nnx.split(self.model, nnx.Param, ...)

    def forward(self, *inputs: Any) -> Any:
        if "forward" not in self.calls:
            graph, params, rest = self._split(train=False)
            # Leaves instead of states: JAX takes a list apart in C++, a state in Python.
            leaves, tree = jax.tree.flatten((params, rest))
            function = jax.jit(lambda leaves, x: nnx.merge(graph, *jax.tree.unflatten(tree, leaves))(x))
            self.calls["forward"] = function.lower(leaves, *inputs).compile(), leaves
        call, leaves = self.calls["forward"]
        return jax.block_until_ready(call(leaves, *inputs))

    def gradients(self, inputs: Sequence[Any], labels: Any) -> Any:
        if "gradient" not in self.calls:
            graph, params, rest = self._split(train=True)
            params, self.tree = jax.tree.flatten(params)
            rest, others = jax.tree.flatten(rest)

            def loss(params: list[Array], rest: list[Array], x: Array, labels: Array) -> tuple[Array, list[Array]]:
                model = nnx.merge(graph, jax.tree.unflatten(self.tree, params), jax.tree.unflatten(others, rest))
                value = optax.softmax_cross_entropy_with_integer_labels(model(x), labels).mean()
                return value, jax.tree.leaves(nnx.state(model, nnx.Not(nnx.Param)))

            function = jax.jit(jax.value_and_grad(loss, has_aux=True))
            self.calls["gradient"] = function.lower(params, rest, *inputs, labels).compile(), params, rest
        call, params, rest = self.calls["gradient"]
        (value, _), gradients = jax.block_until_ready(call(params, rest, *inputs, labels))
        return value, gradients

    def pairs(self, result: Any, gradients: Arrays) -> list[tuple[str, np.ndarray, np.ndarray]]:
        mine = dict(nnx.to_flat_state(jax.tree.unflatten(self.tree, result[1])))
        expected = arrays(self.model, gradients, either)
        named = {".".join(map(str, path)): np.asarray(value[...]) for path, value in mine.items()}
        return [(name, named[name], expected[name]) for name in named]

    def parameters(self) -> int:
        return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(nnx.state(self.model, nnx.Param)))
