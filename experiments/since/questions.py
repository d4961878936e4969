"""What is asked of releases: are they slower, are they wrong? Each answer is proved, and stored when it is known.

A release is slower if its time is nearer to that of a release known to be slow than to that of one known to be fast, on
the logarithm. All three are timed in interleaved blocks, in as many sessions as the answer needs to be certain.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from xbench.case import Case, digest
from xbench.converters.artifact import Artifact
from xbench.errors import XBenchError
from xbench.experiments.check import Check
from xbench.experiments.experiment import Experiment, Lab, run
from xbench.experiments.session import Time
from xbench.experiments.settings import Protocol
from xbench.experiments.since.search import BAD, GOOD, SKIPPED, UNCLEAR, Look
from xbench.proof.record import key
from xbench.stats.ratio import Estimate, Ratio, above, as_ratio, beyond_middle, paired_estimate
from xbench.store.record import Record, known
from xbench.store.results import Store

SURE = 0.995  # of an answer
LIKELY = 0.9  # at least, or there is no answer
SESSIONS = 6  # at most, for one answer
KINDS = {"FAIL": "wrong", "CRASH": "crashes"}  # what a release may be that did not pass
Blocks = list[dict[str, Any]]


@dataclass(frozen=True)
class Session(Time):
    """A session of some releases. Its records are those of these releases together, so that it is not mixed with
    another."""

    name: ClassVar[str] = "since"
    file: ClassVar[str] = "since.jsonl"

    words: tuple[str, ...] = ()
    number: int = 0

    def keys(self, case: Case, artifact: Artifact, lab: Lab) -> Sequence[str]:
        return [digest(key(case, artifact), "since", self.protocol.words, sorted(self.words), self.number)]

    def measure(self, cases: Sequence[Case], wanted: Collection[str], artifact: Artifact, lab: Lab) -> Iterator[Record]:
        for record in super().measure(cases, wanted, artifact, lab):
            yield record | {"key": self.keys(Case(**record["case"]), artifact, lab)[0]}

    def line(self, record: Record) -> str:
        """As of `time`; a passed record must have samples, or it is measured again."""
        if record["status"] == "PASS":
            for block in known(record["times"])["blocks"]:
                float(block["samples"][0] + block["round"])
        return super().line(record)


class Untimed(XBenchError):
    """A release that did not pass, and has no time."""

    def __init__(self, release: str, record: Record) -> None:
        super().__init__(f"{record['case']['runtime']} is {record['status']}: {record['message']}")
        self.release, self.status = release, record["status"]


@dataclass
class Bench:
    """Where releases are measured: the cell without its release, which is put into its word, and the stores by the
    experiment's file. `prepare` makes the environment of a runtime's word."""

    case: Case
    lab: Lab
    store: Callable[[str], Store]
    prepare: Callable[[str], object]

    def word(self, release: str) -> str:
        """The runtime's word in a release."""
        name, colon, options = self.case.runtime.partition(":")
        return f"{name}=={release}{colon}{options}"

    def case_of(self, release: str) -> Case:
        """The cell of a release."""
        return replace(self.case, runtime=self.word(release))

    def unready(self, release: str) -> Look | None:
        """Why a release cannot be tried; None if its environment is ready."""
        try:
            self.prepare(self.word(release))
        except XBenchError as error:
            return Look(SKIPPED, str(error))
        return None

    def run(self, experiment: Experiment, releases: Sequence[str], again: str = "failed") -> list[Record]:
        """The records of releases, in their order. Those that failed are measured again: that may have been mended.

        Raises:
            XBenchError: an environment cannot be made; as `experiment.run`.
        """
        for each in releases:
            self.prepare(self.word(each))
        cases = [self.case_of(each) for each in releases]
        records = run(experiment, cases, self.lab, self.store(experiment.file), again).records
        return sorted(records, key=lambda record: [each.runtime for each in cases].index(record["case"]["runtime"]))


