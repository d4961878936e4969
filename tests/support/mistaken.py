"""Runtimes with one typical mistake each: JAX's adapter with the mistake, written separately here.

They are not made from `parity/mistakes/`: a mistake must not be found by the code that plants it.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import torch
from planted import jax_with, nth
from torch import nn

from xbench.converters.artifact import Artifact
from xbench.converters.ops import jax as ops
from xbench.runtimes import Options, Row, Trainer
from xbench.runtimes.jax import Jax


def operators(**changes: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Callable[..., Trainer]:
    """JAX with every call of some operators changed."""

    def make(artifact: Artifact, options: Options) -> Trainer:
        return jax_with(artifact, options, lambda table: {op: change(table[op]) for op, change in changes.items()})

    return make


def nth_operator(operator: str, number: int, change: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Any:
    """JAX with one node of the graph changed: the operator's n-th."""

    def make(artifact: Artifact, options: Options) -> Trainer:
        calls = artifact.operators[operator]
        one = lambda table: {operator: nth(table[operator], number % calls, change(table[operator]), calls)}  # noqa: E731
        return jax_with(artifact, options, one)

    return make


def given(**attributes: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The operator with some other attributes."""
    return lambda operator: lambda *args, **own: operator(*args, **{**own, **attributes})


def updated(rule: Callable[..., Any]) -> Callable[..., Trainer]:
    """JAX with another update: a function of a rule, the step's number, a parameter, its gradient, its kept arrays."""

    class Wrong(Jax):
        def _step(self, params, state, memory, count, rng, inputs, labels):  # type: ignore[no-untyped-def]
            (value, changed), grads = jax.value_and_grad(self._loss, has_aux=True)(params, state, rng, inputs, labels)
            new, kept = {}, {slot: {} for slot in memory}
            for name, p in params.items():
                old = {slot: memory[slot][name] for slot in memory}
                new[name], now = rule(self.rule, count + 1, p, grads[name], old)
                for slot in memory:
                    kept[slot][name] = now[slot]
            return value, new, {**state, **changed}, kept, count + 1

    return Wrong


def losses(change: Callable[[Any, Any], Any]) -> Callable[..., Trainer]:
    """JAX with another loss, a function of logits and labels."""

    class Wrong(Jax):
        def _loss(self, params, state, rng, inputs, labels):  # type: ignore[no-untyped-def]
            outputs, changed = self.apply(self._as_onnx(params), state, *inputs, training=True, rng=None)
            return change(outputs[0], labels), changed

    return Wrong


def ruled(**settings: Any) -> Callable[..., Trainer]:
    """JAX with other settings of the update rule."""

    def make(artifact: Artifact, options: Options) -> Trainer:
        rule = {**artifact.info["optimizer"], **settings}
        return Jax(dataclasses.replace(artifact, info={**artifact.info, "optimizer": rule}), options)

    return make


# ***** update rules *****


def sgd(gain=1.0, decoupled=False):  # type: ignore[no-untyped-def]
    def rule(r, count, p, g, old):  # type: ignore[no-untyped-def]
        lr, decay = r["lr"], r["weight_decay"]
        g = g if decoupled else g + decay * p
        v = r["momentum"] * old["momentum"] + gain * g
        return p - lr * v - (lr * decay * p if decoupled else 0), {"momentum": v}

    return rule


def adam(inside=False, coupled=False, corrected=True):  # type: ignore[no-untyped-def]
    def rule(r, count, p, g, old):  # type: ignore[no-untyped-def]
        lr, decay, b1, b2 = r["lr"], r["weight_decay"], r["beta1"], r["beta2"]
        g = g + decay * p if coupled else g
        m, v = b1 * old["mean"] + (1 - b1) * g, b2 * old["square"] + (1 - b2) * g * g
        c1, c2 = (-jnp.expm1(count * jnp.log(b)) for b in (b1, b2)) if corrected else (1, 1)
        spread = jnp.sqrt(v / c2 + r["eps"]) if inside else jnp.sqrt(v / c2) + r["eps"]
        return p * (1 if coupled else 1 - lr * decay) - lr * m / c1 / spread, {"mean": m, "square": v}

    return rule


def keras_adam(r, count, p, g, old, eps=1e-7):  # type: ignore[no-untyped-def]
    """As keras.optimizers.AdamW.update_step writes it, which TensorFlow 1's Adam does with 1e-8."""
    lr, b1, b2 = r["lr"], r["beta1"], r["beta2"]
    alpha = lr * jnp.sqrt(-jnp.expm1(count * jnp.log(b2))) / -jnp.expm1(count * jnp.log(b1))
    p = p - p * r["weight_decay"] * lr
    m, v = old["mean"] + (g - old["mean"]) * (1 - b1), old["square"] + (g * g - old["square"]) * (1 - b2)
    return p - m * alpha / (jnp.sqrt(v) + eps), {"mean": m, "square": v}


def tf1_adam(r, count, p, g, old):  # type: ignore[no-untyped-def]
    """tf.compat.v1.train.AdamOptimizer, which decays nothing."""
    return keras_adam({**r, "weight_decay": 0.0}, count, p, g, old, 1e-8)


def bert_adam(r, count, p, g, old):  # type: ignore[no-untyped-def]
    """AdamWeightDecayOptimizer of BERT's optimization.py."""
    m, v = (b * o + (1 - b) * x for b, o, x in zip((0.9, 0.999), (old["mean"], old["square"]), (g, g * g)))
    change = m / (jnp.sqrt(v) + 1e-6)
    change = change + r["weight_decay"] * p if p.ndim > 1 else change
    return p - r["lr"] * change, {"mean": m, "square": v}


def keras_sgd(r, count, p, g, old):  # type: ignore[no-untyped-def]
    """keras.optimizers.SGD.update_step, after the decay of Optimizer._apply_weight_decay."""
    p = p - p * r["weight_decay"] * r["lr"]
    m = old["momentum"] * r["momentum"] - g * r["lr"]
    return p + m, {"momentum": m}


def caffe_sgd(r, count, p, g, old):  # type: ignore[no-untyped-def]
    v = r["momentum"] * old["momentum"] + r["lr"] * (g + r["weight_decay"] * p)
    return p - v, {"momentum": v}


def without_last(r, count, p, g, old):  # type: ignore[no-untyped-def]
    """Without the last layer's parameters, as if an optimizer got only the body of a network."""
    return (p, old) if p.shape[0] == 10 else sgd()(r, count, p, g, old)


# ***** layers *****


def frozen(operator):  # type: ignore[no-untyped-def]
    return lambda *args, training_mode=0, **named: operator(*args, training_mode=0, **named)


def following(operator):  # type: ignore[no-untyped-def]
    """In evaluation, but updating the running statistics."""

    def norm(*args, **named):  # type: ignore[no-untyped-def]
        return operator(*args, **{**named, "training_mode": 0})[0], *operator(*args, **named)[1:]

    return norm


def along_the_last(operator):  # type: ignore[no-untyped-def]
    """A vector of the channels taken for one of the last axis."""
    return lambda x, a: operator(x, a.reshape(-1) if jnp.size(a) == x.shape[-1] else a)


def along_the_channels(operator):  # type: ignore[no-untyped-def]
    """As OpenVINO takes a slope of one axis."""
    return lambda x, a: operator(x, a.reshape(-1, 1, 1) if a.ndim == 1 else a)


def epsilon_outside(operator):  # type: ignore[no-untyped-def]
    def norm(x, scale, bias, mean, var, *, epsilon=1e-5, training_mode=0, **more):  # type: ignore[no-untyped-def]
        _, *kept = operator(x, scale, bias, mean, var, epsilon=epsilon, training_mode=training_mode, **more)
        column = (1, -1, *(1,) * (x.ndim - 2))
        axes = (0, *range(2, x.ndim))
        m, v = (x.mean(axes), x.var(axes)) if training_mode else (mean, var)
        h = (x - m.reshape(column)) / (jnp.sqrt(v) + epsilon).reshape(column)
        return h * scale.reshape(column) + bias.reshape(column), *kept

    return norm


def biased(operator):  # type: ignore[no-untyped-def]
    return lambda *args, unbiased=0, **named: operator(*args, unbiased=1 - unbiased, **named)


def momentum(operator):  # type: ignore[no-untyped-def]
    return lambda *args, momentum=0.9, **named: operator(*args, momentum=1 - momentum, **named)


def dropping(operator):  # type: ignore[no-untyped-def]
    """With its own random numbers, in evaluation as in training."""

    def dropout(x, ratio=0.5, training=False, **named):  # type: ignore[no-untyped-def]
        return jnp.where(jax.random.uniform(jax.random.key(7), x.shape) >= ratio, x / (1 - ratio), 0)

    return dropout


def dropping_in_training(operator):  # type: ignore[no-untyped-def]
    always = dropping(operator)
    return lambda x, ratio=0.5, training=False, **named: always(x, ratio) if training else x


def gates(operator):  # type: ignore[no-untyped-def]
    """PyTorch's order i, f, g, o taken for ONNX's i, o, f, c."""

    def reordered(a):  # type: ignore[no-untyped-def]
        i, o, f, c = jnp.split(a, 4, 1)
        return jnp.concatenate([i, f, c, o], 1)

    def lstm(x, w, r, b=None, *rest, **named):  # type: ignore[no-untyped-def]
        b = None if b is None else jnp.concatenate([reordered(half) for half in jnp.split(b, 2, 1)], 1)
        return operator(x, reordered(w), reordered(r), b, *rest, **named)

    return lstm


def without(index):  # type: ignore[no-untyped-def]
    """The operator without one of its inputs."""
    return lambda operator: lambda *args, **named: operator(*args[:index], *args[index + 1 :], **named)


def at_the_end(operator):  # type: ignore[no-untyped-def]
    """The same amount of padding, but all after the image."""

    def moved(*args, pads=None, **named):  # type: ignore[no-untyped-def]
        half = len(pads or ()) // 2
        pads = pads and (*(0,) * half, *(a + b for a, b in zip(pads[:half], pads[half:])))
        return operator(*args, pads=pads, **named)

    return moved


def softened(operator):  # type: ignore[no-untyped-def]
    return lambda *args, **named: jax.nn.softmax(operator(*args, **named))


def stopped(index):  # type: ignore[no-untyped-def]
    """No gradient to one of the operator's inputs."""

    def change(operator):  # type: ignore[no-untyped-def]
        def call(*args, **named):  # type: ignore[no-untyped-def]
            stop = [jax.lax.stop_gradient(a) if i == index else a for i, a in enumerate(args)]
            return operator(*stop, **named)

        return call

    return change


def summed(logits: Any, labels: Any) -> Any:
    return ops.cross_entropy(logits, labels) * labels.size


def averaged(logits: Any, labels: Any) -> Any:
    """As study 1's TensorFlow had it for FCN-S (Shi et al. 2016, arXiv:1608.07249)."""
    return -(jax.nn.one_hot(labels, logits.shape[-1]) * jnp.log(jax.nn.softmax(logits))).mean()


def steeper(logits: Any, labels: Any) -> Any:
    """The same loss, with a gradient 3.7 times as large."""
    value = ops.cross_entropy(logits, labels)
    return 3.7 * value - 2.7 * jax.lax.stop_gradient(value)


RUNTIMES = {
    "bn_momentum": operators(BatchNormalization=momentum),
    "bn_variance": operators(BatchNormalization=biased),
    "epsilon_outside": operators(BatchNormalization=epsilon_outside),
    "epsilon_value": operators(BatchNormalization=given(epsilon=1e-5)),
    "adam_epsilon": updated(adam(inside=True)),
    "coupled": updated(adam(coupled=True)),
    "decoupled": updated(sgd(decoupled=True)),
    "loss_sum": losses(summed),
    "loss_mean_classes": losses(averaged),
    "dropout_on": operators(Dropout=dropping),
    "dropout_in_training": operators(Dropout=dropping_in_training),
    "clipping_missing": ruled(clip=0.0),
    "clipping": ruled(clip=0.5),
    "nesterov": ruled(nesterov=True),
    "unit_gain": updated(sgd(gain=0.1)),
    "missing_bias": nth_operator("Conv", 1, without(2)),
    "gru_reset": operators(GRU=given(linear_before_reset=0)),
    "lstm_gates": operators(LSTM=gates),
    "padding": operators(Conv=at_the_end),
    "ceil_mode": operators(MaxPool=given(ceil_mode=0)),
    "softmax_twice": nth_operator("Gemm", -1, softened),
    "softmax_in_loss": losses(lambda logits, labels: ops.cross_entropy(jax.nn.softmax(logits), labels)),
    "relu_missing": nth_operator("Relu", 1, lambda operator: lambda x: x),
    "no_gradient": nth_operator("Conv", 1, stopped(1)),
    "learning_rate": ruled(lr=0.003),
    "no_update": updated(without_last),
    "loss_scaled": losses(lambda logits, labels: 3.7 * ops.cross_entropy(logits, labels)),
    "gradient_scaled": losses(steeper),
    "scaled": operators(Gemm=lambda operator: lambda *args, **named: 1.7 * operator(*args, **named)),
    "norm_frozen": operators(BatchNormalization=frozen),
    "norm_frozen_first": nth_operator("BatchNormalization", 0, frozen),
    "norm_frozen_second": nth_operator("BatchNormalization", 1, frozen),
    "norm_following": operators(BatchNormalization=following),
    "keras_adam": updated(keras_adam),
    "tf1_adam": updated(tf1_adam),
    "optax_adamw": ruled(eps=1e-8, weight_decay=1e-4),
    "bert_adam": updated(bert_adam),
    "keras_sgd": updated(keras_sgd),
    "caffe_sgd": updated(caffe_sgd),
    "prelu_last": operators(PRelu=along_the_last),
    "sub_channels": operators(Sub=along_the_channels),
    "mul_last": operators(Mul=along_the_last),
    "add_last": operators(Add=along_the_last),
}


# ***** networks that show every mistake *****


class Residual(nn.Module):
    """A convolution with a bias and a stride, a residual sum, a pooling that rounds up, dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1)
        self.fc1, self.fc2 = nn.Linear(8, 32), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv1(x).relu()
        x = (x + self.conv2(x).tanh() - 0.2).relu()
        x = nn.functional.max_pool2d(x, 2, 2, ceil_mode=True).mean((2, 3))
        return self.fc2(nn.functional.dropout(self.fc1(x).tanh(), 0.4, self.training))


class Normed(nn.Module):
    """With the epsilon of Keras: PyTorch's is hard to see in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8, eps=1e-3)
        self.fc = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.norm(self.conv(x)).tanh().mean((2, 3)))


