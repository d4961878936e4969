"""What `xbench bisect --like` found, as a table: the node that is to blame, or the nodes that lose most."""

from collections.abc import Iterator, Mapping
from typing import Any

from xbench.converters.printable import visible
from xbench.reports.tables import Table

SHOWN = 5  # nodes that lose most
UNLIKE = 2.0  # times the width of the drawn values, from which the range of an input is made for others
LONGEST = 100  # characters of a name
HEADER = ("node", "loss", "at the outputs", "local error", "clipped", "step / spread")


def table(report: Mapping[str, Any]) -> Table:
    """The report's sentence, what was compared, and a line for each node that loses most."""
    rows = [_line(each) for each in report["sources"] if each["effect"] != 0][:SHOWN]
    return Table(
        caption=visible(report["says"]),
        header=HEADER,
        lines=[[visible(word) for word in row] for row in rows],
        about=[*map(visible, _about(report))],
        notes=[*map(visible, _notes(report))],
    )


def _about(report: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"also: {each['says']}" for each in report["also"])
    cured = "" if report["cured"] is None else f", and {percent(report['cured'])} if this were right"
    if report["named"]:
        off = "not finite" if report["error"] is None else f"{percent(report['error'])} off"
        yield f"the outputs are {off}{cured}"
    matched, count = report["matched"]
    count_of = f"sample{'s' * (report['batch'] != 1)}"
    random, given = f"random {count_of} (seed {report['seed']})", f"{count_of} of {report['samples']}"
    samples = f"{report['batch']} {random if report['drawn'] else given}"
    tensors = f"{matched} of {count} tensors are matched"
    yield f"{report['model']} compared with {report['like']} in float64, on {samples}; {tensors}"


def _line(source: Mapping[str, Any]) -> list[str]:
    node, numbers = source["node"], source["range"]
    name = node["name"] or next(iter(node["outputs"]), "")
    what = {"activation": "", "weights": ", its weights", "half": "", "node": ""}[source["kind"]]
    shown = [percent(source["share"]), percent(source["effect"]), percent(source["error"])]
    shown += ["", ""] if numbers is None else [percent(numbers["clipped"]), f"{numbers['step']:.2g}"]
    return [f"{node['op_type']} {visible(name)[:LONGEST]}{what}", *shown]


def _notes(report: Mapping[str, Any]) -> Iterator[str]:
    """Inputs that are drawn, and are not like those that the file was made for."""
    for each in report["inputs"] if report["drawn"] else ():
        drawn, made = (each[b] - each[a] for a, b in (("least", "largest"), ("low", "high")))
        if made > UNLIKE * drawn or each["clipped"] > 0.01:
            name, spans = visible(each["name"])[:LONGEST], f"{each['low']:.3g} to {each['high']:.3g}"
            values = f"{each['least']:.3g} to {each['largest']:.3g}"
            yield f"{name} was made for values from {spans}, and the random ones are from {values}: --range sets them"


def percent(share: float | None) -> str:
    """A share with two digits; of none, which was not finite, in words."""
    if share is None:
        return "not finite"
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"
