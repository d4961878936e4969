"""A timed block: steps, with checks ("looks") of their results at moments that no step can foresee.

Outputs and gradients are compared with the oracle at random steps, when the clock of the step has stopped. Of training
steps every loss is kept, and the caller may ask for the state that the last one left (`state`).
"""

import hashlib
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from xbench.host import health, machine, process_tree, usage
from xbench.host.clock import now
from xbench.host.stopwatch import Stopwatch
from xbench.parity import calls, candidate, verdict
from xbench.runtimes import Trainer
from xbench.workers import batches, pace, timing
from xbench.workers.cell import CELL, Cell, Training, step_of
from xbench.workers.jobs.cell import expected_of

LEAD = 4  # most steps of a block whose times do not count
SHARE = 0.05  # of a block's time, for looks
PLACES = 3  # the first steps that count, one of which has unseen inputs
CYCLE = 512  # steps until the order of inputs repeats
LARGE = 2**23  # bytes of float64 outputs: larger ones would show in the memory of the steps


@dataclass
class Looks:
    """The looks of one block: seconds of fetching a result, of all looks, and of all work between steps."""

    begin: float
    share: float = SHARE
    aside: float = 0.0
    fetch_s: list[float] = field(default_factory=list)
    warm: bool = False  # whether the steps count: as with their times, fetching after the first few does not
    spent: float = 0.0
    judged: int = 0


def block(
    seconds: float, limit: int, seed: int, segment: int = batches.SEGMENT, share: float = SHARE
) -> dict[str, Any]:
    """Runs a few steps that do not count, as the caches are cold, then at most `limit` timed ones, on batches that
    follow from the seed; then checks the last result. `segment` is the most training steps between two resets;
    `share` is how much of the time looks may take, 1.0 for one after every step.

    After a single lead step the first timed one is still slower than the others, most if a step takes some
    milliseconds. Half a block has no time for four long steps.
    """
    (cell,) = CELL
    begun, cpus = usage.begin(cell.device), machine.allowed()
    before = health.look(cpus, process_tree.cpu_seconds())
    looks = Looks(now(), share)
    with pace.watched(cell) as watched:
        if cell.mode == "step":
            result = _segments(cell, looks, seconds, limit, seed, segment)
        else:
            result = _repeated(cell, looks, seconds, limit, seed)
    after = health.look(cpus, process_tree.cpu_seconds())
    used = usage.end(begun, result["steps"])
    cell.usage.append(used)
    verify(cell, looks, random.Random(seed))
    result |= {"cpu_s": after.own - before.own, "wall_s": after.wall - before.wall}
    result |= {"fetch_s": looks.fetch_s, "judged": looks.judged}
    paced = pace.told(cell, watched, [*result["lead"], *result["samples"]])
    result |= {"pace": paced | {"unseen_s": paced["unseen_s"] + looks.aside}}
    return result | {"health": health.between(before, after, cpus) | {"gpu": used["gpu"]}}


def _repeated(cell: Cell, looks: Looks, seconds: float, limit: int, seed: int) -> dict[str, Any]:
    """Steps of forward or gradient: on the inputs of the proof, in turn, and once on other inputs."""
    draw = random.Random(seed)
    looking = (
        cell.mode == "forward" and sum(a.nbytes for n, a in cell.references[0].items() if n[:7] == "output/") < LARGE
    )
    first = draw.randrange(len(cell.steps))
    places: list[int | None] = [(first + number) % len(cell.steps) for number in range(CYCLE)]
    steps = [cell.steps[place or 0] for place in places]
    reference = cell.references[0]
    start = now()
    arrays = batches.unseen(cell.artifact, candidate.inputs_of(reference), reference["labels"], seed)
    given = {f"input/{i}": array for i, array in enumerate(arrays or ())} | {"labels": reference["labels"]}
    other = step_of(cell, given) if arrays else None
    looks.aside += now() - start

    def after(index: int) -> None:
        cell.index = places[index % CYCLE]
        start = now()
        if steps[(index + 1) % CYCLE] is other:  # a look lets threads fall asleep, and the next step wakes them
            return
        if looking and looks.spent <= looks.share * (now() - looks.begin) and draw.random() < max(0.5, looks.share):
            look(cell, looks)
        looks.aside += now() - start

    lead = timing.sample(steps, seconds / 2, LEAD, 0, after=after)
    looks.warm = True
    place = len(lead) + draw.randrange(PLACES)
    if other:
        steps[place], places[place] = other, None
    samples = timing.sample(steps, seconds, limit, len(lead), after=after)
    unseen = place - len(lead) if other and place < len(lead) + len(samples) else None
    if cell.index is None:  # the last step is always judged
        start = now()
        steps[0]()
        cell.index, looks.aside = places[0], looks.aside + now() - start
    return {"samples": samples, "lead": lead, "unseen": unseen, "steps": len(lead) + len(samples)}


