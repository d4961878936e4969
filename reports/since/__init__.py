"""The result of `xbench since`: the releases that were tried, the layers of two of them, and a sentence."""

from collections.abc import Mapping
from typing import Any

from xbench.converters.printable import shell
from xbench.reports.tables import Table
from xbench.stats.quantities import seconds

Report = Mapping[str, Any]  # `experiments/since/run.py`
STYLES = {"good": "green", "bad": "bold red", "skipped": "yellow", "unclear": "yellow"}
SINGLE = 0.5  # of the whole slowdown, on the logarithm: less is no single release's


def tables(report: Report, top: int = 10) -> list[Table]:
    """The releases that were tried, and the layers that differ most."""
    steps = report["steps"]
    lines = [[each["release"], each["state"], _certain(each), each["words"]] for each in steps]
    caption = f"{report['model']} on {report['runtime']}, {report['mode']}, batch {report['batch']}"
    about = [f"{len(report['releases'])} releases, from {report['releases'][0]} to {report['releases'][-1]}"]
    styles = [STYLES[each["state"]] for each in steps]
    header = ("release", "it is", "certain", "because")
    notes = [sentence(report), *_others(report)]
    made = [Table(caption, header, lines, words=2, ending=1, about=about, notes=notes, styles=styles)]
    return [*made, _layers(report, top)] if report["layers"] else made


def _certain(step: Report) -> str:
    return "" if step["state"] in ("skipped", "unclear") else f"{step['certainty']:.1%}"


def _layers(report: Report, top: int) -> Table:
    header = ("layer", "operator", report["good"], report["bad"], "more")
    lines = [
        [
            each["name"],
            each["operator"],
            *("" if each[side] is None else seconds(each[side]) for side in ("good_s", "bad_s")),
            _signed((each["bad_s"] or 0.0) - (each["good_s"] or 0.0)),
        ]
        for each in report["layers"][:top]
    ]
    notes = [f"of {len(report['layers'])} layers; an empty time: the release has no layer of that name"]
    return Table("Layers that differ most", header, lines, words=2, notes=notes)


def _signed(difference: float) -> str:
    return f"{'-' if difference < 0 else '+'}{seconds(abs(difference))}"


def sentence(report: Report) -> str:
    """The result in words."""
    first, last = report["releases"][0], report["releases"][-1]
    slower = report["question"] == "slower"
    if not report["found"]:
        share = f"{100 * report['share']:g}%" if slower else ""
        than = f"not {share} slower than {first}: {report['steps'][0]['words']}" if slower else "right"
        return f"{last} is {than}; {report['certainty']:.1%} certain"
    what = _times(report["ratio"]) if slower else report["kind"]
    words = f"{what} since {report['bad']}; {report['good']} is the last good release"
    if report["between"]:
        words += f" that could be judged ({', '.join(report['between'])} could not)"
    return f"{words}; {report['certainty']:.1%} certain"


def _times(ratio: Mapping[str, float]) -> str:
    return f"{ratio['value']:.3f} x as long ({ratio['low']:.3f} to {ratio['high']:.3f})"


def _others(report: Report) -> list[str]:
    """A sentence if the release alone does not explain how much slower the last one is."""
    ratio, overall = report["ratio"], report["overall"]
    if not (report["found"] and ratio and overall) or ratio["high"] >= overall["low"] ** SINGLE:
        return []
    first, last = report["releases"][0], report["releases"][-1]
    return [f"{last} takes {_times(overall)} as {first}: other releases between them are slower, too"]


def then(report: Report) -> str | None:
    """The command that says more, if there is one."""
    if report["kind"] != "wrong" or not report["found"] or report["precision"] != "fp32":
        return None
    name, colon, options = report["runtime"].partition(":")
    words = [f"{name}=={report[side]}{colon}{options}" for side in ("bad", "good")]
    settings = {"--mode": report["mode"], "--batch": report["batch"], "--threads": report["threads"]}
    return shell("xbench", "bisect", report["model"], *words, *(word for each in settings.items() for word in each))
