"""ONNX -> any framework, by one rule: *an operator is a function from arrays and ONNX attributes to arrays.*

`source` prints the graph once as a Python function written in ONNX's own operator names, the same text for every
framework; a framework is the table of functions in which that text runs (`converters/torch.py`, `converters/jax.py`,
`converters/tensorflow.py`). Inputs are positional, attributes are keywords with ONNX's names and defaults. Three things
in the text are not ONNX's:

- `training` and `rng`, the keywords of `apply`: BatchNormalization and Dropout are exported once and act by them;
- `unbiased=1` on BatchNormalization: the running variance is PyTorch's (Bessel-corrected), ONNX's own is not;
- an input that must be known when the graph is compiled (axes, shapes, pads, ...) is printed as a Python literal.
"""

import ast
import keyword
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

PARAMETERS = "xbench.parameters"  # metadata_props: JSON list of the trainable initializers
UNBIASED = "xbench.unbiased_variance"  # metadata_props: set where BatchNormalization means PyTorch's

# Inputs, by position, whose values decide shapes or the form of the computation. Frameworks want them at compile time.
STATIC_INPUTS: dict[str, tuple[int, ...]] = {
    "Clip": (),
    "ConstantOfShape": (0,),
    "CumSum": (1,),
    "Dropout": (1, 2),
    "Expand": (1,),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    **{
        f"Reduce{kind}": (1,)
        for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
    },
}


class UnsupportedOps(Exception):
    """Operators a framework's table lacks, all of them at once, with how often each occurs."""

    def __init__(self, operators: Mapping[str, int]) -> None:
        self.operators = dict(sorted(operators.items()))
        super().__init__(", ".join(f"{name} ({count})" for name, count in self.operators.items()))


