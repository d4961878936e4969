"""Finds where two runtimes differ: the first tensor of the graph that one computes wrongly, and the smallest part of
the graph that shows it. `parity/search.py` decides what to test, `subgraph.py` makes the parts.

1. Whole model: outputs, and if requested gradients and trained weights, of both against the float64 oracle.
2. Marked: every floating tensor an output (or, in training, every tensor's gradient a parameter's). Nodes that are
   wrong while all their inputs are right are the suspects.
3. Alone: a suspect is given the float64 values of its inputs and run by itself. A difference is then its own.
4. If no suspect differs alone, because marking or cutting hides the fault or because it needs its neighbours:
   larger parts are tried, unmarked, and the first that differs is cut down to the smallest.
"""

import contextlib
import functools
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xbench.case import SYNTHETIC, Case
from xbench.converters import temporary
from xbench.converters.artifact import Artifact
from xbench.errors import XBenchError
from xbench.parity import search
from xbench.parity.verdict import REFERENCE
from xbench.proof.pair_run import Pair, Trial
from xbench.workers.prepare import Exporter
from xbench.workers.worker import WorkerFailure

SUSPECTS = 8  # that are tried alone
AROUND = 32  # nodes around one that are tried together
PARTS = 150  # that are tried at most


@dataclass(frozen=True)
class Difference:
    """Where runtimes differ: the first tensor, its node, and the nodes of the smallest part of the graph that shows it,
    empty if no part does. `trial` is the result of that part, or else of the whole model."""

    mode: str
    trial: Trial
    tensor: str | None = None
    node: Mapping[str, Any] | None = None
    nodes: Sequence[Mapping[str, Any]] = ()
    note: str | None = None


