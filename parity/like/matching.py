"""Which tensor of the original each tensor of the quantised file stands for: by its name, without what quantisers add,
and by structure: what made it, and what reads it. A quantiser leaves out an activation that its range cuts off, and
gives the result of one operator the name of the next; so the maker decides for a result, and the readers for what
DequantizeLinear gives. Shapes must be the same."""

from collections.abc import Iterable, Iterator

import numpy as np
import onnx_ir as ir

from xbench.parity.like.graph import Graph
from xbench.parity.like.names import stems
from xbench.parity.like.rounding import apart
from xbench.parity.like.walk import Values, array_of

QUANTISERS = ("QuantizeLinear", "DynamicQuantizeLinear")
PASSES = (*QUANTISERS, "DequantizeLinear", "Cast", "Identity")  # the same tensor
CUT = ("Relu", "Clip")  # that a range may stand for
BIASED = ("MatMul", "Conv", "Gemm")  # whose bias may be added by a node of its own
FOLDED = ("Add", "BatchNormalization", "Mul")  # with stored numbers, that may be a part of the product before
EXACT = 1e-3  # error of a tensor of which nothing is quantised
CLEARER = 0.1  # a match that fits worse is taken if its error is less than so much of the other's
ALIKE = {"Gemm": "MatMul"}  # operators that quantisers write as others


