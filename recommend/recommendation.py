"""Which cell of a store to deploy: which may be ranked, which costs least, why others may not, what would admit them.
Pure functions on records. Questions are in `question.py`, limits in `limits.py`, the certainty of an answer in
`chance.py`.

The last record of a cell counts. Only cells that are proved equal and timed are ranked.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xbench.case import STEPS, Case
from xbench.host.machine import facts
from xbench.host.machine import label as machine_of
from xbench.recommend import chance
from xbench.recommend.limits import (
    SERVER,
    Relaxation,
    at_most,
    is_server,
    over,
    relaxations,
    samples_of,
    worth_repeating,
)
from xbench.recommend.quality import Quality
from xbench.recommend.question import Question
from xbench.runtimes import find_row, parse
from xbench.stats.ratio import Observation, Ratio
from xbench.store.record import NOTHING, Record, by_name, known

Wanted = tuple[str, str]  # a runtime with its options, and a precision
STALE = "it was measured on another version of the model"


@dataclass(frozen=True)
class Cell:
    """A requested cell. `why` is what excludes it, empty for a ranked cell; `known` is the upper bound of each limited
    quantity, if known; `limited` means that only limits exclude it, `few` that measuring it again would decide."""

    record: Record
    label: str
    why: str = ""
    known: dict[str, float | None] = field(default_factory=dict)
    limited: bool = False
    few: bool = False


@dataclass(frozen=True)
class Place:
    """A ranked cell. `cost` is the seconds to minimise: of a call, round by round against the fastest of its session,
    of all calls, of a percentile, of a sample offline, of a query of a server; `step` is the median of a call in its
    record, or the cost under load. `ratio` is the cost over that of the first; `chance` is the probability that it is
    the lowest."""

    cell: Cell
    cost: float
    step: float
    ratio: Ratio
    chance: float

    @property
    def tied(self) -> bool:
        """Whether it cannot be distinguished from the first."""
        low, high = self.ratio.low, self.ratio.high
        return low is None or high is None or low <= 1 <= high


@dataclass(frozen=True)
class Answer:
    """The cells that may be chosen, the best first, and the others; `relaxations` if none may be chosen. `even` is the
    number of calls after which the second costs as little as the first, `missing` what could be measured and has no
    record."""

    question: Question
    ranked: list[Place]
    excluded: list[Cell]
    relaxations: list[Relaxation]
    missing: list[Wanted]
    notes: list[str]
    even: float | None = None

    @property
    def tied(self) -> list[Place]:
        """The first and those that cannot be distinguished from it; empty if there are none."""
        places = self.ranked[:1] + [place for place in self.ranked[1:] if place.tied]
        return places if len(places) > 1 else []


def recommend(
    records: Sequence[Record],
    question: Question,
    installed: Iterable[Wanted] = (),
    timed: Sequence[Record] = (),
    evaluated: Sequence[Record] = (),
) -> Answer:
    """Answer a question from the records of a store, oldest first. `installed` is what could be measured;
    `timed` are the records of `xbench time`, which have the memory of loaded cells, `evaluated` those of
    `xbench evaluate`.

    Raises:
        XBenchError: the metric is not known that counts.
    """
    judged = cells(records, question, timed)
    if question.quality:
        judged = _good_enough(judged, question.quality, question.quality.of(evaluated, question.model))
    ranked = rank([cell for cell in judged if not cell.why], question)
    excluded = [cell for cell in judged if cell.why]
    limited = [(cell.label, cell.known) for cell in excluded if cell.limited]
    relaxed = [] if ranked else relaxations(limited, question.limits)
    even = break_even(ranked[0], ranked[1]) if question.calls and len(ranked) > 1 else None
    return Answer(
        question, ranked, excluded, relaxed, _missing(judged, installed), _notes(ranked, records, question), even
    )


def _missing(judged: Iterable[Cell], installed: Iterable[Wanted]) -> list[Wanted]:
    """What could be measured and has no record; a runtime without options is matched by any options."""
    cases = [cell.record["case"] for cell in judged if cell.why != STALE]
    words = {(case["runtime"], case.get("precision", "fp32")) for case in cases}
    words |= {(parse(word)[0], precision) for word, precision in words}
    return [each for each in installed if each not in words]


def cells(records: Iterable[Record], question: Question, timed: Sequence[Record] = ()) -> list[Cell]:
    """Every cell of the requested case, each with what excludes it."""
    own = [record for record in records if question.holds(record)]
    if not own:
        return []
    content = own[-1].get("artifact")
    return sorted((_judged(each, question, content, timed) for each in _newest(own, question)), key=lambda c: c.label)


def _good_enough(judged: Iterable[Cell], quality: Quality, evaluated: Sequence[Record]) -> list[Cell]:
    """The cells; those that may lose too much are excluded."""
    lacks = [(cell, "" if cell.why else quality.lacks(cell.record, evaluated)) for cell in judged]
    return [Cell(cell.record, cell.label, why) if why else cell for cell, why in lacks]


def _newest(records: Iterable[Record], question: Question) -> list[Record]:
    """The last record of each cell. For a server measured with several bounds: the last with the widest bound that the
    limit allows, else with the narrowest."""
    newest = dict[Case, Record]()
    for record in records:
        case = Case(**record["case"])
        if case not in newest or _suits(record, question) >= _suits(newest[case], question):
            newest[case] = record
    return list(newest.values())


def _suits(record: Record, question: Question) -> tuple[bool, bool, float]:
    """How well the load of a server's record suits the question; all other records suit equally."""
    limits = [limit for limit in question.limits if limit.percent is not None]
    if question.scenario != SERVER or not limits:
        return True, True, 0.0
    bound = record["load"].get("bound_s") or math.inf
    right = record["load"].get("percentile") == limits[0].percent
    fits = right and limits[0].allows(bound)
    return right, fits, bound if fits else -bound