@dataclass
class Bisection:
    """The search on one model. `place` is a folder for temporary files; `say` is called with the progress."""

    exporter: Exporter
    artifact: Artifact
    pair: Pair
    batch: int
    seed: int
    place: Path
    say: Callable[[str], None] = lambda words: None
    data: str = SYNTHETIC
    nodes: list[dict[str, Any]] = field(default_factory=list)
    _values: dict[bool, Path] = field(default_factory=dict)
    _tried: dict[tuple[str, tuple[int, ...]], Trial | None] = field(default_factory=dict)

    def find(self, mode: str) -> Difference | None:
        """Where the runtimes differ; None if they agree. Faults of forward come before those of training."""
        ways = {"forward": self._forward, "gradient": self._backward, "step": self._update}
        for each in list(ways)[: list(ways).index(mode) + 1]:
            self.say(f"{each}: the whole model")
            full = self.full(each)
            if not full.failed and not full.errors:
                raise XBenchError(f"float64 itself gives no number for {self.artifact.name}, {each}")
            if full.differs:
                self._values_of(each)
                return ways[each](full)
            if all(full.wrong()):
                return Difference(each, full, note="the two agree with one another, and not with float64")
        return None

    def first_wrong(self) -> str | None:
        """The first wrong tensor, without a proof that its node is to blame."""
        marked = self.marked()
        if not marked.failed:
            return next((name.removeprefix("output/") for name in marked.apart), None)
        self._values_of("forward")
        last = search.first(len(self.nodes), lambda nodes: self._shows(marked, "forward", nodes))
        if last is None:
            return None
        shortest = self.part(range(last + 1), "forward")
        if shortest and shortest.apart:
            return shortest.apart[-1].removeprefix("output/")
        failure = next(each for each in (shortest or marked).failures if each)
        return f"node {last + 1} of {len(self.nodes)} raises: {failure.message}"

    # ***** runs *****

    def reference(self, mode: str) -> Path:
        return self.exporter.reference(self.artifact, mode, self.batch, self.seed, self.data, 1, self.precision)

    @property
    def precision(self) -> str:
        return self.pair.cases[0].precision

    def full(self, mode: str) -> Trial:
        return self.pair.run(self.artifact.folder, mode, self.reference(mode), self._folder())

    def marked(self) -> Trial:
        """Every floating tensor an output."""
        self.say("forward: every tensor an output")
        folder = self._folder()
        where = {"reference": str(self.reference("forward")), "folder": str(folder)}
        self._ask("mark", precision=self.precision, **where)
        return self.pair.run(folder, "forward", folder / REFERENCE, folder)

    def marked_gradients(self) -> tuple[Trial, dict[str, tuple[str, int]]]:
        """Every gradient a parameter's, and the tensor and node that each belongs to."""
        self.say("gradient: every gradient a parameter's")
        folder, where = self._folder(), {"values": str(self._values_of("gradient"))}
        where |= {"reference": str(self.reference("gradient"))}
        places = self._ask("mark_gradients", folder=str(folder), **where)
        return self.pair.run(folder, "gradient", folder / REFERENCE, folder), places

    def part(self, nodes: Sequence[int], mode: str) -> Trial | None:
        """Runs some nodes by themselves, given their inputs; None if they cannot form a model."""
        key = mode, tuple(nodes)
        if key not in self._tried and len(self._tried) < PARTS:
            self.say(f"{mode}: {_count(nodes)}")
            folder, trial = self._folder(), None
            try:
                request = {"values": str(self._values_of(mode)), "nodes": list(nodes), "mode": mode}
                if self._ask("part", folder=str(folder), precision=self.precision, **request):
                    trial = self.pair.run(folder, mode, folder / REFERENCE, folder)
            except WorkerFailure:  # the oracle cannot compute it
                pass
            if trial is None or not trial.differs:
                shutil.rmtree(folder)
            self._tried[key] = trial
        return self._tried.get(key)

    def _ask(self, job: str, **arguments: Any) -> Any:
        return self.exporter.call(job, artifact=str(self.artifact.folder), **arguments)

    def _folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.place))

    def _values_of(self, mode: str) -> Path:
        """The file of all tensors in float64, in evaluation or in training; reads the nodes as well."""
        training = mode != "forward"
        if training not in self._values:
            path = self.place / f"values-{training}.npz"
            where = {"reference": str(self.reference(mode)), "path": str(path)}
            self.nodes[:] = self._ask("tensors", training=training, **where)
            self._values[training] = path
        return self._values[training]

    # ***** search *****

    def _forward(self, full: Trial) -> Difference:
        if full.failed:
            return self._smallest(full, "forward", self._lacking(full), {})
        wrong = set[str]()
        with contextlib.suppress(WorkerFailure):  # too much for the oracle
            wrong = {name.removeprefix("output/") for name in self.marked().apart}
        suspects = search.roots(self.nodes, wrong)
        tensors = {n: next(name for name in self.nodes[n]["outputs"] if name in wrong) for n in suspects}
        return self._smallest(full, "forward", suspects, tensors)

    def _backward(self, full: Trial) -> Difference:
        if full.failed:
            return self._smallest(full, "gradient", self._lacking(full), {})
        apart, places, wrong = list[str](), dict[str, tuple[str, int]](), dict[int, list[str]]()
        with contextlib.suppress(WorkerFailure):  # too much for the oracle
            trial, places = self.marked_gradients()
            apart = trial.apart
        for name in (each.removeprefix("gradient/") for each in apart):
            tensor, number = places.get(name, (name, None))
            for reader in self._readers(name) if number is None else [number]:
                wrong.setdefault(reader, []).append(tensor)
        suspects = search.roots_backward(self.nodes, wrong)
        return self._smallest(full, "gradient", suspects, {n: f"gradient/{wrong[n][0]}" for n in suspects})

    def _update(self, full: Trial) -> Difference:
        """The search when gradients are right: the update or the statistics are wrong."""
        weights = [name for name in full.apart if name.startswith("weight/")]
        tensors = {n: name for name in reversed(weights) for n in self._readers(name.removeprefix("weight/"))}
        return self._smallest(full, "step", sorted(tensors) or self._lacking(full), tensors)

    def _readers(self, tensor: str) -> list[int]:
        return [number for number, node in enumerate(self.nodes) if tensor in node["inputs"]]

    def _lacking(self, full: Trial) -> list[int]:
        """The first node whose operator a runtime reports as missing."""
        missing = {name for failure in full.failures if failure for name in failure.operators or ()}
        return [n for n, node in enumerate(self.nodes) if node["op_type"] in missing][:1]

    def _smallest(self, full: Trial, mode: str, suspects: list[int], tensors: Mapping[int, str]) -> Difference:
        """The smallest part that shows the difference: the first suspect alone, if it does. `tensors` has the wrong
        tensors of the suspects."""
        shows = functools.partial(self._shows, full, mode)
        kept = next((search.smallest(each, shows) for each in self._parts(suspects, shows) if shows(each)), [])
        trial = (self.part(kept, mode) if kept else None) or full
        number = next((n for n in kept or suspects if n in tensors), None)
        number, tensor = self._seen(kept, trial, mode) if number is None else (number, tensors[number])
        if mode != "forward" and len(kept) == 1 and "loss" in trial.apart:
            tensor = self.nodes[kept[0]]["outputs"][0]  # in training it is wrong before any gradient is
        note = None
        if not kept:
            note = "no part of the graph shows it"
            note += "" if number is None else f"; {tensor} is the first that is wrong"
        elif len(kept) > 1:
            note = f"no node shows it alone; the smallest part that does has {len(kept)} nodes"
        return Difference(
            mode, trial, tensor, None if number is None else self.nodes[number], [self.nodes[n] for n in kept], note
        )

    def _shows(self, full: Trial, mode: str, nodes: Sequence[int]) -> bool:
        trial = self.part(nodes, mode)
        return trial is not None and trial.is_like(full)

    def _parts(self, suspects: list[int], shows: search.Shows) -> Iterator[list[int]]:
        """Parts that may show it: each suspect alone; all nodes of the first's operator up to it, as a fault may depend
        on the number of a call; then, without marks, the node that ends the shortest run of nodes that shows it, alone
        and with the nodes around it, and that run."""
        yield from ([number] for number in suspects[:SUSPECTS])
        if suspects:
            kind = self.nodes[suspects[0]]["op_type"]
            yield [n for n in range(suspects[0] + 1) if self.nodes[n]["op_type"] == kind]
        last = search.first(len(self.nodes), shows)
        if last is not None:
            yield [last]
            yield from search.windows(self.nodes, last, AROUND)
            yield list(range(last + 1))

    def _seen(self, kept: list[int], trial: Trial, mode: str) -> tuple[int | None, str | None]:
        """The first tensor on which a part differs, and its node; if the part fails, the output of its last node."""
        if not kept:
            return None, None
        if not trial.apart:
            return kept[-1], next(iter(self.nodes[kept[-1]]["outputs"]), None)
        kind = {"forward": "outputs"}.get(mode, "inputs")
        for tensor in trial.apart if mode == "forward" else reversed(trial.apart):
            name = tensor.partition("/")[2]
            if numbers := [n for n in kept if name in self.nodes[n][kind]]:
                return numbers[0], name if mode == "forward" else tensor
        return kept[-1], trial.apart[0]


def _count(nodes: Sequence[int]) -> str:
    return "one node alone" if len(nodes) == 1 else f"{len(nodes)} nodes"


def first_wrong(exporter: Exporter, artifact: Artifact, case: Case, timeout: float) -> str | None:
    """The first tensor, in the order of the graph, that a runtime computes wrongly forward; or the node that fails."""
    with temporary.folder() as place:
        pair = Pair([case], timeout, place, exporter.templates)
        try:
            return Bisection(exporter, artifact, pair, case.batch, 0, place, data=case.data).first_wrong()
        finally:
            pair.close()
