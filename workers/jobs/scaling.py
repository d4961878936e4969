"""Jobs of a worker that trains with others. All are called at once, because they meet in these jobs."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from xbench.converters.artifact import Artifact
from xbench.host.clock import now
from xbench.host.machine import versions
from xbench.parity import calls, candidate, element_types, verdict
from xbench.runtimes import Options, distributed, row_of

GIVEN = ("input/", "labels")  # of a reference: inputs of a step
POOL = 4  # batches in the pool of samples


@dataclass
class Member:
    """An engine, and the samples of its shard, the source of batches."""

    artifact: Artifact
    engine: distributed.Engine
    rank: int
    world: int
    inputs: list[np.ndarray] = field(default_factory=list)
    labels: np.ndarray = field(default_factory=lambda: np.zeros(0))
    batch: int = 0
    turn: int = 0
    loss: float = 0.0
    acts: dict[str, Callable[[], object]] = field(default_factory=dict)


MEMBER: list[Member] = []


def join_workers(artifact: str, runtime: str, device: str, threads: int) -> dict[str, Any]:
    """Loads the model in a connected engine."""
    model = Artifact.read(artifact)
    engine = distributed.load(runtime, model, Options("step", device, threads))
    MEMBER[:] = [Member(model, engine, *engine.place())]
    return {"versions": versions((*row_of(runtime).packages, "numpy"))}


def shard(reference: Mapping[str, np.ndarray], rank: int, world: int) -> dict[str, np.ndarray]:
    """A reference with the inputs and labels of one of `world` equal parts of its batch."""
    size = len(reference["labels"]) // world
    mine = slice(rank * size, (rank + 1) * size)
    return {name: array[mine] if name.startswith(GIVEN) else array for name, array in reference.items()}


def work_together(reference: str, cut: bool, mode: str, path: str) -> dict[str, Any]:
    """Computes a reference's tensors on this worker's shard of its batch, the gradients averaged over all workers, and
    writes them; if not `cut` the reference's batch is the shard. Returns the loss, which may be the shard's."""
    (own,) = MEMBER
    given = verdict.read(Path(reference))
    given = shard(given, own.rank, own.world) if cut else given
    own.engine.prepare(candidate.inputs_of(given), given["labels"], dropout=False)
    own.engine.apart(False)
    results = candidate.run(own.engine, own.artifact, mode, given)
    element_types.refuse_others(results, given)
    verdict.join(Path(path), results)
    return {"losses": [float(results[name][0]) for name in results if name.startswith("loss")]}


def take_shard(references: list[str], batch: int) -> dict[str, Any]:
    """Prepares iterations of `batch` samples, taken from those of the references in turn; dropout as in training.
    Returns the messages of a step."""
    (own,) = MEMBER
    own.inputs, own.labels = _pool([verdict.read(Path(path), GIVEN) for path in references], batch)
    own.batch, own.turn = batch, own.rank  # so that no two take the same: a missing average then shows
    own.engine.prepare(*_taken(own), dropout=own.artifact.has_dropout)
    own.acts = _acts(own)
    for kind in ("apart", "together") if own.world > 1 else ("apart",):
        for _ in range(3):  # DistributedDataParallel rebuilds its buckets after the first
            own.acts[kind]()
    if own.world > 1:
        own.acts |= {"reduction": own.engine.reduction(), "meet": own.engine.exchange(1)}
        own.acts["meet"]()
        own.acts["reduction"]()
    own.engine.reset()
    return {"messages": own.engine.messages(), "early": own.engine.early}


def _pool(given: list[dict[str, np.ndarray]], batch: int) -> tuple[list[np.ndarray], np.ndarray]:
    """The samples of references, as many as `POOL` batches, repeated if there are fewer."""
    inputs = [np.concatenate(parts) for parts in zip(*map(candidate.inputs_of, given))]
    labels = np.concatenate([each["labels"] for each in given])
    places = np.resize(np.arange(len(labels)), POOL * batch)
    return [array[places] for array in inputs], labels[places]


def _taken(own: Member) -> tuple[list[np.ndarray], np.ndarray]:
    """The next batch, copied from the host's arrays: as a loader with the data set in memory."""
    own.turn += 1
    places = (np.arange(own.batch) * POOL + own.turn) % (POOL * own.batch)
    return [array[places] for array in own.inputs], own.labels[places]


def _acts(own: Member) -> dict[str, Callable[[], object]]:
    """What can be timed, by name: complete iterations, and the parts of one (Study 2's phases)."""
    engine = own.engine
    inputs, labels = _taken(own)
    given, (target,) = engine.put(inputs), engine.put([labels])

    def full(apart: bool) -> Callable[[], None]:
        def iteration() -> None:
            arrays, labels = _taken(own)
            result = engine.step(engine.put(arrays), engine.put([labels])[0])
            engine.wait(result)
            own.loss = result[0]

        def act() -> None:
            engine.apart(apart)
            iteration()

        return act

    def put() -> None:
        engine.wait((engine.put(inputs), engine.put([labels])))

    def forward() -> None:
        engine.wait(engine.forward(*given))

    def gradient() -> None:
        engine.wait(engine.gradients(given, target))

    def step() -> None:
        engine.wait(engine.step(given, target))

    parts = {"io": lambda: _taken(own), "h2d": put, "forward": forward, "gradient": gradient, "step": step}
    return {"apart": full(True), "together": full(False), **(parts if own.world == 1 else {})}


def time_act(kind: str, count: int) -> dict[str, Any]:
    """Does it `count` times, from the initial weights; all workers meet before each. Returns when each began and ended,
    by the machine's clock, and a digest of the parameters after the last.

    Raises:
        verdict.Changed: the loss is not finite.
    """
    (own,) = MEMBER
    act, meet = own.acts[kind], own.acts.get("meet")
    own.engine.apart(kind != "together")
    own.engine.reset()
    act()  # warms the caches, which another kind has filled
    begins, ends = [], []
    for _ in range(count):
        if meet:
            meet()
        begins.append(now())
        act()
        ends.append(now())
    if kind in ("apart", "together") and not np.isfinite(calls.loss(own.engine, [own.loss])):
        raise verdict.Changed("the loss became infinite while it was timed")
    return {"begins": begins, "ends": ends, "digest": _digest(own) if kind == "together" else None}


def _digest(own: Member) -> str:
    weights, total = calls.weights(own.engine), hashlib.sha256()
    for name in own.artifact.parameters:
        total.update(np.ascontiguousarray(weights[name]).tobytes())
    return total.hexdigest()[:16]


def time_exchange(count: int, times: int) -> list[float]:
    """The seconds of averaging one array of `count` float32 numbers; all workers meet before each."""
    (own,) = MEMBER
    name, meet = f"exchange {count}", own.acts["meet"]
    if name not in own.acts:
        own.acts[name] = own.engine.exchange(count)
    act = own.acts[name]
    act()
    seconds = []
    for _ in range(times):
        meet()
        begin = now()
        act()
        seconds.append(now() - begin)
    return seconds


JOBS = (join_workers, work_together, take_shard, time_act, time_exchange)
