"""Runtimes with one fault, given in the runtime's word: `faulty_ort:node=relu_1,fault=scale`.

`faulty_ort` is ONNX Runtime with a node of its graph altered: the one that gives `node`, or occurrence
`nth` of operator `op`, from 0 on. `faulty_jax` is JAX with the line of the text altered that gives `node`, or with the
operator `op` of its table. `install` writes them as a distribution of their own.
"""

import dataclasses
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from xbench.converters.artifact import Artifact
from xbench.runtimes import Options, Row, Runtime, Trainer

ROW_ort = Row("faulty:ort", ("onnxruntime",), "onnxruntime", "graph")
ROW_jax = Row("faulty:jax", ("jax",), "jax", "native")

REPLACED = {
    "Relu": "Softplus", "MaxPool": "AveragePool", "AveragePool": "MaxPool", "Tanh": "Sigmoid", "Sigmoid": "Tanh",
    "Add": "Sub", "Sub": "Add", "Mul": "Add", "Div": "Mul", "GlobalAveragePool": "GlobalMaxPool", "Exp": "Softplus",
    "ReduceMean": "ReduceMax", "Softmax": "LogSoftmax", "LogSoftmax": "Softmax", "Erf": "Tanh", "Clip": "Identity",
    "Less": "Greater", "Greater": "Less", "ArgMax": "ArgMin",
}  # fmt: skip
SCALE = 1.01


def install(folder: Path) -> Path:
    """Write this module and its metadata into a folder for PYTHONPATH."""
    (folder / "faulty.py").write_text(Path(__file__).read_text())
    info = folder / "faulty-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[xbench.runtimes]\nfaulty_ort = faulty:ROW_ort\nfaulty_jax = faulty:ROW_jax\n"
    )
    return folder


# ***** a node of an ONNX graph altered *****


def append_after(graph: onnx.GraphProto, node: onnx.NodeProto, op_type: str, *more: str, **attributes: Any) -> None:
    """Append an operator to the first output of a node."""
    name = node.output[0]
    node.output[0] = f"{name}.right"
    place = list(graph.node).index(node) + 1
    graph.node.insert(place, helper.make_node(op_type, [node.output[0], *more], [name], **attributes))


