"""The part of `run.py` that repeats an evaluation: the samples are in the folder, and the metric is computed by NumPy
or scikit-learn, as in `metrics/`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

import numpy as np

from xbench.converters.printable import python
from xbench.parity import verdict
from xbench.parity.candidate import inputs_of
from xbench.store.experiments import Evaluation

FILE = "samples.npz"
EVALUATED = " samples; when it was evaluated "  # is in the line that it prints
LARGEST = 2**28  # bytes of samples that are copied
# What gives the metric of `scores` (samples, classes) and `labels` (samples), and what it imports.
VALUES = {
    "top1": ("np.mean(scores.argmax(axis=1) == labels)", ""),
    "top5": ('np.mean([y in np.argsort(-row, kind="stable")[:5] for row, y in zip(scores, labels)])', ""),
    "f1": ('f1_score(labels, scores.argmax(axis=1), average="macro", zero_division=0)', "f1_score"),
    "map": (
        'average_precision_score(np.eye(scores.shape[1])[labels], scores, average="macro")',
        "average_precision_score",
    ),
}
SCRIPT = """samples = dict(np.load(HERE / "samples.npz"))
labels, scores = samples.pop("labels"), []
for first in range(0, len(labels), $batch):
    rows = np.resize(np.arange(first, min(first + $batch, len(labels))), $batch)
    given = [array[rows] if batched else array for array, batched in zip(samples.values(), $batched)]
    scores.append(np.asarray(answer(given)[$output])[: len(labels) - first])
scores = np.concatenate(scores)
while scores.ndim > 2 and scores.shape[-1] == 1:
    scores = scores[..., 0]
value = float($value)
print($metric, f"{value:.6g} on {len(labels)} samples; when it was evaluated {$expected:.6g}")
off.append(abs(value - $expected))
ALLOWED += ($allowed,)  # as another processor may round"""


@dataclass(frozen=True)
class Repeated:
    """An evaluation that the folder repeats: files of its samples, whether each input has them, the output that
    counts, and the samples that the graph takes at once, None if they may be as many as the cell's."""

    found: Evaluation
    batches: Sequence[str]
    batched: Sequence[bool]
    output: int
    size: int | None = None


def why_not(repeated: Repeated) -> str | None:
    """Why an evaluation cannot be repeated without xbench; None if it can."""
    found = repeated.found
    if found["metric"] not in VALUES:
        return f"{found['metric']} is not computed in run.py, which has {', '.join(VALUES)}"
    if found["post"]:
        return "run.py has no post-processing"
    if not any(repeated.batched):
        return "run.py repeats none of a network that takes one sample at once"
    return None


def write(repeated: Repeated, folder: Path) -> str | None:
    """Writes the samples into the folder; returns why that cannot be done, None if it was."""
    arrays: dict[str, list[np.ndarray]] = {}
    total = 0
    for path in repeated.batches:
        given = verdict.read(Path(path))
        for place, array in enumerate(inputs_of(given)):
            arrays.setdefault(f"input/{place}", []).append(array)
        arrays.setdefault("labels", []).append(given["labels"])
        total += sum(array.nbytes for array in inputs_of(given))
        if total > LARGEST:
            return f"the samples are more than {LARGEST >> 20} MiB"
    if any(len({each.shape[1:] for each in made}) > 1 for made in arrays.values()) or arrays["labels"][0].ndim != 1:
        return "run.py takes samples of one shape with one label each"
    flags = dict(zip(arrays, (*repeated.batched, True), strict=True))
    joined = {name: np.concatenate(made) if flags[name] else made[0] for name, made in arrays.items()}
    np.savez(folder / FILE, **joined)  # type: ignore[arg-type]  # NumPy's own option has no such name
    return None


def lines(repeated: Repeated, batch: int) -> str:
    """The lines of the script, in which `answer(inputs)` gives the outputs."""
    value, imported = VALUES[repeated.found["metric"]]
    fields: Mapping[str, str] = {
        "batch": python(repeated.size or batch),
        "batched": python(tuple(repeated.batched)),
        "output": python(repeated.output),
        "value": value,
        "metric": python(repeated.found["metric"]),
        "expected": python(float(repeated.found["value"] or 0.0)),
        "allowed": "1.5 / len(labels)" if repeated.found["metric"] in ("top1", "top5") else "0.01",
    }
    head = f"from sklearn.metrics import {imported}\n" if imported else ""
    return head + Template(SCRIPT).substitute(fields)


def has_other_digits(line: str) -> bool:
    """Whether a line of the script has another metric than that of the evaluation."""
    own, told, evaluated = line.partition(EVALUATED)
    return bool(told) and own.split()[1:2] != evaluated.split()[:1]


def packages(repeated: Repeated) -> tuple[str, ...]:
    """What the lines need installed."""
    return ("scikit-learn",) if VALUES[repeated.found["metric"]][1] else ()