def normed() -> nn.Module:
    return Normed()


class Vectors(nn.Module):
    """Vectors along the channels and along the last axis, which are as long."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.slope, self.fc = nn.Conv2d(3, 8, 3), nn.PReLU(8), nn.Linear(8, 10)
        nn.init.uniform_(self.slope.weight, 0.1, 0.9)
        self.last, self.scale, self.shift = (nn.Parameter(torch.rand(8, *more)) for more in ((), (1, 1), (1, 1)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.slope(self.conv(x)) * self.scale + self.shift
        return self.fc((x.tanh() + 0.1 * (x - self.last).sigmoid()).mean((2, 3)))


def tokens() -> nn.Module:
    """Logits for every position of a sequence."""
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4))


def vectors() -> nn.Module:
    return Vectors()


class Memory(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.fc = nn.LSTM(5, 6, batch_first=True), nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.lstm(x)[0][:, -1])


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru, self.fc = nn.GRU(5, 6, batch_first=True), nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.gru(x)[0][:, -1])


def gated() -> nn.Module:
    return Gated()


def residual() -> nn.Module:
    return Residual()


def memory() -> nn.Module:
    return Memory()


def __getattr__(name: str) -> Any:
    """`mistaken:ROW_nesterov` for the entry points, and `mistaken:MAKE_nesterov`, which makes the runtime."""
    if name.startswith("ROW_"):
        return Row(f"mistaken:MAKE_{name.removeprefix('ROW_')}", ("jax",), "jax", "native", hidden=True)
    if name.startswith("MAKE_"):
        return RUNTIMES[name.removeprefix("MAKE_")]
    raise AttributeError(name)


def install(folder: Path) -> Path:
    """Writes this module and its metadata where PYTHONPATH may point."""
    for name in ("mistaken.py", "planted.py", "planted_net.py"):
        (folder / name).write_text(Path(__file__).with_name(name).read_text())
    info = folder / "mistaken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mistaken\nVersion: 1.0\n")
    points = [f"wrong_{name} = mistaken:ROW_{name}" for name in RUNTIMES]
    (info / "entry_points.txt").write_text("\n".join(["[xbench.runtimes]", *points, ""]))
    return folder