@dataclass(frozen=True)
class Program:
    """A converted model: readable text, and the arrays it works on.

    `params` holds the trainable arrays by PyTorch name, `state` all others (running statistics, buffers, folded
    constants). The text defines `apply(params, state, *inputs, training=False, rng=None)`, which returns the tuple of
    outputs and a dictionary of the state that changed.
    """

    source: str
    params: dict[str, np.ndarray]
    state: dict[str, np.ndarray]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operators: dict[str, int] = field(default_factory=dict)

    def bind(self, table: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
        """Runs the text in a framework's table and returns its `apply`.

        Raises:
            UnsupportedOps: the table lacks operators; all of them are named.
        """
        if missing := {name: n for name, n in self.operators.items() if name not in table}:
            raise UnsupportedOps(missing)
        namespace = dict(table)
        exec(compile(self.source, "<xbench program>", "exec"), namespace)
        return namespace["apply"]


def operators_of(table: str) -> set[str]:
    """The operators of a framework's table, read from its source so that the framework need not be imported."""
    names: set[str] = set()
    for file in ("_shared", table):
        for node in ast.parse(Path(__file__).with_name(f"{file}.py").read_text()).body:
            if isinstance(node, ast.FunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Assign):
                names |= {t.id for t in node.targets if isinstance(t, ast.Name) and t.id != t.id.upper()}
                keys = node.value.keys if isinstance(node.value, ast.Dict) else []
                names |= {str(key.value) for key in keys if isinstance(key, ast.Constant)}
    return {name for name in names if name[0].isupper()}


def constant(value: ir.Value | None) -> np.ndarray | None:
    """The array of an initializer or Constant node, or None where the value is computed or given."""
    if value is None:
        return None
    if value.const_value is not None:
        return value.const_value.numpy()
    producer = value.producer()
    if producer is not None and producer.op_type == "Constant" and "value" in producer.attributes:
        return producer.attributes["value"].as_tensor().numpy()
    return None


def count_operators(model: ir.Model) -> dict[str, int]:
    """Operators of the graph and how often each occurs; names carry the domain unless it is ONNX's own."""
    return dict(Counter(node.op_type if not node.domain else f"{node.domain}.{node.op_type}" for node in model.graph))


def convert(model: ir.Model, trainable: Iterable[str]) -> Program:
    """Prints the graph and sorts its initializers into trainable parameters and state."""
    graph, names = model.graph, set(trainable)
    printer = _Printer(names, unbiased=UNBIASED in model.metadata_props)
    source = printer.function(graph)
    arrays = {
        name: value.const_value.numpy() for name, value in graph.initializers.items() if value.const_value is not None
    }
    return Program(
        source=source,
        params={name: array for name, array in arrays.items() if name in names},
        state={name: arrays[name] for name in sorted(printer.state)},
        inputs=tuple(str(value.name) for value in graph.inputs if value.name not in graph.initializers),
        outputs=tuple(str(value.name) for value in graph.outputs),
        operators=count_operators(model),
    )


class _Printer:
    """Prints a graph as a Python function; remembers which initializers the text reads as state."""

    def __init__(self, trainable: set[str], unbiased: bool) -> None:
        self.trainable = trainable
        self.unbiased = unbiased
        self.state: set[str] = set()
        self.updates: dict[str, str] = {}
        self.dropouts = 0
        self._names: dict[ir.Value, str] = {}
        self._taken = {"params", "state", "training", "rng", "apply"}

    def function(self, graph: ir.Graph) -> str:
        given = [value for value in graph.inputs if value.name not in graph.initializers]
        arguments = "".join(f"{self.name(value)}, " for value in given)
        lines = [f"    {self.statement(node)}" for node in graph]
        outputs = "".join(f"{self.value(value)}, " for value in graph.outputs)
        updates = ", ".join(f"{name!r}: {new}" for name, new in self.updates.items())
        head = f"def apply(params, state, {arguments}*, training=False, rng=None):"
        return "\n".join([head, *lines, f"    return ({outputs.rstrip()}), {{{updates}}}", ""])

    def name(self, value: ir.Value) -> str:
        """A Python identifier for a tensor, close to its ONNX name."""
        if value not in self._names:
            word = re.sub(r"\W", "_", str(value.name)) or "value"
            word = f"v_{word}" if word[0].isdigit() or keyword.iskeyword(word) or word[0].isupper() else word
            while word in self._taken:
                word += "_"
            self._taken.add(word)
            self._names[value] = word
        return self._names[value]

    def value(self, value: ir.Value | None, static: bool = False) -> str:
        """How a tensor is written where it is read."""
        if value is None:
            return "None"
        if value.name in self.trainable:
            return f"params[{value.name!r}]"
        array = constant(value)
        if array is None:
            return self.name(value)
        if array.ndim == 0 or static:
            return _literal(array)
        if array.ndim == 1 and array.dtype.kind == "i" and array.size <= 64:
            return f"Constant(value_ints={_literal(array)})"
        self.state.add(str(value.name))
        return f"state[{value.name!r}]"

    def statement(self, node: ir.Node) -> str:
        static = STATIC_INPUTS.get(node.op_type, ())
        inputs = [self.value(value, index in static) for index, value in enumerate(node.inputs)]
        attributes = [f"{name}={_attribute(value)}" for name, value in _stated(node)]
        outputs = [self.name(value) if value.name else "_" for value in node.outputs]
        if node.op_type == "BatchNormalization":
            attributes.append("training_mode=training")
            attributes += ["unbiased=1"] * self.unbiased
            named = [*outputs[1:], "_", "_"]
            defaults = (f"{outputs[0]}_mean", f"{outputs[0]}_var")
            outputs = [outputs[0], *(d if name == "_" else name for name, d in zip(named, defaults))]
            self.updates |= {
                str(value.name): name
                for value, name in zip(node.inputs[3:], outputs[1:], strict=True)
                if value is not None and value.is_initializer()
            }
        if node.op_type == "Dropout":
            self.dropouts += 1
            inputs = [inputs[0], *(inputs[1:2] or ["0.5"]), "training"]
            attributes = [f"seed={self.dropouts}", "rng=rng"]
            outputs = outputs[:1]
        if node.op_type in ("LSTM", "GRU", "RNN"):
            outputs += ["_"] * ((3 if node.op_type == "LSTM" else 2) - len(outputs))
        call = f"{node.op_type}({', '.join([*inputs, *attributes])})"
        return f"{', '.join(outputs)} = {call}"


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
        if name != "training_mode" and _attribute(value) != _default(defaults.get(name))
    ]


def _default(proto: Any) -> str | None:
    """A schema's default printed as `_attribute` prints a value; None where there is none."""
    import onnx

    if proto is None or not proto.type:
        return None
    return _python(onnx.helper.get_attribute_value(proto))


def _attribute(attribute: ir.Attr) -> str:
    if attribute.type == ir.AttributeType.TENSOR:
        return _literal(attribute.as_tensor().numpy())
    return _python(attribute.value)


def _python(value: Any) -> str:
    if isinstance(value, bytes):
        return repr(value.decode())
    if isinstance(value, float | np.floating):
        return _number(np.float32(value))  # an attribute is a float32: 1e-5 must not read 9.999999747e-06
    if isinstance(value, list | tuple) or (hasattr(value, "__len__") and not isinstance(value, str)):
        return (
            "(" + "".join(f"{_python(item)}, " for item in value).removesuffix(" " if len(value) == 1 else ", ") + ")"
        )
    return repr(int(value) if isinstance(value, np.integer | bool) else value)


def _number(value: np.floating) -> str:
    return repr(float(str(value))) if math.isfinite(value) else f"float('{value}')"


def _literal(array: np.ndarray) -> str:
    """A constant as Python text; floats by their shortest decimal that gives the same number back."""
    if array.ndim == 0:
        item = array[()]
        return _number(item) if isinstance(item, np.floating) else repr(item.item())
    return (
        "("
        + "".join(f"{_literal(item)}, " for item in np.asarray(array)).removesuffix(" " if len(array) == 1 else ", ")
        + ")"
    )
