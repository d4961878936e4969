"""Prints an ONNX graph as a Python function in ONNX's own operator names."""

import keyword
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from xbench.converters import DETACHED, FROZEN, PADDING
from xbench.converters.ops.info import info
from xbench.converters.printable import python

# Words that the text uses itself, so no tensor has them as a name; `_` is for a result that nobody reads.
OWN_WORDS = ("params", "state", "training", "rng", "apply", "float", "_")
# The types that Python's numbers represent.
NUMBERS = ("float32", "int64", "bool")


def padding(node: ir.Node) -> int | None:
    """The row of a Gather's table that is not trained (`PADDING`)."""
    row = node.metadata_props.get(PADDING, "")
    return int(row) if node.op_type == "Gather" and row.isdecimal() else None


def detached(node: ir.Node) -> bool:
    """Whether no gradient goes through an Identity (`DETACHED`)."""
    return node.op_type == "Identity" and DETACHED in node.metadata_props


def constant(value: ir.Value | None) -> np.ndarray | None:
    """The array of an initializer or Constant node, or None if the value is computed or an input."""
    if value is None:
        return None
    if value.const_value is not None:
        return value.const_value.numpy()
    producer = value.producer()
    if producer is None or producer.op_type != "Constant" or producer.domain:
        return None
    ((name, attribute),) = producer.attributes.items()
    if name == "value":
        return attribute.as_tensor().numpy()
    kind = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}
    return np.asarray(attribute.value, kind[name]) if name in kind else None