class Matching:
    """The original, all its tensors, and the matches so far: `found`. `fixed` are the file's tensors that depend on no
    input."""

    def __init__(self, original: Graph, values: Values, fixed: set[ir.Value]) -> None:
        self.original, self.values, self.fixed = original, values, fixed
        self.found: dict[ir.Value, ir.Value] = {}
        self._arrays: dict[ir.Value, np.ndarray] = {}
        self.stored = original.stored()
        every = [value for node in original.model.graph for value in node.outputs]
        self._by_name = {str(value.name): value for value in (*original.inputs, *every) if value not in self.stored}

    def right(self, value: ir.Value) -> np.ndarray:
        """The numbers of the original's tensor that a tensor stands for."""
        return self.array(self.found[value])

    def array(self, theirs: ir.Value) -> np.ndarray:
        """The numbers of a tensor of the original; none if it is no tensor."""
        if theirs not in self._arrays:
            array = array_of(self.values.get(theirs))
            self._arrays[theirs] = np.zeros((0,)) if array is None else np.asarray(array, np.float64)
        return self._arrays[theirs]

    def match(self, node: ir.Node, value: ir.Value, made: np.ndarray, is_rounded: bool) -> float | None:
        """Finds what a tensor stands for, and returns how far it is off; None if nothing is found. `is_rounded` says
        whether something on the way from matched tensors rounds: otherwise it must be the same."""
        passes = node.op_type in PASSES
        fits = self._is_read_alike if passes else self._is_made_alike
        named = self._named(value)
        every = dict.fromkeys(self._candidates(node, value, named))
        known = [each for each in every if self.array(each).shape == made.shape]
        known.sort(key=lambda theirs: not fits(node, value, theirs))  # stable: the likelier name first
        errors = {theirs: apart(made, self.array(theirs)) for theirs in known}
        if not errors:
            return None
        alike = [theirs for theirs in known if fits(node, value, theirs) == fits(node, value, known[0])]
        best = known[0] if passes or known[0] in named else min(alike, key=errors.__getitem__)
        nearest = min(known, key=errors.__getitem__)
        if errors[nearest] < CLEARER * errors[best] and not (passes and fits(node, value, best)):
            best = nearest
        if not is_rounded and errors[best] > EXACT and not self._is_made_alike(node, value, best):
            return None
        self.found[value] = best
        return errors[best]

    def carry(self, node: ir.Node, value: ir.Value) -> None:
        """Finds what integers stand for, without looking at them."""
        named = [each for each in self._named(value) if self._is_made_alike(node, value, each)]
        theirs = next(iter((*named, *self._structural(node, value))), None)
        if theirs is not None:
            self.found[value] = theirs

    def partner(self, node: ir.Node, value: ir.Value) -> ir.Node | None:
        """The node of the original that makes what a node's result stands for, or what is before its activation."""
        maker = self.found[value].producer() if value in self.found else None
        if maker is not None and maker.op_type != node.op_type and maker.op_type in CUT and maker.inputs[0] is not None:
            maker = maker.inputs[0].producer()
        return maker

    # ***** what a tensor may stand for *****

    def _named(self, value: ir.Value) -> list[ir.Value]:
        """Those of its name, or of the name of what it is quantised to."""
        quantised = [user.outputs[0] for user, _ in value.uses() if user.op_type in QUANTISERS]
        names = [stem for each in (value, *quantised) for stem in stems(str(each.name))]
        return [self._by_name[name] for name in names if name in self._by_name]

    def _candidates(self, node: ir.Node, value: ir.Value, named: list[ir.Value]) -> Iterator[ir.Value]:
        structural = [*self._structural(node, value)]
        yield from named
        yield from structural
        for theirs in named:  # the name of the activation that was left out
            maker = theirs.producer()
            if maker is not None and maker.op_type in CUT and maker.inputs[0] is not None:
                yield maker.inputs[0]
        for theirs in (*named, *structural):
            yield from (user.outputs[0] for user, _ in theirs.uses() if user.op_type in CUT)

    def _structural(self, node: ir.Node, value: ir.Value) -> Iterator[ir.Value]:
        """The results of the same operator on the same tensors."""
        place = [*node.outputs].index(value)
        if node.op_type in PASSES:
            if place == 0 and node.inputs[0] in self.found:
                yield self.found[node.inputs[0]]
            return
        yield from self._with_more(node)
        if self.waits(value):
            return
        read = self._read(node)
        for user in _users(read):
            theirs = [each for each in user.inputs if each is not None and each not in self.stored]
            same = theirs == read or (node.op_type in ("Add", "Mul") and {*theirs} == {*read})
            same = same and len([*filter(None, user.inputs)]) == len([*filter(None, node.inputs)])
            if same and user.op_type == node.op_type and place < len(user.outputs):
                yield user.outputs[place]

    def _read(self, node: ir.Node) -> list[ir.Value | None]:
        """What the tensors that a node reads stand for; nothing if one of them is not matched."""
        read = [self.found.get(each) for each in node.inputs if each is not None and each not in self.fixed]
        return [] if None in read else read

    def _with_more(self, node: ir.Node) -> Iterator[ir.Value]:
        """The results of a product with what a quantiser writes as one with it: its bias, and a norm after it."""
        product = self._product(node) or (node if node.op_type in BIASED and not self.waits(node.outputs[0]) else None)
        read = [] if product is None else self._read(product)
        for user in _users(read):
            theirs = [each for each in user.inputs if each is not None and each not in self.stored]
            if theirs == read and product is not None and _kind(user) == _kind(product):
                yield from self._after(user.outputs[0], user is not None and len([*filter(None, user.inputs)]) > 2)

    def _after(self, value: ir.Value, is_whole: bool) -> Iterator[ir.Value]:
        """A product, if it has its bias, and what is after it that may be a part of it."""
        if is_whole:
            yield value
        for user, _ in value.uses():
            rest = [each for each in user.inputs if each is not None and each is not value]
            if user.op_type in FOLDED and all(each in self.stored for each in rest):
                yield from self._after(user.outputs[0], True)

    def waits(self, value: ir.Value) -> bool:
        """Whether a product gets its bias from the only node that reads it."""
        maker, users = value.producer(), [user for user, _ in value.uses()]
        product = self._product(users[0]) if len(users) == 1 else None
        return product is not None and product is maker and not value.is_graph_output()

    def _product(self, node: ir.Node) -> ir.Node | None:
        """The node that a bias is added to."""
        makers = [each.producer() for each in node.inputs if each is not None and each not in self.fixed]
        maker = makers[0] if len(makers) == 1 and len(node.inputs) > 1 else None
        return maker if node.op_type == "Add" and maker is not None and maker.op_type in BIASED else None

    # ***** which of them it does *****

    def _is_made_alike(self, node: ir.Node, value: ir.Value, theirs: ir.Value) -> bool:
        """Whether the same operator made both, with what quantisers write as one with it."""
        maker = theirs.producer()
        same = maker is not None and maker.op_type == node.op_type and self._product(node) is None
        return same or theirs in self._with_more(node)

    def _is_read_alike(self, node: ir.Node, value: ir.Value, theirs: ir.Value) -> bool:
        """Whether the operators that read one read the other, too, or both are outputs."""
        own, others = _read_by(value), {_kind(user) for user, _ in theirs.uses()}
        return own <= others | ({""} if theirs.is_graph_output() else set())


def _read_by(value: ir.Value) -> set[str]:
    """The operators that read a tensor, through what is the same tensor; an empty name for an output."""
    found, left = set[str](), [value]
    while left:
        each = left.pop()
        found |= {""} if each.is_graph_output() else set()
        for user, _ in each.uses():
            if user.op_type in PASSES:
                left.append(user.outputs[0])
            else:
                found.add(_kind(user))
    return found


def _kind(node: ir.Node) -> str:
    return ALIKE.get(node.op_type, node.op_type)


def _users(values: Iterable[ir.Value | None]) -> Iterable[ir.Node]:
    return dict.fromkeys(user for value in values if value is not None for user, _ in value.uses())
