"""Writes ONNX nodes by calling their names: `op.Mul(dy, op.Cos(x))` adds two to a graph and returns the product."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

Operand = ir.Value | np.ndarray | float | int | bool | Sequence[int] | None


class Ops(ir.tape.Tape):
    """Adds nodes to the end of a graph; numbers and arrays among the inputs become constants, each kept once.

    A float is of the model's floating type, an int or a list of them int64.
    """

    def __init__(self, graph: ir.Graph, floating: ir.DataType = ir.DataType.FLOAT) -> None:
        super().__init__(graph)
        self.floating = floating
        self._constants: dict[tuple[Any, ...], ir.Value] = {}

    def __getattr__(self, op_type: str) -> Any:
        if not op_type[0].isupper():
            raise AttributeError(op_type)
        return functools.partial(self.emit, op_type)

    def emit(self, op_type: str, *inputs: Operand, outputs: int = 1, **attributes: Any) -> Any:
        """Adds a node; returns its output, or the tuple of them if there are several."""
        values = [self.value(each) for each in inputs]
        made = self.op_multi_out(op_type, values, attributes, num_outputs=outputs)
        return made[0] if outputs == 1 else tuple(made)

    def value(self, given: Operand) -> ir.Value | None:
        """An operand as a value of the graph."""
        if given is None or isinstance(given, ir.Value):
            return given
        if isinstance(given, float):
            array = np.asarray(given, self.floating.numpy())
        elif isinstance(given, np.ndarray | bool):
            array = np.asarray(given)
        else:
            array = np.asarray(given, np.int64)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            name = f"constant_{len(self._constants)}"
            self._constants[key] = self.initializer(ir.tensor(array, name=name), name)
        return self._constants[key]

    # ***** shapes *****

    def shape(self, x: ir.Value) -> Operand:
        """The shape of a tensor, as a constant if it is known."""
        known = dims(x)
        return known if None not in known else self._shape(x)  # type: ignore[return-value]

    @functools.cache  # noqa: B019 an Ops lives while its graph is written
    def _shape(self, x: ir.Value) -> ir.Value:
        return self.Shape(x)

    def reshape(self, g: ir.Value, shape: Sequence[int | None], like: ir.Value | None = None) -> ir.Value:
        """g in a shape of which at most one length may be unknown, or more if `like` has that shape."""
        if list(shape).count(None) > 1:
            assert like is not None
            return self.Reshape(g, self._shape(like))
        return self.Reshape(g, [-1 if n is None else n for n in shape])

    def reshape_like(self, g: ir.Value, x: ir.Value) -> ir.Value:
        return self.reshape(g, dims(x), x)

    def expand_like(self, g: ir.Value, x: ir.Value) -> ir.Value:
        return self.Expand(g, self.shape(x))

    def zeros_like(self, x: ir.Value) -> ir.Value:
        return self.Expand(0.0, self.shape(x))

    def count(self, x: ir.Value, axes: Sequence[int]) -> Operand:
        """The number of elements that the axes of a tensor span, as a float."""
        sizes = [dims(x)[axis] for axis in axes]
        if None not in sizes:
            return float(math.prod(sizes))  # type: ignore[arg-type]
        spanned = self.Gather(self._shape(x), list(axes))
        return self.Cast(self.ReduceProd(spanned, [0], keepdims=0), to=self.floating)

    def length(self, x: ir.Value, axis: int) -> Operand:
        """The length of an axis, as an array of one number: a constant if it is known."""
        known = dims(x)[axis]
        return [known] if known is not None else self.Gather(self._shape(x), [axis])

    def sum_to(self, g: ir.Value, full: ir.Value, x: ir.Value) -> ir.Value:
        """The gradient of a broadcast: g, of the shape of `full`, summed to the shape of x."""
        wide, narrow = names(full), names(x)
        lead = len(wide) - len(narrow)
        axes = [a for a in range(len(wide)) if a < lead or (narrow[a - lead] == 1 and wide[a] != 1)]
        if not axes:
            return g
        kept = self.ReduceSum(g, axes, keepdims=int(lead == 0))
        if lead and any(a >= lead for a in axes):
            return self.reshape_like(kept, x)
        return kept


def dims(x: ir.Value | None) -> list[int | None]:
    """The lengths of the axes, None for one that is not known.

    Raises:
        ValueError: the number of axes is not known either.
    """
    return [n if isinstance(n, int) else None for n in names(x)]


def names(x: ir.Value | None) -> list[int | str | None]:
    """The lengths of the axes, or their names."""
    if x is None or x.shape is None:
        raise ValueError(f"the shape of {'nothing' if x is None else x.name} is not known")
    return [n if isinstance(n, int) else n.value for n in x.shape]


def rank(x: ir.Value | None) -> int:
    return len(names(x))
