"""Records of evaluations as a table: the metric of each runtime, how far it is from that of the reference, and which
answers changed."""

from collections.abc import Iterable, Sequence

from xbench.converters.printable import visible
from xbench.metrics import row_of
from xbench.reports.cost import size
from xbench.reports.formats import label
from xbench.reports.tables import COLOURS, OTHER, Table
from xbench.stats.quantities import number, of_metric
from xbench.store.experiments import Changed, Evaluation
from xbench.store.record import NOTHING, Record

CHANGED = 3  # samples whose answers changed, below a table


def tables(records: Sequence[Record]) -> list[Table]:
    """One table per network, metric, set of samples and network that it is compared with."""
    groups: dict[tuple[str, str, str, str | None], list[Record]] = {}
    for record in records:
        found = record["evaluation"]
        key = record["case"]["model"], found["metric"], found["content"], found.get("like")
        groups.setdefault(key, []).append(record)
    return [_table(group) for group in groups.values()]


def _table(records: Sequence[Record]) -> Table:
    found = next((each["evaluation"] for each in records if each["evaluation"]["value"] is not None), None)
    share = row_of(records[0]["evaluation"]["metric"]).share
    body = [cells(record) for record in records]
    styles = [COLOURS.get(record["status"], OTHER) for record in records]
    if found:
        source = found.get("like") or "reference"
        body.insert(0, [f"{source} (float64)", "", "", of_metric(found["reference"], share), "", "", ""])
        styles.insert(0, "")
    notes = [f"{named(record)}: {record['message']}" for record in records if record["message"]]
    notes += [words for record in records for words in _examples(record)]
    notes += _about(found, share) if found else []
    body = [[visible(word) for word in line] for line in body]
    return Table(caption(records), header(records[0]), body, words=2, notes=[*map(visible, notes)], styles=styles)


def caption(records: Sequence[Record]) -> str:
    """What was evaluated, and on what; `records` are those of one table."""
    found = records[0]["evaluation"]
    samples = "1 sample" if found["samples"] == 1 else f"{found['samples']:,} samples"
    like = f" compared with {found['like']}" if found.get("like") else ""
    return visible(f"{records[0]['case']['model']}{like}, {found['metric']} on {samples} of {found['inputs']}")


def header(record: Record) -> list[str]:
    """The headings over `cells`."""
    found = record["evaluation"]
    interval = f"difference, {found['confidence'] * 100:g} % interval"
    return [*map(visible, ("runtime", "status", "error / noise", found["metric"], interval, "changed", "size"))]


def cells(record: Record) -> list[str]:
    """A record in words, not yet made visible: the runtime with its precision, its metric, how far that is from the
    reference's, the number of answers that changed, the size of the runtime's own form."""
    found = record["evaluation"]
    return [*_runtime(record), *_columns(found, row_of(found["metric"]).share)]


def reference(record: Record) -> str:
    """The metric of the reference; empty if it is not known."""
    found = record["evaluation"]
    return "" if found["reference"] is None else of_metric(found["reference"], row_of(found["metric"]).share)


def named(record: Record) -> str:
    """The runtime, with its precision if that is not float32."""
    precision = record["case"]["precision"]
    return label({**record["case"], "note": record["note"]}) + (f" {precision}" if precision != "fp32" else "")


def _runtime(record: Record) -> list[str]:
    ratio: float | None = (record["parity"] or NOTHING).get("ratio")
    return [named(record), record["status"], "" if ratio is None else number(ratio)]


def _columns(found: Evaluation, share: bool) -> list[str]:
    if found["value"] is None:
        return ["", "", "", ""]
    changed = "" if found["changed"] is None else f"{found['changed']:,}"
    return [of_metric(found["value"], share), interval(found, share), changed, size(found.get("form_bytes"))]


def interval(found: Evaluation, share: bool) -> str:
    """The difference to the reference with its interval."""
    value, low, high = (signed(found[name], share) for name in ("difference", "low", "high"))
    return f"{value} ({low} to {high})"


def signed(value: float | None, share: bool) -> str:
    """A difference of a metric in words, with its sign."""
    words = of_metric(value, share)
    return words if value is None or value < 0 else f"+{words}"


def _examples(record: Record) -> Iterable[str]:
    """The first samples whose answers changed, if an answer is a word."""
    found = record["evaluation"]
    shown = [each for each in found["worst"] if each["answer"] is not None][:CHANGED]
    yield from (f"{named(record)}: {in_words(each)}" for each in shown)
    if shown and found["changed"] is not None and found["changed"] > len(shown):
        yield f"{named(record)}: and {found['changed'] - len(shown):,} more (--json lists them)"


def in_words(changed: Changed) -> str:
    """A sample and what its answer was; empty if an answer is an array."""
    if changed["answer"] is None:
        return ""
    truth = "" if changed["label"] is None else f", the label {changed['label']}"
    return f"{changed['sample']}: {changed['answer']} instead of {changed['reference']}{truth}"


def _about(found: Evaluation, share: bool) -> list[str]:
    """What the reference itself is worth: if it is not better than a constant answer, no runtime caused it."""
    constant, value = found["constant"], found["reference"]
    if constant is None or value is None or value > constant:
        return []
    words = (
        f"the reference itself has {of_metric(value, share)}, and a constant answer has {of_metric(constant, share)}"
    )
    return [f"{words}: check how the inputs are prepared, and the labels; no runtime caused it"]