class Printer:
    """Prints a graph as a Python function; remembers which initializers the text reads as state."""

    def __init__(self, trainable: set[str], unbiased: bool) -> None:
        self.trainable = trainable
        self.unbiased = unbiased
        self.state: dict[str, np.ndarray] = {}
        self.updates: dict[str, str] = {}
        self.dropouts = 0
        self._names: dict[ir.Value, str] = {}
        self._keys: dict[ir.Value, str] = {}
        self._stored: set[str] = set()
        self._taken = {*OWN_WORDS}

    def function(self, graph: ir.Graph) -> str:
        self._keys = {value: name for name, value in graph.initializers.items()}
        self._stored = {*graph.initializers}
        arguments = "".join(f"{self.name(value)}, " for value in _given(graph))
        lines = self.block(graph)
        outputs = "".join(f"{self.value(value)}, " for value in graph.outputs)
        updates = ", ".join(f"{python(name)}: {new}" for name, new in self.updates.items())
        head = f"def apply(params, state, {arguments}*, training=False, rng=None):"
        return "\n".join([head, *lines, f"    return ({outputs.rstrip()}), {{{updates}}}", ""])

    def block(self, graph: ir.Graph) -> list[str]:
        """The statements of a graph, indented; a subgraph (of If, Loop, Scan) is a function defined before its node."""
        lines = []
        for node in graph:
            if node.op_type == "Constant" and constant(node.outputs[0]) is not None:
                continue
            bodies = {name: a.as_graph() for name, a in node.attributes.items() if a.type == ir.AttributeType.GRAPH}
            functions = {name: self._unused(f"{node.op_type}_{name}".lower()) for name in bodies}
            for name, body in bodies.items():
                lines += self.subgraph(functions[name], body)
            lines.append(self.statement(node, functions))
        return [f"    {line}" for line in lines]

    def subgraph(self, function: str, graph: ir.Graph) -> list[str]:
        arguments = ", ".join(self.name(value) for value in _given(graph))
        lines = self.block(graph)
        outputs = "".join(f"{self.value(value)}, " for value in graph.outputs)
        return [f"def {function}({arguments}):", *lines, f"    return ({outputs.rstrip()})"]

    def _unused(self, word: str) -> str:
        while word in self._taken:
            word += "_"
        self._taken.add(word)
        return word

    def name(self, value: ir.Value) -> str:
        """A Python identifier for a tensor, close to its ONNX name."""
        if value not in self._names:
            word = re.sub(r"\W", "_", str(value.name), flags=re.ASCII) or "value"
            odd = keyword.iskeyword(word) or word.startswith("__")  # `__debug__` is one of Python's own
            word = f"v_{word}" if odd or word[0].isdigit() or word[0].isupper() else word
            self._names[value] = self._unused(word)
        return self._names[value]

    def key(self, value: ir.Value) -> str:
        """The name of an array in the state: the tensor's own, or a variant if another branch has the same."""
        if value not in self._keys:
            name = str(value.name)
            while name in self._stored:
                name += "_"
            self._keys[value] = name
            self._stored.add(name)
        return self._keys[value]

    def is_trained(self, value: ir.Value) -> bool:
        return value.name in self.trainable and self.key(value) == value.name

    def value(self, value: ir.Value | None, static: bool = False, typed: bool = False) -> str:
        """The text of a tensor where it is read; a number shows its type unless another input implies it (`typed`)."""
        if value is None:
            return "None"
        if self.is_trained(value):
            return f"params[{python(value.name)}]"
        array = constant(value)
        if array is None:
            return self.name(value)
        if static or (_is_number(array) and (typed or array.dtype != np.float32)):
            return _literal(array)
        if _is_number(array):
            return f"Constant(value_float={_literal(array)})"
        if array.ndim == 1 and array.dtype == np.int64 and array.size <= 64:
            return f"Constant(value_ints={_literal(array)})"
        self.state[self.key(value)] = array
        return f"state[{python(self.key(value))}]"

    def inputs(self, node: ir.Node) -> list[str]:
        """The text of a node's inputs: plain numbers if another input is an array of their type."""
        about = info(node.op_type)
        arrays = [value for index, value in enumerate(node.inputs) if value is not None and index not in about.static]
        types = {v.dtype for v in arrays if self.is_trained(v) or not _is_number(constant(v))}
        types = set() if about.sequence else types
        return [
            self.value(value, index in about.static, value is not None and bool({value.dtype, None} & types))
            for index, value in enumerate(node.inputs)
        ]

    def statement(self, node: ir.Node, functions: Mapping[str, str]) -> str:
        """A node as a call; `functions` names the functions of its subgraphs by attribute."""
        inputs, about = self.inputs(node), info(node.op_type)
        attributes = [f"{name}={functions.get(name) or _attribute(value)}" for name, value in _stated(node)]
        attributes += [f"dtype={python(str(t.dtype))}" for t in _tensors(node) if str(t.dtype) not in NUMBERS]
        attributes += [f"padding_idx={row}"] if (row := padding(node)) is not None else []
        attributes += ["detached=1"] if detached(node) else []
        outputs = [self.name(value) if _is_read(value) else "_" for value in node.outputs]
        if node.op_type == "BatchNormalization":
            inputs[3:] = [self.latest(each, name) for each, name in zip(node.inputs[3:], inputs[3:], strict=True)]
            attributes, outputs = self.statistics(node, attributes, outputs)
        elif node.op_type == "Dropout":
            self.dropouts += 1
            inputs = [inputs[0], *(inputs[1:2] or ["0.5"]), "training"]
            attributes = [f"seed={self.dropouts}", "rng=rng"]
        if about.counts_outputs:
            outputs = outputs[: 1 + max((i for i, name in enumerate(outputs) if name != "_"), default=0)]
            attributes += [f"outputs={len(outputs)}"] * (len(outputs) > 1)
        outputs += ["_"] * (about.outputs - len(outputs))
        call = f"{node.op_type}({', '.join([*inputs, *attributes])})"
        if len(outputs) == 1 and about.sequence:
            return f"({outputs[0]},) = {call}"
        return f"{', '.join(outputs)} = {call}"

    def latest(self, value: ir.Value | None, name: str) -> str:
        """What an earlier call of the same layer has made of an array of the state, as in a siamese network."""
        return self.updates.get(self.key(value), name) if value is not None and value.is_initializer() else name

    def statistics(self, node: ir.Node, attributes: list[str], outputs: list[str]) -> tuple[list[str], list[str]]:
        """For BatchNormalization: it trains when `apply` does, and its new statistics are updates of the state.

        A file with training_mode=1 always trains, and has the new statistics as outputs.
        """
        if node.attributes.get_int("training_mode", 0):
            return [*attributes, "training_mode=1"], outputs
        if FROZEN in node.metadata_props:
            return attributes, outputs
        attributes = [*attributes, "training_mode=training", *["unbiased=1"] * self.unbiased]
        named = [*outputs[1:], "_", "_"]
        defaults = ("mean", "var")
        outputs = [
            outputs[0],
            *(self._unused(f"{outputs[0]}_{d}") if name == "_" else name for name, d in zip(named, defaults)),
        ]
        self.updates |= {
            self.key(value): name
            for value, name in zip(node.inputs[3:], outputs[1:], strict=True)
            if value is not None and value.is_initializer()
        }
        return attributes, outputs


