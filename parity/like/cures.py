"""What a source of error would be with a range that fits: the same kind of rounding, with the range of the right
values, or with another range for the few channels that are far larger. What it loses beyond that could be avoided."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from xbench.converters.codegen.printer import constant
from xbench.converters.passes.dequantised import MOVES
from xbench.parity.like.local import Local, Source
from xbench.parity.like.names import stems
from xbench.parity.like.packed import own_packed, rounding_of
from xbench.parity.like.rounding import LIMITS, Rounding, apart, far, unbounded
from xbench.parity.like.walk import HALVES, Values, array_of, tensor_of

VERIFIED = 1e-4  # error of a node with the original's stored numbers
HALF_RANGE = 64  # quantisers may leave a bit of weights unused, for sums of 16 bits
Fit = Callable[[Rounding, np.ndarray], Rounding]
Errors = dict[ir.Value, np.ndarray]  # of tensors of the original


@dataclass(frozen=True)
class Stored:
    """Stored numbers that a node reads: `read` is what it reads, `real` what DequantizeLinear, the `maker`, makes of
    integers with `rounding`, or `read` itself; `right` are the original's in the shape of `real`, if they are known."""

    read: ir.Value
    real: ir.Value
    name: str
    maker: ir.Node | None
    rounding: Rounding | None
    right: np.ndarray | None = None
    size: int = 0