def _judged(record: Record, question: Question, content: Any, timed: Sequence[Record]) -> Cell:
    """A cell with what excludes it: the first reason, or all limits that it misses."""
    cell = Cell(record, label(record), _unfit(record, question, content))
    if cell.why:
        return cell
    known = {limit.name: at_most(record, limit, timed) for limit in question.limits}
    why = "; ".join(filter(None, (over(record, limit, known[limit.name]) for limit in question.limits)))
    few = any(worth_repeating(record, limit, known[limit.name]) for limit in question.limits)
    return Cell(record, cell.label, why, known, bool(why), few)


def _unfit(record: Record, question: Question, content: Any) -> str:
    """Why a cell is not ranked, regardless of limits."""
    case, times = Case(**record["case"]), record.get("times") or NOTHING
    layout = (record.get("layout") or {}).get("chosen") or case.layout
    if record.get("artifact") != content:
        return STALE
    if record["status"] != "PASS":
        return f"{record['status']}: {record.get('message') or 'nothing is told'}"
    if (record.get("parity") or NOTHING).get("class") in (None, "wrong"):
        return "its record holds no proof"
    if case.precision not in question.precisions:
        return (
            f"it computes in {case.precision}: --precision {','.join([*question.precisions, case.precision])} admits it"
        )
    if question.layout not in (None, layout, case.layout):
        return f"it computes in {layout}"
    if question.scenario:
        message = record.get("message") or "it has no numbers under this load"
        return "" if _observed(record, question) else message
    if not times.get("median_s"):
        return "it has no time"
    if question.calls and None in (times.get("load_s"), times.get("first_s")):
        return "what its start takes is not known"
    return ""


def _observed(record: Record, question: Question) -> Observation | None:
    """The logarithm of the cost of a load, with its variance; None if the record lacks it."""
    load: Mapping[str, Any] = record.get("load") or NOTHING
    if question.scenario in ("offline", SERVER):
        rate = load.get("queries_per_s" if is_server(record) else "samples_per_s")
        return chance.rate_observed(rate, is_server(record)) if rate else None
    samples = samples_of(record) if load else []
    return chance.percentile_observed(samples, question.percent) if samples else None


