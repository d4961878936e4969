"""Checks of any cells: which of them exist, the row of each, and what a failure looks like."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from xbench.case import AUTO, Case
from xbench.converters.artifact import Artifact
from xbench.errors import XBenchError
from xbench.experiments.suite import Progress
from xbench.host import machine
from xbench.proof.explain import explain as find
from xbench.proof.proof import verify_each
from xbench.proof.record import Record, expected
from xbench.workers.prepare import Exporter


def check(
    cases: Sequence[Case],
    artifact_of: Callable[[str], Artifact | None],
    exporter: Exporter,
    timeout: float,
    logs: Path,
    progress: Progress,
    strict: bool = True,
    explain: bool = False,
) -> list[dict[str, Any]]:
    """One row a cell, in their order. `artifact_of` gives None for a model that cannot be exported, whose cells are
    left out. Where not `strict`, so are those that nobody would ask for (`expected`). `explain` adds to a row that
    failed what the failure looks like."""
    order = dict[tuple[str, str, str], tuple[Case, Artifact]]()

    def cells() -> Iterator[tuple[Case, Artifact]]:
        for name, group in groupby(cases, key=lambda case: case.model):
            members = list(group)
            progress.say(f"{name}: export to ONNX")
            artifact = artifact_of(name)
            if artifact is None:
                progress.skip(len(members))
                continue
            for case in members:
                if not strict and not expected(case, artifact):
                    progress.skip()
                    continue
                progress.say(f"{name}: {case.runtime} {case.mode}")
                order[name, case.runtime, case.mode] = case, artifact
                yield case, artifact

    rows = {}
    at_once = 1 if any(case.layout == AUTO for case in cases) else machine.cpus()  # to choose a layout is to time it
    for record in verify_each(cells(), exporter, timeout, logs, at_once):
        row = row_of(record)
        rows[row["model"], row["runtime"], row["mode"]] = row
        progress.finish(line(row))
    for place in (place for place in order if explain and rows[place]["status"] == "FAIL"):
        progress.say(f"{' '.join(place)}: what does it look like?")
        try:
            rows[place]["explanations"] = find(*order[place], rows[place]["first_wrong"], exporter, timeout, logs)
        except XBenchError as error:
            rows[place] |= {"explanations": [], "message": f"{rows[place]['message']}; not explained: {error}"}
    return [rows[place] for place in order]


def row_of(record: Record) -> dict[str, Any]:
    """The row of a record without times (`xbench check --json`)."""
    case, parity = record["case"], record["parity"] or {}
    return {
        "model": case["model"],
        "runtime": case["runtime"],
        "mode": case["mode"],
        "status": record["status"],
        "class": parity.get("class"),
        "worst_tensor": parity.get("worst_tensor"),
        "ratio": parity.get("ratio"),
        "first_wrong": parity.get("first_wrong"),
        "tensors": parity.get("tensors"),
        "steps": parity.get("steps"),
        "certificate": record.get("certificate"),
        "graph": record["graph"],
        "layout": (record["layout"] or {}).get("chosen", case["layout"]),
        "inputs": record.get("inputs"),
        "message": record["message"],
    }


def about_inputs(row: Mapping[str, Any]) -> list[str]:
    """What was drawn, where the graph or `--range` has said it, and which outputs do not depend on an input; a line
    each."""
    lines = []
    for each in row["inputs"] or ():
        if ", " in each["drawn"]:
            lines.append(f"{each['name']}: {each['drawn']}")
        if each["unread"]:
            lines.append(f"{each['name']}: what it is changes nothing in {', '.join(each['unread'])}")
    return lines


def line(row: Mapping[str, Any]) -> str:
    """What became of a cell, for a log."""
    ratio = f" {row['class']}, {row['ratio']:.1f} x noise in {row['worst_tensor']}" if row["ratio"] is not None else ""
    ratio += f", {held(row)}" if row["certificate"] else ""
    return f"{row['model']} {row['runtime']} {row['mode']}: {row['status']}{ratio}" + (
        f": {row['message']}" if row["message"] else ""
    )


def held(row: Mapping[str, Any]) -> str:
    """Whether the runtime holds the parameters of the model, in words."""
    found = row["certificate"]
    if found is None:
        return ""
    if found["equal"] is None:
        return "not told"
    tensors = len(found["parameters"])
    same = f"all {tensors} equal" if found["equal"] else f"{len(found['different'])} of {tensors} differ"
    same += f", {len(found['unused'])} unused" if found.get("unused") else ""  # which older records do not have
    return same + (f", {found['dead_nodes']} dead nodes" if found["dead_nodes"] else "")