class Cures:
    """The errors that sources make, and would make, at the tensors of the original where they end."""

    def __init__(self, local: Local) -> None:
        self.local, self.matching = local, local.matching
        self.stored: dict[Source, list[Stored]] = {}

    # ***** as it is *****

    def actual(self, source: Source) -> Errors:
        return self._errors({end: self.local.own[end] for end in source.ends})

    def _errors(self, made: Mapping[ir.Value, np.ndarray | None]) -> Errors:
        """Less than right, by tensors of the original."""
        found = {self.matching.found[end]: array for end, array in made.items() if array is not None}
        with np.errstate(invalid="ignore"):
            errors = {value: array - self.matching.array(value) for value, array in found.items()}
        return {value: np.nan_to_num(error, nan=np.inf) for value, error in errors.items()}

    def again(self, source: Source, changes: Values) -> Errors:
        """The errors where some tensors before the ends are others."""
        return self._errors(self._made(source, changes))

    def _made(self, source: Source, changes: Values) -> dict[ir.Value, np.ndarray | None]:
        """What a source gives at its ends where some tensors are others, and all that is matched is right."""
        known = {value: each for value, each in self.local.values.items() if self._is_known(value)} | changes
        left = [end for end in source.ends if end not in changes]
        for end in left:
            known.pop(end, None)
        made = self.local.walk.back_to(left, known) | {end: changes[end] for end in source.ends if end in changes}
        return {end: array_of(each) for end, each in made.items()}

    def _is_known(self, value: ir.Value) -> bool:
        return value in self.matching.found or value in self.local.stored or value.producer() is None

    # ***** activations *****

    def range_cut(self, source: Source) -> Errors | None:
        """Cut to the range, and not rounded."""
        return self._ranged(source, lambda rounding, right: rounding.cut(right))

    def range_stepped(self, source: Source) -> Errors | None:
        """Rounded, and not cut to the range."""
        return self._ranged(source, lambda rounding, right: rounding.stepped(right))

    def range_fitted(self, source: Source, times: float = 1.0) -> Errors | None:
        """With the range of the right values, which members of a group share, or one so many times as wide."""
        rights = [self.matching.right(end) for end in source.ends]
        return self._ranged(source, lambda rounding, right: rounding.fitted(rights, times).applied(right))

    def range_without(self, source: Source, axis: int) -> Errors | None:
        """With a range of their own for the few indices of an axis that are far larger than the others."""
        rights = [self.matching.right(end) for end in source.ends]
        rounding = self.local.rounding(source.node)
        if rounding is None or rounding.scale.size > 1 or any(not -each.ndim <= axis < each.ndim for each in rights):
            return None
        places = [far(each, axis) for each in rights]
        rest = rounding.fitted([np.compress(~own, each, axis) for own, each in zip(places, rights, strict=True)])
        return self._ranged(source, lambda _, right: rounding.apart(axis, right, rest, far(right, axis)).applied(right))

    def _ranged(self, source: Source, made: Callable[[Rounding, np.ndarray], np.ndarray]) -> Errors | None:
        """With other values after its quantisers, made of the right ones."""
        changes: Values = {}
        for member in source.members:
            rounding = self.local.rounding(member)
            for reader in readers(member):
                if rounding is None or reader not in self.matching.found:
                    return None
                changes[reader] = tensor_of(made(rounding, self.matching.right(reader)))
        return self.again(source, changes) if changes else None

    # ***** floats of 16 bits *****

    def half_unbounded(self, source: Source) -> Errors | None:
        """With as many digits, and no largest or smallest number."""
        names = {HALVES[each.dtype] for node in source.members for each in node.outputs if each.dtype in HALVES}
        name = next(iter(names), "float16")
        changes: Values = {}
        for each in self.read(source):
            if each.right is not None:
                changes |= self.change(each, unbounded(each.right, name))
        made = self._made(source, changes)
        return self._errors({end: None if array is None else unbounded(array, name) for end, array in made.items()})

    # ***** stored numbers *****

    def read(self, source: Source) -> list[Stored]:
        """The stored numbers that a node reads, with the original's if the node computes with them what it should."""
        if source not in self.stored:
            read = [(member, value) for member in source.members for value in self.local.walk.reads[member]]
            found = [self._stored(member, value) for member, value in read]
            known = [each for each in found if each is not None]
            if not self._is_right(source, known):
                known = [replace(each, right=None) for each in known]
            self.stored[source] = known
        return self.stored[source]

    def _is_right(self, source: Source, stored: list[Stored]) -> bool:
        changes = [self.change(each, each.right) for each in stored if each.right is not None]
        if not all(each.right is not None for each in stored if each.rounding):
            return False
        errors = self.again(source, {value: tensor for each in changes for value, tensor in each.items()})
        rights = {value: self.matching.array(value) for value in errors}
        return all(apart(rights[value] + error, rights[value]) < VERIFIED for value, error in errors.items())

    def _stored(self, node: ir.Node, value: ir.Value) -> Stored | None:
        if value not in self.local.stored:
            return None
        real, rounding, names = value, None, [str(value.name)]
        makers = [*self._makers(value)]
        if len(makers) == 1:
            real, names = makers[0].outputs[0], [str(value.name), str(makers[0].outputs[0].name)]
            names += [str(each.name) for each in makers[0].inputs[:1] if each is not None]
            rounding = self._weight_rounding(makers[0])
        kind, own = self.local.kind(real), self.local.numbers(real)
        if own is None or kind != "f" or len(makers) > 1:
            return None
        packed = own_packed(self.local.walk.graph, node)
        if packed is not None and own.ndim == 2:
            rounding, names = rounding_of(self.local.walk.graph, packed, own.shape), [*names, packed["inputs"][1]]
        maker = makers[0] if makers else None
        right = self._original(node, value, own, names)
        return Stored(value, real, stems(names[-1])[-1], maker, rounding, right, own.size)

    def _makers(self, value: ir.Value) -> Iterator[ir.Node]:
        """The DequantizeLinear nodes that stored numbers are made by."""
        left, seen = [value], set[ir.Node]()
        while left:
            maker = left.pop().producer()
            if maker is None or maker in seen:
                continue
            seen.add(maker)
            if maker.op_type == "DequantizeLinear":
                yield maker
            else:
                left += [each for each in maker.inputs if each is not None]

    def _weight_rounding(self, node: ir.Node) -> Rounding | None:
        value = node.inputs[0]
        while value is not None and value.producer() is not None and value.producer().op_type in MOVES:  # type: ignore[union-attr]
            value = value.producer().inputs[0]  # type: ignore[union-attr]
        if value is None:
            return None
        dtype = self.local.walk.graph.types.get(str(value.name), value.dtype)
        rounding = self.local.rounded_by(node, dtype)
        integers = self.local.numbers(node.inputs[0])
        if rounding is None or integers is None:
            return rounding
        used = np.abs(integers - rounding.spread(rounding.zero, integers.shape)).max(initial=0.0)
        if (rounding.low, rounding.high) == LIMITS["int8"] and used <= HALF_RANGE:
            return Rounding(rounding.scale, rounding.zero, -HALF_RANGE, HALF_RANGE - 1, rounding.axis, rounding.block)
        return rounding

    def _original(self, node: ir.Node, value: ir.Value, own: np.ndarray, names: list[str]) -> np.ndarray | None:
        """The original's numbers of this shape, as they are or turned: those of the same name or of the same input of
        the node's partner, whichever points in the same direction."""
        graph = self.matching.original.model.graph
        found = [graph.initializers.get(stem) for name in names for stem in stems(name)]
        partners = [self.matching.partner(node, end) for end in self.local.ends_of(node)]
        found += [each for partner in partners if partner is not None for each in partner.inputs]
        arrays = [self._theirs(each) for each in dict.fromkeys(found) if each is not None]
        ways = [way for array in arrays if array is not None for way in (array, array.T) if way.shape == own.shape]
        return max(ways, key=lambda way: _cosine(way, own), default=None)

    def _theirs(self, value: ir.Value) -> np.ndarray | None:
        array = constant(value)
        if array is None and value in self.matching.stored:
            array = array_of(self.matching.values.get(value))
        return None if array is None or array.dtype.kind not in "f" else np.asarray(array, np.float64)

    def weights_fitted(self, source: Source) -> Errors | None:
        """With the range of the original's numbers; if they are not known, as much error as half steps make, of the
        range that the file's own have."""
        return self._weights(source, lambda rounding, right: rounding.fitted([right]))

    def weights_without(self, source: Source, axis: int) -> Errors | None:
        """With a range of their own for the few indices of an axis that are far larger than the others."""
        if any(each.rounding.scale.size > 1 for each in self.read(source) if each.rounding and self._is_weight(each)):
            return None

        def fit(rounding: Rounding, right: np.ndarray) -> Rounding:
            if right.ndim < 2:
                return rounding.fitted([right])
            return rounding.sparing(axis, right)

        return self._weights(source, fit)

    def _is_weight(self, stored: Stored) -> bool:
        numbers = self.local.numbers(stored.real)
        return numbers is not None and numbers.ndim > 1

    def _weights(self, source: Source, fit: Fit) -> Errors | None:
        changes: Values = {}
        rounded = [each for each in self.read(source) if each.rounding]
        if not rounded:
            return None
        generator, unknown = np.random.default_rng(0), False
        for each in self.read(source):
            right = each.right
            if right is None and each.rounding is not None:
                own = self.local.numbers(each.real)
                assert own is not None
                fitted, unknown = fit(each.rounding, own), True
                right = own + (generator.random(own.shape) - 0.5) * fitted.spread(fitted.scale, own.shape)
            elif right is not None and each.rounding is not None:
                right = fit(each.rounding, right).applied(right)
            changes |= self.change(each, right) if right is not None else {}
        errors = self.again(source, changes)
        if not unknown:
            return errors
        actual = self.actual(source)
        return {value: error - actual[value] for value, error in errors.items()}

    def change(self, stored: Stored, array: np.ndarray | None) -> Values:
        """What a node reads if its stored numbers are others."""
        assert array is not None
        if stored.read is stored.real:
            return {stored.read: tensor_of(array)}
        return self.local.walk.back_to([stored.read], {stored.real: tensor_of(array)})


def readers(quantiser: ir.Node) -> list[ir.Value]:
    """What DequantizeLinear makes of a quantiser's integers."""
    users = [user for user, _ in quantiser.outputs[0].uses()]
    return [user.outputs[0] for user in users if user.op_type == "DequantizeLinear"]


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    size = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(np.sum(one * other)) / size if size else 0.0