@dataclass
class Slower:
    """Does a release take longer? `share` is by how much the last one must, such as 0.1. `ratio` is the last comparison
    of a good and a bad release."""

    bench: Bench
    protocol: Protocol
    share: float
    ratio: Ratio | None = None
    name: ClassVar[str] = "slower"
    kind: ClassVar[str] = "slower"
    _blocks: dict[tuple[str, ...], dict[str, Blocks]] = field(default_factory=dict)

    def ends(self, first: str, last: str) -> Look:
        """What the last release is, compared with the first.

        Raises:
            XBenchError: one of the two cannot be timed; nothing that is measured says which of the two is slower.
        """
        threshold = math.log1p(self.share)
        try:
            estimate = self._until_sure((first, last), lambda a, b: paired_estimate(b, a, _rng()), threshold)
        except Untimed as error:
            raise XBenchError(f"{error}{_hint(error, first)}") from error
        self.ratio = as_ratio(estimate, True)
        words, slower = _times(self.ratio, first), above(estimate, threshold)
        if slower >= LIKELY or (slower > 0.5 and above(estimate) >= SURE):  # certainly slower, by about that much
            return Look(BAD, words, slower)
        if slower > 1 - LIKELY:
            raise XBenchError(
                f"whether {last} is {100 * self.share:g}% slower cannot be said: {words}; give it a larger --budget"
            )
        return Look(GOOD, words, 1 - slower)

    def between(self, good: str, release: str, bad: str) -> Look:
        """What a release is between a good one and a bad one.

        Raises:
            XBenchError: the good one or the bad one cannot be timed any more.
        """
        three = (good, release, bad)
        if unready := self.bench.unready(release):
            return unready
        try:
            estimate = self._until_sure(three, lambda a, b, c: beyond_middle(a, b, c, _rng()), 0.0)
        except Untimed as error:
            if error.release != release:
                raise
            return Look(SKIPPED, str(error))
        blocks = self._blocks[three]
        slow = above(estimate)
        certainty, state = max((slow, BAD), (1 - slow, GOOD))
        words = _times(_ratio(blocks[release], blocks[good]), good)
        if certainty < LIKELY:
            return Look(UNCLEAR, words, certainty)
        pair = (good, release) if state == BAD else (release, bad)
        self.ratio = _ratio(blocks[pair[1]], blocks[pair[0]])
        return Look(state, words, certainty)

    def _until_sure(
        self, releases: tuple[str, ...], estimate: Callable[..., Estimate | None], threshold: float
    ) -> Estimate:
        """What sessions of some releases show, as many as are needed.

        Raises:
            Untimed: one of them has no time.
        """
        blocks = self._blocks.setdefault(releases, {each: [] for each in releases})
        found = None
        for number in range(SESSIONS):
            for release, more in self._session(releases, number).items():
                blocks[release] += more
            found = estimate(*(blocks[each] for each in releases))
            if found and max(share := above(found, threshold), 1 - share) >= SURE:
                break
        if found is None:
            raise XBenchError(f"{self.bench.word(releases[0])}: fewer than three rounds; give it a larger --budget")
        return found

    def _session(self, releases: tuple[str, ...], number: int) -> Mapping[str, Blocks]:
        experiment = Session(self.protocol, tuple(map(self.bench.word, releases)), number)
        records = self.bench.run(experiment, releases)
        if len({record["session"] for record in records}) > 1:  # it was ended before all were stored
            records = self.bench.run(experiment, releases, "all")
        for release, record in zip(releases, records, strict=True):
            if record["status"] != "PASS":
                raise Untimed(release, record)
        return {
            release: [{**each, "process": number} for each in known(record["times"])["blocks"]]
            for release, record in zip(releases, records, strict=True)
        }


@dataclass
class Wrong:
    """Does a release compute something else?"""

    bench: Bench
    name: ClassVar[str] = "wrong"
    ratio: Ratio | None = None
    share: float | None = None
    bad: str = "FAIL"  # the status of the last release

    def ends(self, first: str, last: str) -> Look:
        """What the last release is.

        Raises:
            XBenchError: the first is wrong already; the last can neither be called right nor wrong.
        """
        begin, end = (self._record(each) for each in (first, last))
        if begin["status"] != "PASS":
            raise XBenchError(f"{Untimed(first, begin)}{_hint(Untimed(first, begin), first)}")
        if end["status"] not in ("PASS", *KINDS):
            raise XBenchError(str(Untimed(last, end)))
        if end["status"] in KINDS:
            self.bad = end["status"]
        return self._look(end)

    def between(self, good: str, release: str, bad: str) -> Look:
        """What a release is: as bad as the last one, good, or neither."""
        return self.bench.unready(release) or self._look(self._record(release))

    @property
    def kind(self) -> str:
        """What bad releases do."""
        return KINDS.get(self.bad, "")

    def _record(self, release: str) -> Record:
        (record,) = self.bench.run(Check(), [release])
        return record

    def _look(self, record: Record) -> Look:
        state = {"PASS": GOOD, self.bad: BAD}.get(record["status"], SKIPPED)
        words = f"{record['case']['runtime']} is {record['status']}"
        return Look(state, ": ".join(filter(None, (words, record["message"]))))


def _hint(error: Untimed, first: str) -> str:
    """What to do about an end that did not pass."""
    if error.status not in KINDS:
        return ""
    return "; begin with a release that is right" if error.release == first else "; --wrong asks since when"


def _ratio(blocks: Blocks, others: Blocks) -> Ratio | None:
    estimate = paired_estimate(blocks, others, _rng())
    return as_ratio(estimate, True) if estimate else None


def _times(ratio: Ratio | None, release: str) -> str:
    return f"{ratio.value:.3f} x the time of {release} ({ratio.low:.3f} to {ratio.high:.3f})" if ratio else ""


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)