def rank(judged: Sequence[Cell], question: Question) -> list[Place]:
    """The cells by cost, the lowest first."""
    if not judged:
        return []
    records = [cell.record for cell in judged]
    observed = [seen for record in records if question.scenario and (seen := _observed(record, question))]
    if question.scenario:
        costs = steps = [math.exp(value) for value, _ in observed]
        draws = chance.drawn_alone(observed)
    elif question.calls:
        more = question.calls - 1
        steps = [known(record["times"])["median_s"] for record in records]
        costs = [chance.start(known(each["times"])) + more * step for each, step in zip(records, steps, strict=True)]
        draws = chance.drawn_starts(records) + more * chance.drawn_steps(records, steps)
    else:
        steps, costs = [known(record["times"])["median_s"] for record in records], chance.levelled(records)
        draws = chance.drawn_steps(records, costs)
    first = min(range(len(judged)), key=lambda place: costs[place])

    def over_first(place: int) -> Ratio:
        if place == first:
            return Ratio(1.0, 1.0, 1.0, True)
        if question.scenario:
            return chance.ratio_of(observed[place], observed[first])
        if question.calls:
            return chance.drawn_ratio(costs[place] / costs[first], draws[place], draws[first])
        return chance.ratio(records[place], records[first])

    likely = chance.chances(draws)
    order = sorted(range(len(judged)), key=lambda place: costs[place])
    return [Place(judged[each], costs[each], steps[each], over_first(each), likely[each]) for each in order]


def break_even(first: Place, second: Place) -> float | None:
    """The number of calls after which two cost the same; None if one costs less at any number."""
    starts = [chance.start(known(place.cell.record["times"])) for place in (first, second)]
    gained = first.step - second.step
    if gained == 0 or (starts[1] - starts[0]) / gained <= 0:
        return None
    return 1 + (starts[1] - starts[0]) / gained


def label(record: Record) -> str:
    """The runtime with its options, and the cell's unusual settings."""
    case = Case(**record["case"])
    layout, option = ((by_name(record).get(name) or {}).get("chosen") for name in ("layout", "tuning"))
    words = [case.precision] if case.precision != "fp32" else []
    if case.layout != "nchw":
        words.append(f"{case.layout}: {layout}" if layout and layout != case.layout else case.layout)
    if case.tune != "default":
        budget = f" {case.tune_budget:g} s" if case.tune_budget else ""
        words.append(f"tune {case.tune}{budget}{f': {option}' if option else ''}")
    elif not layout and (note := record.get("note")):
        words.append(note)
    words += [f"{case.steps} steps proved"] if case.steps != STEPS else []
    return f"{case.runtime} ({', '.join(words)})" if words else case.runtime


def _notes(ranked: Sequence[Place], records: Iterable[Record], question: Question) -> list[str]:
    """Notes on the numbers."""
    notes, here = [], machine_of(facts(question.device))
    others = {machine_of(each.get("machine")) for each in records if each["case"]["model"] == question.model}
    others -= {question.machine}
    if question.machine != here:
        notes.append(f"measured on {question.machine}, which is not this machine")
    if others:
        notes.append(f"there are also records of {'; '.join(sorted(others))}: --machine")
    kept = [place.cell.label for place in ranked if question.calls and _is_kept(place.cell.record)]
    if kept:
        words = "what its first call takes without kernels on disk is not known: its start is that with them"
        notes.append(f"{', '.join(kept)}: {words}")
    if question.scenario == SERVER and len({place.cell.record["load"].get("bound_s") for place in ranked}) > 1:
        words = (
            "of a narrower one it is a rate that is kept at least" if question.limits else "--max-latency-ms sets one"
        )
        notes.append(f"the bounds of these servers differ: {words}")
    return notes


def _is_kept(record: Record) -> bool:
    """Whether the start of a cell may have been short because of kernels already on disk."""
    row = find_row(record["case"]["runtime"])
    return bool(row and row.keeps and known(record["times"]).get("anew_s") is None)
