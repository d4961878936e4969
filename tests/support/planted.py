"""Runtimes with one planted fault each: a wrong network that runs, as a careless adapter would make it.

`install` writes them as a distribution of their own, found through the entry points like any third party's.
"""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx

from xbench.converters.artifact import Artifact
from xbench.runtimes import Options, Row, Runtime, Trainer

NATIVE = ("stride", "swapped", "no_relu", "no_norm", "softmax", "momentum", "no_gradient")
IMPORTED = ("ort_stride",)
TRAINED = ("nesterov", "slows", "misreports", "diverges", "hangs")


def row(fault: str) -> Row:
    if fault in IMPORTED:
        return Row(f"planted:{fault}", ("onnxruntime",), "onnxruntime")
    return Row(f"planted:{fault}", ("jax",), "jax", "native")


ROWS = {fault: row(fault) for fault in (*NATIVE, *IMPORTED, *TRAINED)}


def __getattr__(name: str) -> Any:
    """`planted:ROW_stride` for the entry points, without importing a framework."""
    if name.startswith("ROW_"):
        return ROWS[name.removeprefix("ROW_")]
    raise AttributeError(name)


def install(folder: Path) -> Path:
    """Write this module and its metadata into a folder for PYTHONPATH."""
    for name in ("planted.py", "planted_net.py"):
        (folder / name).write_text(Path(__file__).with_name(name).read_text())
    info = folder / "planted-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n")
    points = [f"planted_{fault} = planted:ROW_{fault}" for fault in ROWS]
    (info / "entry_points.txt").write_text("\n".join(["[xbench.runtimes]", *points, ""]))
    return folder


# ***** JAX with one operator of the table changed *****


