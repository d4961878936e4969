"""Judges answers to a question (`proof/question.py`) as `check` judges a runtime, and says what is wrong with them."""

import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np

from xbench.case import SYNTHETIC, Case, digest
from xbench.converters import files
from xbench.converters.printable import shell, visible
from xbench.errors import XBenchError
from xbench.parity import candidate
from xbench.parity.verdict import Changed, Verdict
from xbench.proof import answers
from xbench.proof.prove import combined
from xbench.proof.question import SETS, TENSORS, Question, set_name
from xbench.proof.reasons import Arrays, own, reasons
from xbench.store.command import VERSION
from xbench.store.experiments import Told
from xbench.store.record import NOTHING, CaseFields, Record, completed
from xbench.store.schema import VERSION as SCHEMA

FILE = "judge.jsonl"  # of the records, in a folder of results
TIMES, LONGEST = "times.json", 1 << 21  # bytes
YEAR = 3e7  # seconds
LONG = 200  # letters of a name
PER_SET = ("status", "class", "ratio", "worst_tensor", "message")
FEWER = {"tf32": "tf32", "half": "fp16"}  # class -> the precision that allows it


def judge(question: Question, folder: Path, runtime: str | None = None) -> Record:
    """The verdict on a folder of answers of a program, the `runtime`, which `times.json` may name.

    Raises:
        XBenchError: answers or the question cannot be read.
    """
    facts = question.facts
    references = [question.reference(str(number)) for number in range(SETS)]
    given = [answers.outputs(question, folder, number) for number in range(SETS)]
    verdicts = [_verdict(each, number, references, facts["precision"]) for number, each in enumerate(given)]
    told = times(folder)
    fields = combined(verdicts, 0)
    first, words = _inside(question, folder, facts["precision"])
    fields["parity"] |= {"first_wrong": first or fields["parity"]["first_wrong"]}
    fields["message"] = "; ".join(filter(None, (fields["message"], words))) or None
    name = visible(runtime or (told and told["runtime"]) or folder)
    data, batch = facts.get("data", SYNTHETIC), facts["batches"][0]
    case = Case(facts["model"], name, "forward", batch, precision=facts["precision"], data=data)
    sets = [
        {"set": set_name(number)} | {field: each[field] for field in PER_SET} for number, each in enumerate(verdicts)
    ]
    record: Record = {
        "schema": SCHEMA,
        "key": digest(asdict(case), facts["digest"], "judge"),
        "case": cast(CaseFields, asdict(case)),
        "note": None,
        "graph": "given",
        "layout": None,
        "times": None,
        "session": "judge",
        "artifact": facts["digest"],
        "versions": {"xbench": VERSION},
        "machine": {"name": (told and told["machine"]) or "elsewhere"},
        "command": shell("xbench", "judge", question.folder, folder, "--runtime", name),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "judged": {"sets": sets, "times": told},
    }
    return completed(record, fields)


def row_of(record: Record) -> dict[str, Any]:
    """The row of a record (`xbench judge --json`)."""
    parity, case, judged = record["parity"] or NOTHING, record["case"], record["judged"]
    return {
        "model": case["model"],
        "runtime": case["runtime"],
        "mode": case["mode"],
        "precision": case["precision"],
        "status": record["status"],
        "class": parity["class"],
        "worst_tensor": parity["worst_tensor"],
        "ratio": parity["ratio"],
        "first_wrong": parity["first_wrong"],
        "tensors": parity["tensors"],
        "steps": 0,
        "sets": judged["sets"],
        "message": record["message"],
        "times": judged["times"],
    }


def _verdict(given: Arrays, number: int, references: Sequence[Arrays], precision: str) -> dict[str, Any]:
    """The verdict on a set."""
    reference = references[number]
    try:
        missing = [name for name in reference if name.startswith("output/") and name not in given]
        if missing:
            count = len(missing) + len(given)
            raise Changed(f"gives {len(given)} of {count} outputs: {own(missing[0])} is missing")
        verdict = _judged(given, reference, precision)
    except Changed as changed:
        verdict = Verdict("FAIL", "wrong", None, None, len(given), None, str(changed)).as_dict()
    if verdict["status"] == "FAIL":
        why = next(reasons(given, number, references, precision), None)
        if verdict["class"] in ("tf32", "half"):
            why = f"rounding to fewer bits explains it: `xbench ask --precision {FEWER[verdict['class']]}` allows that"
        words = (f"{set_name(number)}: {verdict['message']}", why)
        verdict["message"] = "; ".join(filter(None, words))
    return verdict


def _judged(given: Arrays, reference: Arrays, precision: str) -> dict[str, Any]:
    """The verdict of `check`, but for more bits than were requested: a program cannot be told to use fewer.

    Raises:
        Changed: the type of a tensor differs from the graph's.
    """
    with np.errstate(all="ignore"):
        verdict = candidate.judged(given, reference, precision).as_dict()
    if verdict["status"] == "UNSUPPORTED":
        verdict |= {"status": "PASS", "message": None}
    return verdict


def _inside(question: Question, folder: Path, precision: str) -> tuple[str | None, str | None]:
    """The first wrong tensor inside the model, among those that the answers have, and a sentence about them."""
    if TENSORS not in question.facts["references"]:
        if answers.tensors_file(folder).exists():
            raise XBenchError(f"{answers.tensors_file(folder)}: the question has no tensors, ask with --tensors")
        return None, None
    reference = question.reference(TENSORS)
    names = [name for name in reference if name.startswith("output/")]
    if not (given := answers.every_tensor(question, folder, {own(n): reference[n].nbytes for n in names})):
        return None, None
    try:
        wanted = {n: a for n, a in reference.items() if not n.startswith("output/") or n in given}
        verdict = _judged(given, wanted, precision)
    except Changed as changed:
        raise XBenchError(f"{answers.tensors_file(folder)}: {changed}") from changed
    first: str | None = verdict["first_wrong"]
    if not first:
        return None, f"the {len(given)} tensors given of {len(names)} are right"
    before = [name for name in names[: names.index(first)] if name not in given]
    unseen = f" ({len(before)} before it were not given, such as {own(before[-1])})" if before else ""
    why = next(reasons({first: given[first]}, 0, [wanted], precision), None)
    return own(first), "; ".join(filter(None, (f"first wrong tensor: {own(first)}{unseen}", why)))


def times(folder: Path) -> Told | None:
    """The times next to answers; None if there are none.

    Raises:
        XBenchError: it is no list of times.
    """
    path = folder / TIMES
    if not path.exists():
        return None
    try:
        with files.opened(path) as file:
            told = json.loads(file.read(LONGEST))
    except (OSError, ValueError, RecursionError) as error:
        raise XBenchError(f"{path} cannot be read: {visible(error)}") from error
    told = {"seconds": told} if isinstance(told, list) else told
    seconds = told.get("seconds") if isinstance(told, dict) else None
    if not isinstance(seconds, list) or not seconds or not all(map(_is_time, seconds)):
        raise XBenchError(f'{path} has no times: write {{"runtime": "...", "seconds": [0.012, ...]}}')
    words = {name: told.get(name) for name in ("runtime", "machine")}
    if wrong := next((name for name, word in words.items() if not (word is None or isinstance(word, str))), None):
        raise XBenchError(f"{path}: its {wrong} is no text")
    kept = {name: word and visible(word)[:LONG] for name, word in words.items()}
    return Told(runtime=kept["runtime"], machine=kept["machine"], seconds=seconds, median_s=statistics.median(seconds))


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < YEAR
