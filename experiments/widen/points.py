"""The sets of nodes that were evaluated, as points of quality, time and number of nodes. Pure functions of records."""

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from xbench.experiments.evaluate import Evaluate
from xbench.experiments.widen.search import Found
from xbench.metrics import row_of
from xbench.runtimes import parse
from xbench.runtimes.support.wide import wide
from xbench.stats.quantities import of_metric
from xbench.stats.ratio import Ratio, paired_ratio
from xbench.store.experiments import Evaluation, Point, Widening
from xbench.store.record import Record

MOST_TIMED = 6  # points, float32 among them


def nothing(evaluation: Evaluate) -> Widening:
    """The fields of a search in a record before it was made."""
    return {
        "inputs": evaluation.inputs,
        "metric": evaluation.metric,
        "less": evaluation.less,
        "accepted": None,
        "nodes": [],
        "points": [],
        "wide": None,
        "trials": 0,
        "ended": False,
    }


def value(found: Evaluation) -> str:
    """The metric of an evaluation, in words."""
    return f"{found['metric']} {of_metric(found['value'], row_of(found['metric']).share)}"


def count(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"


def remark(found: Found, nodes: int) -> str | None:
    """What is to be said of a set that was found."""
    if not found.ended or not found.nodes:
        return None
    return f"the search ended after {found.trials} evaluations: fewer than {len(found.nodes)} of {nodes} may do"


def none_found(found: Found, nodes: int, precision: str) -> str:
    """Why there is no set."""
    tried = f"{found.trials} evaluation{'s' if found.trials > 1 else ''}"
    if found.ended:
        return f"no set of nodes was good enough in {tried}: --evaluations tries more"
    if nodes < 2:
        return f"the only node in {precision} costs too much"
    return f"it is not good enough even with all but one of {nodes} nodes in float32"


def wide_nodes(record: Record) -> tuple[str, ...]:
    """The nodes that a record's word leaves in float32."""
    return wide(parse(record["case"]["runtime"])[1])


def worth_timing(tried: Sequence[Record], chosen: Collection[str] | None) -> list[Record]:
    """Float32, which is the first, all in the lower precision, the set that was chosen, and some between that nothing
    beats: none with as few nodes in float32 has a better metric."""
    exact, full, *rest = tried
    best = [each for each in rest if chosen is not None and set(wide_nodes(each)) == set(chosen)]
    left = [each for each in _frontier([full, *rest]) if each not in (full, *best)]
    places = np.linspace(0, len(left) - 1, min(len(left), MOST_TIMED - 2 - len(best))).round().astype(int)
    return [exact, full, *best, *(left[place] for place in dict.fromkeys(places.tolist()))]


def _frontier(tried: Iterable[Record]) -> list[Record]:
    """The sets that no other beats, those with the fewest nodes first."""
    kept, best = list[Record](), float("-inf")
    for each in sorted(tried, key=lambda record: (len(wide_nodes(record)), -_goodness(record))):
        if _goodness(each) > best:
            kept.append(each)
            best = _goodness(each)
    return kept


def _goodness(record: Record) -> float:
    found = record["evaluation"]
    if found["value"] is None:
        return float("-inf")
    return -found["value"] if found["less"] else found["value"]


def points(tried: Sequence[Record], timed: Sequence[Record]) -> list[Point]:
    """The evaluated sets with the times of those that were timed, float32 first, then by the number of nodes."""
    times = {_cell(record): record for record in timed}
    exact = times.get(_cell(tried[0]))
    return [_point(each, times.get(_cell(each)), exact) for each in [tried[0], *sorted(tried[1:], key=_size)]]


def _size(record: Record) -> int:
    return len(wide_nodes(record))


def _cell(record: Record) -> tuple[str, str]:
    return record["case"]["runtime"], record["case"]["precision"]


def _point(evaluated: Record, timed: Record | None, exact: Record | None) -> Point:
    found, times = evaluated["evaluation"], timed["times"] if timed else None
    ratio = _ratio(timed, exact)
    return {
        "word": evaluated["case"]["runtime"],
        "precision": evaluated["case"]["precision"],
        "wide": list(wide_nodes(evaluated)),
        "status": evaluated["status"],
        "value": found["value"],
        "difference": found["difference"],
        "low": found["low"],
        "high": found["high"],
        "form_bytes": found.get("form_bytes"),
        "median_s": times and times["median_s"],
        "low_s": times and times["low_s"],
        "high_s": times and times["high_s"],
        "ratio": ratio and ratio.value,
        "ratio_low": ratio and ratio.low,
        "ratio_high": ratio and ratio.high,
        "message": timed["message"] if timed and not times else None,
    }


def _ratio(timed: Record | None, exact: Record | None) -> Ratio | None:
    """The time over that of float32, of itself 1."""
    if not (timed and exact and timed["times"] and exact["times"]):
        return None
    if timed is exact:
        return Ratio(1.0, 1.0, 1.0, True)
    blocks = timed["times"]["blocks"], exact["times"]["blocks"]
    return paired_ratio(*blocks, np.random.default_rng(0), same_session=timed["session"] == exact["session"])
