"""Compares a quantised file with the network that it was made of, and reports who loses what as plain data."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from xbench.converters.artifact import Artifact
from xbench.converters.ops.info import info
from xbench.converters.printable import visible
from xbench.errors import XBenchError
from xbench.parity.like import evidence, graph
from xbench.parity.like.blame import Finding, blamed, findings
from xbench.parity.like.cures import Cures, readers
from xbench.parity.like.effects import MOST, Effects
from xbench.parity.like.evidence import percent
from xbench.parity.like.local import Local
from xbench.parity.like.matching import QUANTISERS, Matching
from xbench.parity.like.rounding import Rounding, apart
from xbench.parity.like.walk import Values, Walk, array_of, few_threads, in_float64, tensor_of

Report = dict[str, Any]
OTHER, LAYERS = 0.3, 3  # error of a layer with right inputs that is of another network, and how many of them are enough


def compared(
    own: Artifact,
    original: Artifact,
    inputs: Sequence[np.ndarray],
    order: Sequence[int],
    outputs: Sequence[int],
    names: tuple[str, str],
) -> Report:
    """`inputs` are in the order of the original's; `order` and `outputs` have the place among the file's inputs and
    outputs of each of the original's. `names` are those of the two in messages.

    Raises:
        XBenchError: the file is not quantised, or was not made of this network; one of them is random.
    """
    names = visible(names[0]), visible(names[1])
    for each, word in zip((own, original), names, strict=True):
        if drawing := [name for name in each.operators if info(name).random and name != "Dropout"]:
            raise XBenchError(f"{word} has no fixed results to compare: {', '.join(drawing)} draws at random")
    with in_float64(), few_threads(inputs):
        return _Comparison(own, original, inputs, order, outputs, names).report()


class _Comparison:
    """Both networks with all their tensors, matched."""

    def __init__(
        self,
        own: Artifact,
        original: Artifact,
        inputs: Sequence[np.ndarray],
        order: Sequence[int],
        outputs: Sequence[int],
        names: tuple[str, str],
    ) -> None:
        self.names = names
        self.walk, theirs = Walk(graph.read(own)), Walk(graph.read(original))
        known = theirs.run(theirs.given(inputs))
        self.effects = Effects(theirs, known)
        if not all(np.isfinite(array).any() for array in self.effects.right.values() if array.size):
            raise XBenchError(f"float64 itself gives no number for {self.names[1]}")
        self.matching = Matching(theirs.graph, known, self.walk.graph.stored())
        pairs = {self.walk.graph.inputs[place]: value for place, value in zip(order, theirs.graph.inputs, strict=True)}
        self.local = Local(self.walk, self.matching, pairs)
        self.cures = Cures(self.local)
        types = [each["dtype"] for each in own.info["inputs"]]
        placed = {place: array for place, array in zip(order, inputs, strict=True)}
        self.inputs = self.walk.given([placed[n].astype(types[n], copy=False) for n in range(len(types))])
        mine, others = (each.graph.model.graph.outputs for each in (self.walk, theirs))
        self.outputs = {mine[place]: value for place, value in zip(outputs, others, strict=True)}
        self._refuse_integers()

    def report(self) -> Report:
        sources = self.local.every()
        if not any(source.kind != "node" for source in sources):
            raise XBenchError(f"{self.names[0]} is not quantised: nothing in it is rounded")
        self._refuse_another(sources)
        free = self.walk.run(self.inputs, halves=True)
        found = findings(self.local, self.cures, self.effects)
        error, wrong = self._error(free), blamed(found)
        first = self._blamed(wrong[0]) if wrong else self._spread(found, error)
        return {
            "named": bool(wrong),
            **first,
            "error": _plain(error if error < MOST else math.inf),
            "also": [self._blamed(each) | {"cured": None} for each in wrong[1:]],
            "sources": [self._row(each) for each in found],
            "tensors": self._tensors(free),
            "inputs": self._inputs(),
            "matched": self._matched(),
        }

    def _error(self, values: Values) -> float:
        """How far the outputs are off."""
        return self.effects.off({theirs: values[mine] for mine, theirs in self.outputs.items() if mine in values})

    def _refuse_integers(self) -> None:
        """
        Raises:
            XBenchError: an output is of integers, and the original's is not, or the other way round.
        """
        for value, theirs in self.outputs.items():
            own, other = array_of(self.local.values.get(value)), array_of(self.effects.values.get(theirs))
            if own is not None and other is not None and (own.dtype.kind == "f") != (other.dtype.kind == "f"):
                kinds = [f"of {'numbers' if each.dtype.kind == 'f' else 'integers'}" for each in (own, other)]
                where = " and ".join(f"{kind} in {name}" for kind, name in zip(kinds, self.names, strict=True))
                raise XBenchError(f"output {visible(value.name)[:120]} is {where}: it cannot be compared")

    def _refuse_another(self, sources: list[Any]) -> None:
        """
        Raises:
            XBenchError: most layers compute something else with right inputs.
        """
        layers = [each for each in sources if each.kind in ("weights", "half", "node")]
        wrong = [each for each in layers if max(self.local.errors[end] for end in each.ends) > OTHER]
        if len(wrong) >= LAYERS and len(wrong) > len(layers) / 2:
            words = f"with right inputs {len(wrong)} of its {len(layers)} layers give something else"
            raise XBenchError(f"{self.names[0]} was not made of {self.names[1]}: {words}")

    # ***** the parts of a report *****

    def _blamed(self, finding: Finding) -> Report:
        words, node = evidence.said(finding, self.local, self.cures)
        about = self._node(node)
        cured = self._cured(finding)
        return {
            "says": f"{label(about)} is to blame: {words}",
            "fault": finding.fault,
            "node": about,
            "tensor": self.matching.found[finding.source.ends[0]].name,
            "share": _plain(finding.share),
            "cured": None if cured is None else _plain(cured),
        }

    def _spread(self, found: Sequence[Finding], error: float) -> Report:
        count = sum(each.effect > 0 for each in found)
        off = f"{percent(error)} off" if error < MOST else "not finite"
        words = f"no single node is to blame: the outputs are {off}, and {count} nodes have a part in it"
        return {"says": words, "fault": None, "node": None, "tensor": None, "share": None, "cured": None}

    def _row(self, finding: Finding) -> Report:
        source = finding.source
        numbers = None
        if source.kind == "activation":
            numbers = evidence.range_of(self.local, source.node, source.ends)
        return {
            "node": self._node(source.node),
            "kind": source.kind,
            "tensor": self.matching.found[source.ends[0]].name,
            "error": _plain(max(self.local.errors[end] for end in source.ends)),
            "effect": _plain(finding.effect if finding.effect < MOST else math.inf),
            "share": _plain(finding.share),
            "excess": {name: _plain(value) for name, value in finding.excess.items()},
            "range": None if numbers is None else {name: _plain(value) for name, value in vars(numbers).items()},
        }

    def _tensors(self, free: Values) -> list[Report]:
        """The matched tensors that the file computes: how far each is off, and with right inputs."""
        rows = []
        for value, error in self.local.errors.items():
            made = array_of(free.get(value))
            if made is not None and value.producer() is not None:
                row = {"tensor": value.name, "original": self.matching.found[value].name}
                row["node"] = label(self._node(value.producer()))
                rows.append(row | {"error": _plain(apart(made, self.matching.right(value))), "local": _plain(error)})
        return rows

    def _inputs(self) -> list[Report]:
        """The ranges of the quantisers of inputs, and the values that were given."""
        rows = []
        for source in self.local.every():
            theirs = self.matching.found[source.ends[0]]
            if source.kind == "activation" and theirs in self.matching.original.inputs:
                numbers = evidence.range_of(self.local, source.node, source.ends)
                rows += [{"name": theirs.name, **vars(numbers)}] if numbers is not None else []
        return rows

    def _matched(self) -> list[int]:
        """How many tensors of floats that depend on the inputs are matched, and how many there are; without scales, and
        products to which a bias is added."""
        made = [
            value for node in self.walk.nodes for value in node.outputs[: 1 if node.op_type in QUANTISERS else None]
        ]
        made = [value for value in made if value in self.local.values and value not in self.local.stored]
        floats = [value for value in made if self.local.kind(value) == "f" and not self.matching.waits(value)]
        return [sum(value in self.matching.found for value in floats), len(floats)]

    def _node(self, node: ir.Node | None) -> Report:
        """The file's own node that a node belongs to."""
        number = None if node is None else self.walk.graph.owners.get(node)
        if number is not None:
            return self.walk.graph.nodes[number]
        names = [str(value.name) for value in node.outputs] if node is not None else []
        return {"op_type": node.op_type if node else "", "name": "", "attributes": {}, "inputs": [], "outputs": names}

    # ***** what would be without it *****

    def _cured(self, finding: Finding) -> float | None:
        """How far the outputs would be off if one source were as it should be; None if that is not known."""
        instead, stored = dict[ir.Node, Callable[[Values], Values]](), Values()
        if finding.source.kind == "activation":
            instead = self._requantised(finding)
        elif finding.source.kind == "weights":
            for each in self.cures.read(finding.source):
                if each.rounding is not None and each.right is None:
                    return None
                if each.rounding is not None and each.right is not None:
                    better = each.rounding.fitted([each.right])
                    if finding.fault == "outlier" and each.right.ndim > 1:
                        better = each.rounding.sparing(evidence.widest(each.right, (0, -1)), each.right)
                    stored |= self.cures.change(each, better.applied(each.right))
        if not instead and not stored:
            return None
        return self._error(self.walk.run(self.inputs | stored, instead, halves=True))

    def _requantised(self, finding: Finding) -> dict[ir.Node, Callable[[Values], Values]]:
        """What the nodes after the quantisers of a source would give with a fitting range."""
        source, instead = finding.source, dict[ir.Node, Callable[[Values], Values]]()
        rights = [self.matching.right(end) for end in source.ends]
        for member in source.members:
            rounding = self.local.rounding(member)
            for reader in readers(member) if rounding is not None else ():
                assert rounding is not None
                better = rounding.fitted(rights)
                if finding.fault == "outlier" and reader in self.matching.found:
                    right = self.matching.right(reader)
                    better = rounding.sparing(evidence.widest(right, (1, -1)), right)
                maker = reader.producer()
                if maker is not None:
                    instead[maker] = _rounding(reader, member.inputs[0], better)
        return instead


def _rounding(value: ir.Value, of: ir.Value | None, better: Rounding) -> Callable[[Values], Values]:
    """A function that gives a value by rounding another."""

    def made(values: Values) -> Values:
        array = None if of is None else array_of(values.get(of))
        return {} if array is None else {value: tensor_of(better.applied(np.asarray(array, np.float64)))}

    return made


def label(node: Mapping[str, Any]) -> str:
    """A node in words: its operator and its name, or what it makes."""
    name = node["name"] or next(iter(node["outputs"]), "")
    return f"{visible(node['op_type'])} {visible(name)[:120]}".strip()


def _plain(number: Any) -> Any:
    """A number for JSON, which has no infinity."""
    return None if isinstance(number, float) and not math.isfinite(number) else number
