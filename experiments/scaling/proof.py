"""The proof of several workers: their average is the gradient of the whole batch, and all have the same parameters.

They compute their shards of one batch, and each is judged on its results, against the float64 oracle of the
whole batch: all gradients by name, then two training steps and all weights and arrays of the optimizer after them.
With BatchNormalization every worker has the statistics of its own shard, and with a loss over pairs of samples the
pairs of its own shard, so no whole batch gives that: the reference is then the mean of the oracle's gradients of the
shards, its floors the mean of theirs, which no error of a mean of such errors can exceed; the steps are only compared
between the workers. All tolerances are those for one worker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xbench.case import STEPS, SYNTHETIC, digest
from xbench.converters.artifact import Artifact
from xbench.parity import verdict
from xbench.proof.prove import SEEDS
from xbench.workers.prepare import Exporter
from xbench.workers.worker_group import Group

Arrays = Mapping[str, np.ndarray]
WHOLE, SHARDS = "whole batch", "mean of shards"
GIVEN = ("input/", "labels")
DIFFER = "the workers' parameters differ bit by bit"


@dataclass(frozen=True)
class Reference:
    """Files that workers read, one each, whether they cut their shard out of it, and the expected arrays; None if there
    is no oracle of it."""

    paths: list[Path]
    cut: bool
    judged: Arrays | None


def kind_of(artifact: Artifact, exporter: Exporter, workers: int) -> str:
    """The kind of reference of N workers."""
    return SHARDS if workers > 1 and (artifact.info["statistics"] or exporter.coupled(artifact)) else WHOLE


def reference(artifact: Artifact, exporter: Exporter, mode: str, shard: int, workers: int, seed: int) -> Reference:
    """The oracle's results for `workers` workers with shards of `shard` samples.

    Raises:
        XBenchError: they cannot be computed.
    """
    if kind_of(artifact, exporter, workers) == WHOLE:
        path = exporter.reference(artifact, mode, shard * workers, seed, SYNTHETIC, STEPS)
        return Reference([path] * workers, True, verdict.read(path))
    seeds = [1000 * (seed + 1) + rank for rank in range(workers)]
    paths = [exporter.reference(artifact, mode, shard, each, SYNTHETIC, STEPS) for each in seeds]
    return Reference(paths, False, mean([verdict.read(path) for path in paths]) if mode == "gradient" else None)


def mean(parts: Sequence[Arrays]) -> dict[str, np.ndarray]:
    """The mean of references of shards of equal size, and of their floors."""
    names = [name for name in parts[0] if not name.startswith(GIVEN)]
    return {name: np.mean([part[name] for part in parts], axis=0) for name in names}


def prove(
    group: Group, one: Group | None, artifact: Artifact, exporter: Exporter, shard: int, timeout: float
) -> dict[str, Any]:
    """The verdict on a group: `status`, `message`, `parity` as in records, and `proof`, the comparison.
    `one` is a single worker, which gets the whole batch, too.

    Raises:
        WorkerFailure: a worker failed.
        XBenchError: there is no reference.
    """
    verdicts: list[tuple[int, dict[str, Any]]] = []
    proof: dict[str, Any] = {"reference": kind_of(artifact, exporter, group.count), "alike": True, "beside_one": None}
    for seed in SEEDS:
        for mode in ("gradient", "step"):
            given = reference(artifact, exporter, mode, shard, group.count, seed)
            results = _worked(group, given, mode, timeout)
            proof["alike"] = proof["alike"] and alike(results, artifact.parameters)
            if given.judged is not None:
                verdicts.append((seed, judged(results, given.judged)))
            if one and one is not group and given.judged is not None and given.cut:
                (alone,) = _worked(one, given, mode, timeout)
                proof["beside_one"] = max(proof["beside_one"] or 0.0, apart(results[0], alone, given.judged))
        if seed == SEEDS[1] and not _disagree(verdicts):
            break
    status, parity = _combined(verdicts)
    says = [parity["message"], None if proof["alike"] else DIFFER]
    return {"status": status, "message": "; ".join(filter(None, says)) or None, "parity": parity, "proof": proof}


def _worked(group: Group, given: Reference, mode: str, timeout: float) -> list[dict[str, np.ndarray]]:
    """The results of every worker of a group on a reference; a single one gets the whole batch."""
    paths = given.paths[: group.count]
    folder, name = group.log.parent, digest(str(group.log), mode)
    places = [folder / f"{name}-{rank}.npz" for rank in range(group.count)]
    arguments = [
        {"reference": str(path), "cut": given.cut, "mode": mode, "path": str(place)}
        for path, place in zip(paths, places, strict=True)
    ]
    group.each("work_together", timeout, arguments)
    results = [verdict.read(place) for place in places]
    for place in places:
        place.unlink()
    return with_mean_loss(results)


def with_mean_loss(results: list[dict[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    """The workers' tensors, with the mean of their losses for each: some engines report a shard's, some the mean."""
    losses = [name for name in results[0] if name.startswith("loss")]
    means = {name: np.mean([each[name] for each in results], axis=0) for name in losses}
    return [each | means for each in results]


def judged(results: Sequence[Arrays], expected: Arrays) -> dict[str, Any]:
    """The verdict on the worst of the workers."""
    verdicts = [verdict.judge(each, expected).as_dict() for each in results]
    return max(verdicts, key=_badness)


def alike(results: Sequence[Arrays], parameters: Sequence[str]) -> bool:
    """Whether all workers have the same gradients and parameters, bit by bit."""
    names = [f"{kind}/{name}" for name in parameters for kind in ("gradient", "weight")]
    return all(np.array_equal(each[n], results[0][n]) for each in results[1:] for n in names if n in results[0])


def apart(ours: Arrays, other: Arrays, expected: Arrays) -> float:
    """The difference in noise floors of the oracle, in the worst tensor."""
    names = [name for name in verdict.compared(expected) if name in ours and name in other]
    return max(verdict.floors_off(ours[name], other[name], expected[f"floor/{name}"]) for name in names)


def _badness(outcome: Mapping[str, Any]) -> tuple[bool, bool, float]:
    return outcome["status"] != "PASS", outcome["ratio"] is None, outcome["ratio"] or 0.0


def _disagree(verdicts: Sequence[tuple[int, Mapping[str, Any]]]) -> bool:
    """Whether one seed of two passed: a third then decides, as for one worker (`proof.prove`)."""
    failed = {seed for seed, each in verdicts if each["status"] != "PASS"}
    return len(failed) == 1 and all(each["ratio"] is not None for _, each in verdicts)


def _combined(verdicts: Sequence[tuple[int, dict[str, Any]]]) -> tuple[str, dict[str, Any]]:
    """The status, and the worst verdict with the ratios of all seeds; of three seeds one may be lost to a kink."""
    by_seed: dict[int, list[dict[str, Any]]] = {}
    for seed, each in verdicts:
        by_seed.setdefault(seed, []).append(each)
    worst = [max(each, key=_badness) for each in by_seed.values()]
    passed = [each for each in worst if each["status"] == "PASS"]
    counted = passed if len(worst) == 3 and len(passed) == 2 else worst
    chosen = max(counted, key=_badness)
    return str(chosen["status"]), chosen | {"seeds": [each["ratio"] for each in worst]}
