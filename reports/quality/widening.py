"""Records of `xbench widen` as tables: the nodes that are most off, and the points of quality and time."""

from collections.abc import Sequence

from xbench.converters.printable import visible
from xbench.metrics import row_of
from xbench.reports.cost import size
from xbench.reports.quality.evaluation import signed
from xbench.reports.tables import COLOURS, OTHER, Table
from xbench.stats.quantities import number, of_metric, seconds
from xbench.store.experiments import NarrowNode, Point, Widening
from xbench.store.record import Record

FILE = "widened.jsonl"
MOST_OFF = 8  # nodes that are shown


def tables(records: Sequence[Record]) -> list[Table]:
    """Two tables per record: its points, and its nodes."""
    return [table for record in records for table in (_points(record), *_nodes(record))]


def title(record: Record) -> str:
    case, found = record["case"], record["widening"]
    return f"{case['model']} {case['precision']}, {found['metric']} on {found['inputs']}"


def drawn(record: Record) -> list[tuple[int, list[float | None], str]]:
    """The best sets by their number of nodes: the metric, the ends of its interval given the reference, and the time in
    words."""
    return [
        (len(point["wide"]), [point["value"], *_ends(point)], seconds(point["median_s"]))
        for point in _shown(record["widening"])
        if point["precision"] != "fp32"
    ]


def _ends(point: Point) -> list[float | None]:
    """The interval of the metric, as far as the reference is known."""
    value, difference, low, high = (point[name] for name in ("value", "difference", "low", "high"))  # type: ignore[literal-required]
    if value is None or difference is None or low is None or high is None:
        return [None, None]
    return [value - difference + low, value - difference + high]


def _shown(found: Widening) -> list[Point]:
    """Float32, the chosen set, those that were timed, and the best one of each number of nodes."""
    sign = -1.0 if found["less"] else 1.0
    best: dict[int, Point] = {}
    for point in found["points"]:
        if point["precision"] != "fp32" and point["value"] is not None:
            other = best.setdefault(len(point["wide"]), point)
            if sign * point["value"] > sign * (other["value"] or 0.0):
                best[len(point["wide"])] = point
    kept = [*best.values()]
    return [
        p for p in found["points"] if p["precision"] == "fp32" or p in kept or p["median_s"] or _is_chosen(p, found)
    ]


def _is_chosen(point: Point, found: Widening) -> bool:
    return found["wide"] is not None and point["precision"] != "fp32" and set(point["wide"]) == set(found["wide"])


def _points(record: Record) -> Table:
    found, case = record["widening"], record["case"]
    share, shown = row_of(found["metric"]).share, _shown(found)
    header = ("in float32", "status", found["metric"], "difference, interval", "size", "time", "time / fp32")
    lines = [_point(point, found, share) for point in shown]
    styles = [COLOURS.get(point["status"], OTHER) for point in shown]
    caption = f"{case['model']} {case['runtime']} {case['precision']}, {found['metric']} on {found['inputs']}"
    notes = _notes(record)
    if len(shown) < len(found["points"]):
        notes.append(f"the best of {len(found['points'])} sets that were evaluated (--json lists them)")
    return Table(visible(caption), [*map(visible, header)], lines, words=2, notes=notes, styles=styles)


def _point(point: Point, found: Widening, share: bool) -> list[str]:
    name = "all" if point["precision"] == "fp32" else str(len(point["wide"])) if point["wide"] else "none"
    name += " (chosen)" if _is_chosen(point, found) else ""
    difference = "" if point["difference"] is None else _interval(point, share)
    ratio = "" if point["ratio"] is None else number(point["ratio"])
    if point["ratio_low"] is not None and point["ratio"] != 1:
        ratio += f" ({number(point['ratio_low'])} to {number(point['ratio_high'])})"
    words = [name, point["status"], of_metric(point["value"], share), difference, size(point.get("form_bytes"))]
    return [*words, seconds(point["median_s"]), ratio]


def _interval(point: Point, share: bool) -> str:
    value, low, high = (signed(point[name], share) for name in ("difference", "low", "high"))  # type: ignore[literal-required]
    return f"{value} ({low} to {high})"


def _notes(record: Record) -> list[str]:
    found = record["widening"]
    notes = [f"{record['status']}: {record['message']}"] if record["message"] else []
    chosen = [point for point in found["points"] if point["wide"] and _is_chosen(point, found)]
    if found["wide"] == []:
        notes.append("every node may be in the lower precision")
    notes += [f"in float32: {', '.join(found['wide'])}"] if found["wide"] else []
    word = f"for other commands: --precision {record['case']['precision']} --runtime"
    notes += [f"{word} {point['word']}" for point in chosen]
    notes += [f"{_named(point)} not timed: {point['message']}" for point in found["points"] if point["message"]]
    return [*map(visible, notes)]


def _named(point: Point) -> str:
    number = len(point["wide"])
    return "float32" if point["precision"] == "fp32" else f"with {number or 'no'} node{'s' * (number != 1)} in float32"


def _nodes(record: Record) -> list[Table]:
    """The nodes that are most off alone, if they are known."""
    found, case = record["widening"], record["case"]
    order = sorted(found["nodes"], key=_size, reverse=True)[:MOST_OFF]
    kept = set(found["wide"] or ())
    rows = [[each["tensor"], each["operator"], _error(each), "yes" if each["tensor"] in kept else ""] for each in order]
    caption = (
        f"the nodes that alone in {case['precision']} change the outputs most ({len(order)} of {len(found['nodes'])})"
    )
    header = ["node", "operator", "change of the outputs", "stays in float32"]
    return [Table(visible(caption), header, [[*map(visible, row)] for row in rows], words=2)] if rows else []


def _size(node: NarrowNode) -> float:
    return float("inf") if node["error"] is None else node["error"]


def _error(node: NarrowNode) -> str:
    return "not finite" if node["error"] is None else f"{number(100 * node['error'])} %"
