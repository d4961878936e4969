"""Makes the part of a store record that is known before a run: docs/results.md in code."""

import dataclasses
import time
from dataclasses import asdict
from typing import cast

from xbench import models
from xbench.case import AUTO, SYNTHETIC, Case, digest
from xbench.converters.artifact import Artifact
from xbench.host import machine
from xbench.runtimes import _configuration, parse, row_of, version
from xbench.store.command import VERSION, command
from xbench.store.record import CaseFields, Drawn, Record
from xbench.store.schema import VERSION as SCHEMA

NARROW = ("fp16", "int8", "int4")  # for which ONNX Runtime's graph is rewritten


def key(case: Case, artifact: Artifact) -> str:
    """The key of a record: the cell, the model's content, the versions of the runtime and of xbench, the machine; and
    that of the tool that gives the cell its precision, if it is another package."""
    name, _ = parse(case.runtime)
    row = row_of(name)
    place = machine.label(machine.facts(case.device))
    tool = machine.versions(row.lower[case.precision].tool) if case.precision in row.lower else {}
    return digest(asdict(case), artifact.digest, version(row, case.runtime), VERSION, place, *tool.items())


def base(case: Case, artifact: Artifact, session: str, how: str = "") -> Record:
    """The part of a record that is known before a run; `how` it is measured is for its command line."""
    name, _ = parse(case.runtime)
    row = row_of(name)
    return {
        "schema": SCHEMA,
        "key": key(case, artifact),
        "case": cast(CaseFields, asdict(case)),
        "status": "CRASH",
        "message": None,
        "note": row.note,
        "autodiff": row.autodiff if case.mode != "forward" else None,
        "dropout": artifact.has_dropout and case.mode != "forward",
        "graph": graph_of(case, artifact),
        "layout": None,
        "tuning": None,
        "parity": None,
        "contracts": None,
        "audit": None,
        "times": None,
        "cost": None,
        "session": session,
        "artifact": artifact.digest,
        "inputs": drawn(case, artifact),
        "macs": artifact.info["macs"],
        "versions": _versions(case.runtime) | {"xbench": VERSION},
        "machine": machine.facts(case.device),
        "command": command(case, how),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _versions(word: str) -> dict[str, str]:
    """What is installed for a runtime, as far as known before its worker has started."""
    row = row_of(word)
    if _configuration.pinned(word) is not None:
        return {row.packages[0]: version(row, word) or ""}
    return machine.versions((*row.packages, "numpy"))


def graph_of(case: Case, artifact: Artifact) -> str:
    """The graph that a cell runs: `given`, the user's file unchanged, or `converted`, what was made of it."""
    row = row_of(case.runtime)
    as_it_is = artifact.given and row.reads_onnx and case.mode == "forward" and case.precision not in NARROW
    return "given" if as_it_is else "converted"


def drawn(case: Case, artifact: Artifact) -> list[Drawn] | None:
    """What is drawn for every input, in words; None if the values come from elsewhere."""
    if case.data != SYNTHETIC:
        return None
    inputs = [models.Input(**each) for each in artifact.info["inputs"]]
    return [{"name": each.name, "drawn": models.drawn(each), "unread": None} for each in inputs]


def no_layout(runtime: str, layout: str) -> str | None:
    """Why a runtime cannot be set to compute in a layout; None if it can."""
    if layout in (AUTO, *row_of(runtime).layouts):
        return None
    return f"{runtime} cannot be told {layout}: it takes ONNX's order, nchw, and computes in the one it likes"


def no_precision(case: Case) -> str | None:
    """Why a runtime cannot compute in the precision of a case, as far as known before it runs; None if it can."""
    lower = row_of(case.runtime).lower
    known = lower.get(case.precision)
    if case.precision == "fp32" or (known and case.device in known.devices and case.mode in known.modes):
        return None
    has = [name for name, each in lower.items() if case.device in each.devices and case.mode in each.modes]
    words = f"beside fp32 it has {', '.join(has)}" if has else "it has fp32"
    return f"{case.runtime} has no switch for {case.precision} on {case.device} in mode {case.mode}: {words}"


def expected(case: Case, artifact: Artifact) -> bool:
    """Whether a cell is measured without its mode being requested: it can exist and is not slow to prepare. An ONNX
    file is trained only on request. A requested precision, layout or clock that a runtime lacks is reported there."""
    row = row_of(case.runtime)
    case = dataclasses.replace(case, precision="fp32", layout="nchw", plane="resident")
    trained = case.mode != "forward" and artifact.info["origin"] == "onnx"
    return not (trained or case.mode in row.on_request or impossible(case, artifact))


def impossible(case: Case, artifact: Artifact) -> str | None:
    """Why a cell cannot exist, as known before anything is started; None if it can."""
    row = row_of(case.runtime)
    if reason := no_layout(case.runtime, case.layout) or no_precision(case):
        return reason
    if case.plane == "device" and case.device not in row.events:
        return f"{case.runtime} cannot read the clock of {case.device}: it has the planes resident and host"
    if case.mode != "forward" and row.autodiff is None:
        return f"{case.runtime} cannot train: it has no {case.mode}"
    if case.mode != "forward" and (why := artifact.info["untraced"]):
        return f"it cannot be trained: {why}"
    if case.mode != "forward" and not artifact.info["loss"]:
        why = ": a file gives a row of logits a sample, a module numbers of known sizes; --mode forward needs none"
        return f"{case.model} has no loss to train with{'' if artifact.info['origin'] == 'zoo' else why}"
    if case.mode != "forward" and not artifact.parameters:
        return f"{case.model} has no parameter to train"
    if case.mode != "forward" and row.autodiff == "graph" and artifact.info["untrainable"]:
        return f"{case.runtime} trains by a graph of the gradient: {artifact.info['untrainable']}"
    return None