def _segments(cell: Cell, looks: Looks, seconds: float, limit: int, seed: int, length: int) -> dict[str, Any]:
    """Training steps, at most `length` between two resets: so far float32 can be judged, and no weight drifts to
    infinity or to subnormal numbers of float32."""
    runtime = cell.runtime
    assert isinstance(runtime, Trainer)
    start = now()
    labels = [reference["labels"] for reference in cell.references]
    made = batches.training(cell.artifact.info, labels, seed)
    every = [step_of(cell, {**cell.references[i], "labels": new}, cell.given[i]) for i, new in made]
    result: dict[str, Any] = {"samples": [], "lead": [], "unseen": None, "steps": 0}
    segment, end = 0, now() + seconds
    while not result["samples"] or (len(result["samples"]) < limit and now() < end):
        cell.training = training = Training(seed, segment)
        steps = [every[place] for place in batches.order(seed, segment, length)]
        runtime.reset()
        looks.aside += now() - start

        def after(_: int, losses: list[float] = training.losses) -> None:
            watch = Stopwatch()
            losses.append(calls.loss(runtime, cell.last))
            looks.fetch_s += [watch.worked()] * looks.warm
            looks.aside += watch.seconds()

        lead = timing.sample(steps, seconds / 2, min(LEAD, length - 1), 0, after=after) if length > 1 else []
        looks.warm, most = True, min(limit - len(result["samples"]), len(steps) - len(lead))
        samples = timing.sample(steps, max(end - now(), 0.0), most, len(lead), after=after)
        looks.warm = False
        result["lead"] += lead
        result["samples"] += samples
        result["steps"] += len(lead) + len(samples)
        segment, start = segment + 1, now()
    return result


def look(cell: Cell, looks: Looks) -> None:
    """Compares the result of the last step with the oracle's, or bit by bit with an earlier correct one.

    Raises:
        verdict.Changed: it is wrong.
    """
    if cell.index is None or (cell.mode == "gradient" and cell.artifact.has_dropout):
        return
    watch = Stopwatch()
    fetched = _fetched(cell)
    looks.fetch_s += [watch.worked()] * looks.warm
    content = _content(fetched.values())
    if content != cell.known.get(cell.index):
        expected = cell.references[cell.index]
        if cell.mode == "gradient":
            expected = expected_of(cell.paths[cell.index])
        outcome = candidate.judged(fetched, expected, cell.precision)
        if outcome.status == "FAIL":
            raise verdict.Changed(f"while it was timed {outcome.message}")
        cell.known[cell.index] = content
    looks.judged += 1
    looks.spent += watch.seconds()


def _content(arrays: Iterable[np.ndarray]) -> str:
    total = hashlib.blake2b()
    for array in arrays:
        total.update(repr((array.dtype, array.shape)).encode())
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def _fetched(cell: Cell) -> dict[str, np.ndarray]:
    if cell.mode == "forward":
        return candidate.named(cell.artifact, calls.outputs(cell.runtime, cell.last))
    assert isinstance(cell.runtime, Trainer)
    loss, grads = calls.fetched(cell.runtime, cell.last)
    return {"loss": np.array([loss]), **{f"gradient/{name}": grad for name, grad in grads.items()}}


def verify(cell: Cell, looks: Looks | None = None, draw: random.Random | None = None) -> None:
    """Checks the last step's results: outputs always, gradients at random blocks while looks have taken little of the
    time, and that every loss is finite.

    Raises:
        verdict.Changed: it is wrong.
    """
    looks = looks or Looks(now())
    cell.stepped += now() - looks.begin
    if cell.mode == "forward":
        look(cell, looks)
        return
    if cell.mode == "gradient" and draw and cell.looked <= SHARE * cell.stepped and draw.random() < 0.5:
        look(cell, looks)
        cell.looked += looks.spent
    assert isinstance(cell.runtime, Trainer)
    losses = cell.training.losses if cell.training else [calls.loss(cell.runtime, cell.last)]
    if not np.isfinite(losses).all():
        raise verdict.Changed("the loss became infinite while it was timed")


def state(path: str, index: int | None = None) -> dict[str, Any]:
    """Writes the state after the last timed step: its loss and gradients, or the losses of its segment, weights,
    statistics and the optimizer's arrays. In mode gradient one more step is made, on the reference of the `index`; no
    runtime can distinguish it from a timed one. Returns the steps of the segment, and the time of fetching; `steps` is
    None if the worker has judged the result itself.
    """
    (cell,) = CELL
    assert isinstance(cell.runtime, Trainer)
    if index is not None:
        cell.steps[index]()
        cell.index = index
    watch = Stopwatch()
    if cell.mode == "gradient" and not cell.artifact.has_dropout:
        look(cell, Looks(now()))
        return {"steps": None}
    if cell.mode == "gradient":
        arrays = {name.replace("loss", "loss/1"): value for name, value in _fetched(cell).items()}
        facts: dict[str, Any] = {"steps": 1, "segment": 0}
    else:
        assert cell.training
        arrays = candidate.trained(cell.runtime, cell.training.losses)
        facts = {"steps": len(cell.training.losses), "segment": cell.training.segment}
    facts |= {"fetch_s": watch.worked(), "bytes": sum(a.nbytes for a in arrays.values())}
    verdict.join(Path(path), arrays)
    return facts | {"arrays": len(arrays), "index": index}


JOBS = (block, state)
