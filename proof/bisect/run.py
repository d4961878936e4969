"""Runs one bisection, from the cells to compare to the report and the files that reproduce the difference."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from xbench.case import Case
from xbench.converters.artifact import Artifact
from xbench.errors import XBenchError
from xbench.proof.bisect.search import Bisection, Difference
from xbench.proof.pair_run import LETTERS, Pair
from xbench.proof.record import impossible
from xbench.workers.prepare import Exporter
from xbench.workers.worker import WorkerFailure

Report = dict[str, Any]


def bisect(
    cases: Sequence[Case], seed: int, timeout: float, out: Path, place: Path, say: Callable[[str], None]
) -> Report:
    """Compares one or two runtimes, cells that differ in nothing else; `place` is a folder for temporary files.

    Raises:
        XBenchError: the model cannot be read, was damaged in the cache or has no such mode; `out` cannot be written.
    """
    exporter = Exporter(place, timeout)
    try:
        return of_artifact(cases, exporter.artifact(cases[0].model), exporter, seed, out, say)
    finally:
        exporter.close()


def of_artifact(
    cases: Sequence[Case], artifact: Artifact, exporter: Exporter, seed: int, out: Path, say: Callable[[str], None]
) -> Report:
    """As `bisect`, of a converted model. Cells on a user's samples have their digest, and the exporter has the samples.

    Raises:
        XBenchError: as `bisect`.
    """
    first, place = cases[0], exporter.logs
    pair = Pair(cases, exporter.timeout, place, exporter.templates)
    try:
        for case in cases:
            if reason := impossible(case, artifact):
                raise XBenchError(reason)
        search = Bisection(exporter, artifact, pair, first.batch, seed, place, say, first.data)
        difference = search.find(first.mode)
        report = _report(cases, difference)
        if difference and (damage := exporter.renewed(artifact)):
            raise XBenchError(f"the model in the cache was damaged ({damage}) and was made again: start again")
        if difference:
            report["files"] = _written(exporter, cases, difference, report, out)
        return report
    except WorkerFailure as failure:
        raise XBenchError(failure.message) from failure
    finally:
        pair.close()


def _report(cases: Sequence[Case], difference: Difference | None) -> Report:
    words = [case.runtime for case in cases] + [None] * (2 - len(cases))
    report: Report = {
        "model": cases[0].model,
        **dict(zip(LETTERS, words)),
        "mode": cases[0].mode,
        "precision": cases[0].precision,
        "inputs": cases[0].own,
        "differs": bool(difference),
    }
    if not difference:
        report |= {"wrong": None, "tensor": None, "node": None, "nodes_in_subgraph": 0, "subgraph": []}
        return report | {"confirmed": False, "error_in_floors": {}, "failures": {}, "note": None, "files": []}
    wrong = [letter for letter, is_wrong in zip(LETTERS, difference.trial.wrong()) if is_wrong]
    offs = [None if off is None or math.isinf(off) else off for off in difference.trial.worst()]
    return report | {
        "mode": difference.mode,
        "wrong": "both" if len(wrong) == 2 else next(iter(wrong), None),
        "tensor": difference.tensor,
        "node": difference.node,
        "nodes_in_subgraph": len(difference.nodes),
        "subgraph": difference.nodes,
        "confirmed": bool(difference.nodes),
        "error_in_floors": dict(zip(LETTERS, offs)),
        "failures": dict(zip(LETTERS, (failure and failure.message for failure in difference.trial.failures))),
        "note": difference.note,
    }


def _written(exporter: Exporter, cases: Sequence[Case], difference: Difference, report: Report, out: Path) -> list[str]:
    """Writes the report, and if a part of the graph shows the difference, all that reproduces it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        files = []
        if difference.nodes and cases[0].precision == "fp32":  # a script without xbench runs in float32
            answers = [difference.trial.folder / f"{letter}.npz" for letter in LETTERS]
            runtimes = [
                {
                    "word": case.runtime,
                    "answer": None if failure else str(answer),
                    "device": case.device,
                    "threads": case.threads,
                    "layout": case.layout,
                }
                for case, answer, failure in zip(cases, answers, difference.trial.failures)
            ]
            request = {"folder": str(difference.trial.folder), "mode": difference.mode, "runtimes": runtimes}
            files = exporter.call("write_reproduction", title=title(report), out=str(out.absolute()), **request)
        files = [str(out / file) for file in ("report.json", *files)]
        (out / "report.json").write_text(json.dumps(report | {"files": files}, indent=1))
    except OSError as error:
        raise XBenchError(f"cannot write to {out}: {error.strerror}") from error
    return files


def title(report: Report) -> str:
    """The result in one line."""
    pair = f"{report['a']} and {report['b']}" if report["b"] else f"{report['a']} and float64"
    network = f"{report['model']}, {report['mode']}" + (f", on {report['inputs']}" if report.get("inputs") else "")
    if not report["differs"]:
        return f"{pair} agree on {network}"
    if not report["tensor"]:
        return f"{pair} differ on {network}: {report['note']}"
    node = report["node"]
    size = f"{report['nodes_in_subgraph']} node{'s' * (report['nodes_in_subgraph'] != 1)}"
    shown = f"seen on {size}" if report["confirmed"] else "on no part of the graph alone"
    return f"{pair} part at {report['tensor']} of {network}: {node['op_type']}, {shown}"