def scale(graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
    """The result is 1 % too large."""
    graph.initializer.append(numpy_helper.from_array(np.float32(SCALE), "faulty_scale"))
    append_after(graph, node, "Mul", "faulty_scale")


def negate(graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
    append_after(graph, node, "Neg")


def fixed_point(graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
    """The result is rounded to a 256th, as in fixed point."""
    graph.initializer.append(numpy_helper.from_array(np.float32(256), "faulty_256"))
    append_after(graph, node, "Div", "faulty_256")  # the last one appended comes first
    append_after(graph, node, "Round")
    append_after(graph, node, "Mul", "faulty_256")


def transpose(graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
    """The last two axes of the result are swapped, if they are equally long."""
    append_after(graph, node, "Transpose", perm=[0, 1, 3, 2])


def weight(graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
    """A weight that the node reads is 1 % too large, for this node."""
    for tensor in graph.initializer:
        if tensor.name in node.input and tensor.data_type == onnx.TensorProto.FLOAT and np.prod(tensor.dims) > 1:
            graph.initializer.append(
                numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(SCALE), "faulty_weight")
            )
            node.input[list(node.input).index(tensor.name)] = "faulty_weight"
            return
    raise LookupError(f"{node.op_type} has no weight")


def bias(graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
    """Its last input, a bias, is dropped."""
    if node.op_type not in ("Conv", "Gemm") or len(node.input) < 3:
        raise LookupError(f"{node.op_type} has no bias")
    del node.input[2:]


def attribute(graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
    """One attribute is changed, without changing the result's shape."""
    changes: dict[tuple[str, str], Callable[[Any], Any]] = {
        ("BatchNormalization", "epsilon"): lambda v: 1e-3,
        ("LayerNormalization", "epsilon"): lambda v: 1e-2,
        ("SkipLayerNormalization", "epsilon"): lambda v: 1e-2,
        ("Gemm", "alpha"): lambda v: 0.99,
        ("Gemm", "beta"): lambda v: 0.5,
        ("Softmax", "axis"): lambda v: 0,
        ("Concat", "axis"): lambda v: v,
        ("LeakyRelu", "alpha"): lambda v: v * 1.1,
        ("GRU", "linear_before_reset"): lambda v: 1 - v,
        ("AveragePool", "count_include_pad"): lambda v: 1 - v,
    }
    for each in node.attribute:
        if change := changes.get((node.op_type, each.name)):
            value = helper.get_attribute_value(each)
            if change(value) != value:
                each.CopyFrom(helper.make_attribute(each.name, change(value)))
                return
    raise LookupError(f"{node.op_type} has no attribute to change")


def operator(graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
    """Another operator in its place."""
    if node.op_type not in REPLACED:
        raise LookupError(f"nothing is like {node.op_type}")
    node.op_type = REPLACED[node.op_type]
    known = onnx.defs.get_schema(node.op_type, 20, "").attributes
    for each in [each for each in node.attribute if each.name not in known]:
        node.attribute.remove(each)
    del node.input[onnx.defs.get_schema(node.op_type, 20, "").max_input :]


def broken(graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
    """The runtime refuses it."""
    node.op_type = "NoSuchOperator"


def fused(graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
    """As `scale`, but hidden: if the result is an output the node is right."""
    if node.output[0] not in {value.name for value in graph.output}:
        scale(graph, node)


def capped(graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
    """What is above 100 becomes 100: on small numbers it is right."""
    graph.initializer.append(numpy_helper.from_array(np.float32(100), "faulty_100"))
    append_after(graph, node, "Min", "faulty_100")


FAULTS = {
    each.__name__: each
    for each in (scale, negate, fixed_point, transpose, weight, bias, attribute, operator, broken, fused, capped)
}


def chosen(graph: onnx.GraphProto, settings: Any) -> onnx.NodeProto | None:
    if "node" in settings:
        return next((node for node in graph.node if settings["node"] in node.output), None)
    same = [node for node in graph.node if node.op_type == settings["op"]]
    return next(iter(same[int(settings.get("nth", 0)) :]), None)


def alter(model: onnx.ModelProto, settings: Any) -> onnx.ModelProto:
    node = chosen(model.graph, settings)
    if node is not None:
        FAULTS[settings["fault"]](model.graph, node)
    return model


def ort(artifact: Artifact, options: Options) -> Runtime:
    from xbench.runtimes import onnxruntime

    if options.trains:
        made = onnxruntime.Training(artifact, options)
        compiled = made.compile
        made.compile = lambda model: compiled(alter(model, options.extra))
        return made
    folder = artifact.folder / "faulty"
    folder.mkdir(exist_ok=True)
    onnx.save(alter(onnx.load(artifact.onnx), options.extra), folder / "inference.onnx")
    own = dataclasses.replace(artifact, folder=folder, info=artifact.info | {"given": None})
    return onnxruntime.Inference(own, options)


# ***** a fault at random *****

FORWARD = ("scale", "weight", "fixed_point", "negate", "transpose", "bias", "attribute", "operator")


def drawn(artifact: Artifact, mode: str, draw: random.Random) -> tuple[str, str, str]:
    """A runtime with a fault, the tensor whose node is wrong, and the operator of that node; or, for a wrong
    gradient, the parameter and the word parameter."""
    import onnx_ir as ir

    if mode == "gradient":
        return drawn_backward(artifact, ir.load(artifact.folder / "model.onnx"), draw)
    model, values = onnx.load(artifact.onnx), {v.name: v for n in ir.load(artifact.onnx).graph for v in n.outputs}
    while True:
        node, fault = draw.choice(model.graph.node), draw.choice(FORWARD)
        value, copy = values[node.output[0]], onnx.ModelProto.FromString(model.SerializeToString())
        if value.dtype != ir.DataType.FLOAT or (fault == "transpose" and not is_square(value.shape)):
            continue
        try:
            alter(copy, {"node": node.output[0], "fault": fault})
        except LookupError:  # this operator has no such fault
            continue
        return f"faulty_ort:node={node.output[0]},fault={fault}", node.output[0], node.op_type


def is_square(shape: Any) -> bool:
    return shape is not None and len(shape) == 4 and shape[2] == shape[3] != 1


def drawn_backward(artifact: Artifact, model: Any, draw: random.Random) -> tuple[str, str, str]:
    from xbench.converters.passes.subgraph import learned_tensors

    if draw.random() < 0.3:
        name, fault = draw.choice(artifact.parameters), draw.choice(("scale", "negate", "fixed_point"))
        return f"faulty_ort:node=gradient.{name},fault={fault}", name, "parameter"
    text, operators = artifact.program().source, {str(n.outputs[0].name): n.op_type for n in model.graph}
    names = [name for name in operators if name in learned_tensors(model) and line(name).search(text)]
    name = draw.choice(names)
    return f"faulty_jax:node={name},fault={draw.choice(('gradient', 'flip'))}", name, operators[name]


# ***** a line of the text altered, or an operator of the table *****


def jax(artifact: Artifact, options: Options) -> Trainer:
    from xbench.converters.ops import jax as ops
    from xbench.runtimes.jax import Jax

    settings, made, table = options.extra, Jax(artifact, options), dict(ops.TABLE)
    skews = {"scale": scaled, "trained": scaled, "gradient": skewed(lambda g: g * SCALE), "flip": skewed(lambda g: -g)}
    skew = skews[settings["fault"]]
    table["faulty"] = lambda x: tuple(map(skew, x)) if isinstance(x, tuple) else skew(x)
    source = made.program.source
    if "node" in settings:
        source = line(settings["node"]).sub(r"\1faulty(\2)", source)
    else:
        right = table[settings["op"]]

        def wrong(*args: Any, **attributes: Any) -> Any:
            is_wrong = settings["fault"] != "trained" or attributes.get("training_mode")
            return table["faulty" if is_wrong else "right"](right(*args, **attributes))

        table |= {settings["op"]: wrong, "right": lambda x: x}
    made.apply = dataclasses.replace(made.program, source=source).bind(table)
    return made


def line(name: str) -> re.Pattern[str]:
    """The line of a program that gives a tensor: the part left of the call, and the call."""
    return re.compile(rf"^(\s+(?:\(?\w+, )*\(?{re.escape(name)}(?:, \w+)*,?\)? = )(\w+\(.*\))$", re.MULTILINE)


def scaled(x: Any) -> Any:
    return x * SCALE


def skewed(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The identity, with another gradient."""
    import jax

    @jax.custom_vjp
    def same(x: Any) -> Any:
        return x

    same.defvjp(lambda x: (x, None), lambda _, g: (change(g),))
    return lambda x: same(x) if getattr(x, "dtype", None) == np.float32 else x
