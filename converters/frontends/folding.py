"""Which constants are worth folding: a file of a hundred bytes can ask for an array of terabytes.

`onnxscript` runs a node first and checks the size of its result afterwards. So only operators of shape arithmetic are
run, those whose work is about as large as their inputs and output, and only if shape inference says that the output is
small.
"""

import math

import onnx_ir as ir

from xbench.converters.frontends.tensors import InvalidModel
from xbench.converters.ops.info import info

MAX_FOLDED = 512 * 512  # elements; onnxscript keeps no larger result, unless it replaces larger constants


def fold(model: ir.Model) -> None:
    """Folds constants. Initializers are inputs meanwhile, so that nothing that depends on a weight is folded.

    Raises:
        InvalidModel: a node that cannot be computed.
    """
    from onnxscript.optimizer import fold_constants  # comes with PyTorch's extra

    stored = model.graph.initializers
    own = [value for value in model.graph.inputs if value.name not in stored]
    model.graph.inputs[:] = [*own, *stored.values()]  # only of this graph: a branch of If has no inputs
    try:
        fold_constants(model, onnx_shape_inference=True, should_fold=_is_cheap)
    except Exception as error:  # onnxscript, onnx.reference and NumPy raise many kinds
        raise InvalidModel(error) from error
    model.graph.inputs[:] = own  # whatever became of the initializers: some are no longer read


def _is_cheap(node: ir.Node) -> bool | None:
    """`should_fold` for `fold_constants`: False keeps the node, None leaves it to onnxscript's own rules."""
    if node.domain not in ("", "ai.onnx") or not info(node.op_type).folded:
        return False
    stored = sum(value.const_value.size for value in node.inputs if value is not None and value.const_value is not None)
    limit = max(MAX_FOLDED, stored)
    for output in node.outputs:
        known = output.shape is not None and all(isinstance(size, int) for size in output.shape)
        if known and math.prod(output.shape.numpy()) > limit:  # type: ignore[union-attr]
            return False
        if not known and node.op_type != "NonZero":  # whose output has at most its input's elements times its axes
            return False
    return None