def jax_with(artifact: Artifact, options: Options, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Trainer:
    from xbench.converters.ops import jax as ops
    from xbench.runtimes.jax import Jax

    made = Jax(artifact, options)
    made.apply = made.program.bind({**ops.TABLE, **change(ops.TABLE)})
    return made


def nth(function: Callable[..., Any], number: int, other: Callable[..., Any], calls: int) -> Callable[..., Any]:
    """A function replaced at call `number` of every `calls`: one node of the graph, however often traced."""
    counter = iter(range(10**9))
    return lambda *args, **kwargs: (other if next(counter) % calls == number else function)(*args, **kwargs)


def stride(artifact: Artifact, options: Options) -> Trainer:
    """The second convolution takes every second pixel; a resize after it hides that."""
    calls = artifact.info["operators"]["Conv"]

    def change(table: dict[str, Any]) -> dict[str, Any]:
        def wrong(x: Any, *rest: Any, strides: Any = None, **attributes: Any) -> Any:
            y = table["Conv"](x, *rest, strides=(2, 2), **attributes)
            full = table["Conv"](x, *rest, strides=strides, **attributes)
            return y.repeat(2, 2).repeat(2, 3)[:, :, : full.shape[2], : full.shape[3]]

        return {"Conv": nth(table["Conv"], 1, wrong, calls)}

    return jax_with(artifact, options, change)


def swapped(artifact: Artifact, options: Options) -> Trainer:
    """Height and width of the image are exchanged."""
    calls = artifact.info["operators"]["Conv"]

    def change(table: dict[str, Any]) -> dict[str, Any]:
        wrong = lambda x, *rest, **attributes: table["Conv"](x.swapaxes(2, 3), *rest, **attributes)  # noqa: E731
        return {"Conv": nth(table["Conv"], 0, wrong, calls)}

    return jax_with(artifact, options, change)


def no_relu(artifact: Artifact, options: Options) -> Trainer:
    calls = artifact.info["operators"]["Relu"]
    return jax_with(artifact, options, lambda table: {"Relu": nth(table["Relu"], calls - 1, lambda x: x, calls)})


def no_norm(artifact: Artifact, options: Options) -> Trainer:
    def identity(x: Any, scale: Any, bias: Any, mean: Any, var: Any, **attributes: Any) -> Any:
        return x, mean, var

    calls = artifact.info["operators"]["BatchNormalization"]
    change = lambda table: {"BatchNormalization": nth(table["BatchNormalization"], 1, identity, calls)}  # noqa: E731
    return jax_with(artifact, options, change)


def softmax(artifact: Artifact, options: Options) -> Trainer:
    """A Softmax after the last layer, which the loss already has."""
    calls = artifact.info["operators"]["Gemm"]

    def change(table: dict[str, Any]) -> dict[str, Any]:
        wrong = lambda *args, **attributes: table["Softmax"](table["Gemm"](*args, **attributes))  # noqa: E731
        return {"Gemm": nth(table["Gemm"], calls - 1, wrong, calls)}

    return jax_with(artifact, options, change)


def momentum(artifact: Artifact, options: Options) -> Trainer:
    """PyTorch's momentum taken for ONNX's."""

    def change(table: dict[str, Any]) -> dict[str, Any]:
        def wrong(*args: Any, momentum: float = 0.9, **attributes: Any) -> Any:
            return table["BatchNormalization"](*args, momentum=1 - momentum, **attributes)

        return {"BatchNormalization": wrong}

    return jax_with(artifact, options, change)


def no_gradient(artifact: Artifact, options: Options) -> Trainer:
    """The gradient of one weight never arrives."""
    made = jax_with(artifact, options, lambda table: {})
    fetch = made.fetch

    def incomplete(result: Any) -> Any:
        loss, grads = fetch(result)
        return loss, {name: grad for name, grad in grads.items() if name != artifact.parameters[2]}

    made.fetch = incomplete
    return made


# ***** JAX with a wrong training *****


def nesterov(artifact: Artifact, options: Options) -> Trainer:
    """Nesterov's momentum taken for Polyak's."""
    made = jax_with(artifact, options, lambda table: {})
    made.rule = {**made.rule, "nesterov": True}
    return made


def diverges(artifact: Artifact, options: Options) -> Trainer:
    """A learning rate that is right for the first 25 steps."""
    made = jax_with(artifact, options, lambda table: {})
    made.rule = {**made.rule, "schedule": (*[1.0] * 25, 1e30)}
    return made


def with_step(
    artifact: Artifact,
    options: Options,
    number: int,
    other: Callable[[Trainer, Callable[..., Any]], Callable[..., Any]],
) -> Trainer:
    """A runtime with another step in place of step `number`, counted from 1."""
    made, count = jax_with(artifact, options, lambda table: {}), iter(range(1, 10**9))
    step = made.step
    made.step = lambda *batch: (other(made, step) if next(count) == number else step)(*batch)
    return made


def slows(artifact: Artifact, options: Options) -> Trainer:
    """A learning rate that is halved from step 9 on."""
    made = jax_with(artifact, options, lambda table: {})
    made.rule = {**made.rule, "schedule": (*[1.0] * 8, 0.5)}
    return made


def misreports(artifact: Artifact, options: Options) -> Trainer:
    """The loss of step 3 is a ten thousandth off; everything after it is right."""
    return with_step(artifact, options, 3, lambda made, step: lambda *batch: (step(*batch)[0] * 1.0001,))


def hangs(artifact: Artifact, options: Options) -> Trainer:
    return with_step(artifact, options, 5, lambda made, step: lambda *batch: time.sleep(1000))


# ***** ONNX Runtime with an edited graph *****


def ort_stride(artifact: Artifact, options: Options) -> Runtime:
    """The third convolution takes every second pixel, so that what follows it no longer fits."""
    from xbench.runtimes.onnxruntime import Inference

    model = onnx.load(artifact.onnx)
    for node in [node for node in model.graph.node if node.op_type == "Conv"][2:3]:
        for attribute in node.attribute:
            if attribute.name == "strides":
                attribute.ints[:] = [2, 2]
    folder = artifact.folder / "planted"
    folder.mkdir(exist_ok=True)
    onnx.save(model, folder / "inference.onnx")
    return Inference(dataclasses.replace(artifact, folder=folder), options)
