"""Rules: what an operator that reads an input, or a value computed from it, says about that input.

A rule gets the trace, the node, the index of its input and how that follows from the network's input. It records the
limits, and returns the tensors to continue with. An operator without a rule is arithmetic on any numbers.
"""

from collections.abc import Callable

import onnx_ir as ir

from xbench.converters.inputs import arithmetic, indices, moves, truth
from xbench.converters.inputs.trace import Onward, State, Trace

Rule = Callable[[Trace, ir.Node, int, State], Onward]
# An input of -1 is for all inputs without their own rule.
RULES: dict[tuple[str, int], Rule] = {
    ("Gather", 1): indices.index,
    ("GatherElements", 1): indices.index,
    ("ScatterElements", 1): indices.index,
    ("Scatter", 1): indices.index,
    ("GatherND", 1): indices.indices,
    ("ScatterND", 1): indices.indices,
    ("RotaryEmbedding", 3): indices.position,
    ("RoiAlign", 2): indices.position,
    ("SequenceAt", 1): indices.member,
    ("TensorScatter", 2): indices.write,
    ("Attention", 6): indices.keys,
    ("OneHot", 0): indices.class_,
    ("NegativeLogLikelihoodLoss", 1): indices.class_,
    ("SoftmaxCrossEntropyLoss", 1): indices.class_,
    ("LSTM", 4): indices.length,
    ("GRU", 4): indices.length,
    ("RNN", 4): indices.length,
    ("ReverseSequence", 1): indices.length,
    ("Range", 0): indices.range_,
    ("Range", 1): indices.range_,
    **{("Slice", index): indices.end for index in (1, 2, 3, 4)},
    ("TopK", 1): indices.most,
    ("Add", -1): arithmetic.add,
    ("Sub", -1): arithmetic.subtract,
    ("Mul", -1): arithmetic.multiply,
    ("Div", -1): arithmetic.divide,
    ("Mod", -1): arithmetic.modulo,
    ("Clip", -1): arithmetic.clip,
    ("CumSum", 0): arithmetic.sum_,
    ("ReduceSum", 0): arithmetic.sum_,
    ("Neg", -1): arithmetic.negate,
    ("Cast", -1): truth.cast,
    ("CastLike", 0): truth.cast,
    ("Not", -1): truth.not_,
    ("And", -1): truth.join,
    ("Or", -1): truth.join,
    **{(name, -1): truth.compare for name in truth.COMPARED},
    ("Where", 0): truth.choose,
    ("Compress", 1): truth.whether,
    ("If", 0): truth.whether,
    ("Loop", 1): truth.whether,
    ("Loop", -1): moves.into_loop,
    ("Scan", -1): moves.into_loop,
    ("Shape", -1): moves.nothing,
    ("Size", -1): moves.nothing,
}


def rule_of(node: ir.Node, index: int) -> Rule | None:
    if node.domain not in ("", "ai.onnx"):
        return None
    if (node.op_type, index) in indices.COUNTS:
        return indices.count
    if (rule := RULES.get((node.op_type, index))) is not None:
        return rule
    if index in moves.MOVES.get(node.op_type, ()):
        return moves.move
    return RULES.get((node.op_type, -1))
