"""Checks of cells: which of them exist, the row of each, and explanations of failures."""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xbench.case import AUTO, Case, digest
from xbench.converters.artifact import Artifact
from xbench.errors import XBenchError
from xbench.experiments.experiment import Experiment, Lab
from xbench.host import machine
from xbench.proof.explain import explain
from xbench.proof.prove import verify_each
from xbench.proof.record import key
from xbench.runtimes import adapter_digest
from xbench.store.record import NOTHING, Record, completed


@dataclass(frozen=True)
class Check(Experiment):
    """One record per cell, without times. `explain` adds explanations to one that failed."""

    name: ClassVar[str] = "check"
    file: ClassVar[str] = "check.jsonl"

    explain: bool = False

    def group(self, case: Case) -> Hashable:
        """Nothing is timed, so the cells of a model share the machine."""
        return case.model

    def keys(self, case: Case, artifact: Artifact, lab: Lab) -> Sequence[str]:
        return [digest(key(case, artifact), "check", adapter_digest(case.runtime))]

    def measure(self, cases: Sequence[Case], wanted: Collection[str], artifact: Artifact, lab: Lab) -> Iterator[Record]:
        timed = any(case.layout == AUTO for case in cases)  # choosing a layout needs timing
        at_once = 1 if timed else machine.cpus()
        failed = []
        for case, record in verify_each(cases, artifact, lab.exporter, lab.timeout, lab.logs, at_once, lab.say):
            record["key"] = self.keys(case, artifact, lab)[0]
            if self.explain and record["status"] == "FAIL":
                failed.append((case, record))
            else:
                yield record
        for case, record in failed:
            yield self._explained(case, record, artifact, lab)

    def _explained(self, case: Case, record: Record, artifact: Artifact, lab: Lab) -> Record:
        lab.say(case, f"{case.mode}: what does the failure look like?")
        wrong: str | None = (record["parity"] or NOTHING).get("first_wrong")
        try:
            explanations = explain(case, artifact, wrong, lab.exporter, lab.timeout, lab.logs)
            return completed(record, {"explanations": explanations})
        except XBenchError as error:
            return record | {"explanations": [], "message": f"{record['message']}; not explained: {error}"}

    def line(self, record: Record) -> str:
        return line(row_of(record))


def row_of(record: Record) -> dict[str, Any]:
    """The row of a record without times (`xbench check --json`)."""
    case, parity = record["case"], record["parity"] or NOTHING
    explained = {"explanations": record["explanations"]} if "explanations" in record else {}
    return explained | {
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
        "note": record["note"],
        "layout": (record["layout"] or {}).get("chosen", case["layout"]),
        "inputs": record.get("inputs"),
        "message": record["message"],
    }


def about_inputs(row: Mapping[str, Any]) -> list[str]:
    """What was drawn, if the graph or `--range` specifies it, and which outputs do not depend on an input; a line
    each."""
    lines = []
    for each in row["inputs"] or ():
        if ", " in each["drawn"]:
            lines.append(f"{each['name']}: {each['drawn']}")
        if each["unread"]:
            lines.append(f"{each['name']}: what it is changes nothing in {', '.join(each['unread'])}")
    return lines


def line(row: Mapping[str, Any]) -> str:
    """The outcome of a cell, for a log."""
    ratio = f" {row['class']}, {row['ratio']:.1f} x noise in {row['worst_tensor']}" if row["ratio"] is not None else ""
    ratio += f", {held(row)}" if row["certificate"] else ""
    return f"{row['model']} {row['runtime']} {row['mode']}: {row['status']}{ratio}" + (
        f": {row['message']}" if row["message"] else ""
    )


def held(row: Mapping[str, Any]) -> str:
    """Whether the runtime has the parameters of the model, in words."""
    certificate = row["certificate"]
    if certificate is None:
        return ""
    if certificate["equal"] is None:
        return "not told"
    tensors = len(certificate["parameters"])
    same = f"all {tensors} equal" if certificate["equal"] else f"{len(certificate['different'])} of {tensors} differ"
    same += f", {len(certificate['unused'])} unused" if certificate.get("unused") else ""  # missing in older records
    return same + (f", {certificate['dead_nodes']} dead nodes" if certificate["dead_nodes"] else "")