def _given(graph: ir.Graph) -> list[ir.Value]:
    """The inputs of a graph that are not its initializers."""
    return [value for value in graph.inputs if value.name not in graph.initializers]


def _is_number(array: np.ndarray | None) -> bool:
    return array is not None and array.ndim == 0 and array.dtype.name in NUMBERS


def _tensors(node: ir.Node) -> list[np.ndarray]:
    """The arrays among a node's attributes, which the text writes as numbers."""
    return [a.as_tensor().numpy() for a in node.attributes.values() if a.type == ir.AttributeType.TENSOR]


def _is_read(value: ir.Value) -> bool:
    return bool(value.name) and (bool(value.uses()) or value.is_graph_output())


def _stated(node: ir.Node) -> list[tuple[str, ir.Attr]]:
    """Attributes whose value is not ONNX's default, by name."""
    import onnx

    try:
        known = onnx.defs.get_schema(node.op_type, node.version or 20, node.domain).attributes
    except onnx.defs.SchemaError:
        known = {}
    defaults = {name: attribute.default_value for name, attribute in known.items()}
    return [
        (name, value)
        for name, value in sorted(node.attributes.items())
        if name != "training_mode" and not _is_default(value, defaults.get(name)) and not _is_implied(node, name, value)
    ]


def _is_implied(node: ir.Node, name: str, value: ir.Attr) -> bool:
    """Whether ONNX implies this value if the attribute is absent: its schemas have no defaults for these."""
    if name in ("dilations", "strides") and value.type == ir.AttributeType.INTS:
        return set(value.as_ints()) == {1}
    if name == "pads" and value.type == ir.AttributeType.INTS:
        return set(value.as_ints()) == {0} and node.attributes.get_string("auto_pad", "NOTSET") == "NOTSET"
    if value.type == ir.AttributeType.TYPE_PROTO:  # of an empty Optional, that is None
        return True
    return name == "kernel_shape" and node.op_type in ("Conv", "ConvTranspose")


def _is_default(value: ir.Attr, proto: Any) -> bool:
    """Whether a value is a schema's default. Without a default the value, which may be long, is not formatted."""
    import onnx

    if proto is None or not proto.type:
        return False
    return _attribute(value) == _python(onnx.helper.get_attribute_value(proto))


def _attribute(attribute: ir.Attr) -> str:
    if attribute.type == ir.AttributeType.TENSOR:
        return _literal(attribute.as_tensor().numpy())
    return _python(attribute.value)


def _python(value: Any) -> str:
    if isinstance(value, bytes):
        return python(value.decode())
    if isinstance(value, float | np.floating):
        return _number(np.float32(value))  # an attribute is a float32: 1e-5 must not read 9.999999747e-06
    if isinstance(value, list | tuple) and {*map(type, value)} in ({int}, {str}):
        return python(tuple(value))
    if isinstance(value, list | tuple) or (hasattr(value, "__len__") and not isinstance(value, str)):
        return (
            "(" + "".join(f"{_python(item)}, " for item in value).removesuffix(" " if len(value) == 1 else ", ") + ")"
        )
    return python(int(value) if isinstance(value, np.integer | bool) else value)


def _number(value: np.floating) -> str:
    return python(float(str(value))) if math.isfinite(value) else f"float('{value}')"


def _literal(array: np.ndarray) -> str:
    """A constant as Python text; floats as the shortest decimal that gives the same number."""
    if array.ndim == 0:
        item = array[()]
        return _number(item) if isinstance(item, np.floating) else python(item.item())
    return (
        "("
        + "".join(f"{_literal(item)}, " for item in np.asarray(array)).removesuffix(" " if len(array) == 1 else ", ")
        + ")"
    )
