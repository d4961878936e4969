"""Judges answers to a question (`proof/question.py`) as `check` judges a runtime, and says what is wrong with them."""

import itertools
import json
import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np

from xbench.case import Case, digest
from xbench.converters import files
from xbench.converters.printable import shell, visible
from xbench.errors import XBenchError
from xbench.parity import candidate
from xbench.parity.verdict import ALLOWED, Changed, Verdict, narrow_of, off
from xbench.proof import answers
from xbench.proof.prove import combined
from xbench.proof.question import TENSORS, Question, set_name
from xbench.store.command import VERSION
from xbench.store.experiments import Told
from xbench.store.record import NOTHING, CaseFields, Record, completed
from xbench.store.schema import VERSION as SCHEMA

FILE = "judge.jsonl"  # of the records, in a folder of results
TIMES, LONGEST = "times.json", 1 << 24  # bytes
LONG = 200  # letters of a name
PER_SET = ("status", "class", "ratio", "worst_tensor", "message")
AXES = 5  # of a tensor whose orders are tried
Arrays = Mapping[str, np.ndarray]


def judge(question: Question, folder: Path, runtime: str | None = None) -> Record:
    """The verdict on a folder of answers of a program, the `runtime`, which `times.json` may name.

    Raises:
        XBenchError: answers or the question cannot be read.
    """
    facts = question.facts
    references = [question.reference(str(number)) for number in range(question.sets)]
    given = [answers.outputs(question, folder, number) for number in range(question.sets)]
    verdicts = [_verdict(each, number, references, facts["precision"]) for number, each in enumerate(given)]
    told = times(folder)
    fields = combined(verdicts, 0)
    if first := _first_wrong(question, folder, facts["precision"]):
        fields["parity"] |= {"first_wrong": first}
        if fields["status"] == "FAIL":
            fields["message"] = f"{fields['message']}; first wrong tensor: {first}"
    name = visible(runtime or (told and told["runtime"]) or folder)
    case = Case(facts["model"], name, "forward", facts["batches"][0], precision=facts["precision"])
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
            raise Changed(f"gives {len(given)} of {count} outputs: {missing[0].removeprefix('output/')} is missing")
        verdict = candidate.judged(given, reference, precision).as_dict()
    except Changed as changed:
        verdict = Verdict("FAIL", "wrong", None, None, len(given), None, str(changed)).as_dict()
    if verdict["status"] == "FAIL" and (why := next(_reasons(given, number, references), None)):
        verdict["message"] = f"{verdict['message']}; {why}"
    return verdict


def _reasons(given: Arrays, number: int, references: Sequence[Arrays]) -> Iterator[str]:
    """What makes wrong answers right, in words: they belong to another output or to another set, or are laid out in
    another way."""
    reference = references[number]
    for name, array in given.items():
        if _is_right(array, name, reference):
            continue
        for other in given:
            if other != name and _is_right(array, other, reference):
                yield f"{_own(name)} holds what is {_own(other)}: the outputs are in another order"
        for place, another in enumerate(references):
            if place != number and _is_right(array, name, another):
                yield f"{_own(name)} is right for the inputs of {set_name(place)}"
        yield from _layouts(array, name, reference)


def _layouts(array: np.ndarray, name: str, reference: Arrays) -> Iterator[str]:
    shape = reference[name].shape
    if array.size != math.prod(shape):
        return
    if array.shape != shape and _is_right(array.reshape(shape), name, reference):
        yield f"{_own(name)} is right in the shape {shape}"
    if array.dtype.itemsize > 1 and _is_right(array.byteswap(), name, reference):
        yield f"the bytes of {_own(name)} are in the other order (big-endian)"
    for order in itertools.permutations(range(len(shape))) if 1 < len(shape) <= AXES else ():
        stored = np.ascontiguousarray(array).reshape([shape[axis] for axis in order])
        turned = stored.transpose(np.argsort(order))
        if order != tuple(range(len(shape))) and _is_right(turned, name, reference):
            yield f"the axes of {_own(name)} are in another order: {order} of the graph's"


def _is_right(array: np.ndarray, name: str, reference: Arrays) -> bool:
    """Whether values could be the tensor's, whatever their type."""
    if array.shape != reference[name].shape or (array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16"):
        return False
    with np.errstate(invalid="ignore", over="ignore"):
        return off(array, name, reference) <= ALLOWED[narrow_of(reference)]


def _own(name: str) -> str:
    return visible(name.removeprefix("output/"))


def _first_wrong(question: Question, folder: Path, precision: str) -> str | None:
    """The first tensor inside the model that is wrong, among those that the answers have."""
    if TENSORS not in question.facts["references"]:
        return None
    reference = question.reference(TENSORS)
    sizes = {name.removeprefix("output/"): a.nbytes for name, a in reference.items() if name.startswith("output/")}
    if not (given := answers.every_tensor(question, folder, sizes)):
        return None
    absent = {f"output/{name}" for name in sizes} - given.keys()
    try:
        verdict = candidate.judged(given, {n: a for n, a in reference.items() if n not in absent}, precision)
    except Changed as changed:
        raise XBenchError(f"{folder / set_name(0) / TENSORS}.npz: {changed}") from changed
    return verdict.first_wrong and verdict.first_wrong.removeprefix("output/")


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
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
