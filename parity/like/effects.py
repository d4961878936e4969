"""What an error at some tensors of the original does to its outputs, while everything else is right."""

import math
from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from xbench.parity.like.rounding import apart
from xbench.parity.like.walk import Values, Walk, array_of, tensor_of

MOST = 1e3  # an effect that is not finite counts as this


class Effects:
    """`walk` is the original's, `values` all its tensors."""

    def __init__(self, walk: Walk, values: Values) -> None:
        self.walk, self.values = walk, values
        self.outputs = [value for value in walk.graph.model.graph.outputs if value in values]
        self.right = {value: array for value in self.outputs if (array := array_of(values[value])) is not None}

    def of(self, errors: Mapping[ir.Value, np.ndarray]) -> float:
        """How far the outputs are off if these errors are added to tensors, in the sense of `off`."""
        moved = {value: tensor_of(error) for value, error in errors.items() if np.any(error != 0)}
        return self.off(self.walk.changed(self.values, moved)) if moved else 0.0

    def off(self, values: Mapping[ir.Value, object]) -> float:
        """The root mean square over the outputs of their relative errors; those that are not among `values` are right.
        Integers count as different or not, and only if there is nothing else."""
        floats = [value for value, array in self.right.items() if array.dtype.kind == "f"]
        errors = list[float]()
        for value in floats or self.right:
            made = array_of(values[value]) if value in values else self.right[value]
            if made is None or made.shape != self.right[value].shape:
                errors.append(MOST)
            elif floats:
                errors.append(min(apart(made, self.right[value]), MOST))
            else:
                errors.append(float(np.mean(made != self.right[value])) if made.size else 0.0)
        return math.sqrt(sum(error**2 for error in errors) / max(len(errors), 1))
