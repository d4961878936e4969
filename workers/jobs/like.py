"""Job of the exporter's worker that compares a quantised file with the network that it was made of."""

from pathlib import Path
from typing import Any

from xbench.converters.artifact import Artifact
from xbench.data.own import fixed_batch
from xbench.parity import candidate, verdict


def compare_like(
    artifact: str,
    original: str,
    order: list[int],
    outputs: list[int],
    batch: int,
    seed: int,
    names: list[str],
    inputs: str | None = None,
) -> dict[str, Any]:
    """Which node of an artifact loses what, compared with the original (`parity/like/compare.py`). `order` has the
    place among the artifact's inputs of each of the original's, `outputs` those of the outputs. `inputs` is a file of
    `input/0`, ... in the artifact's order; without it they are drawn for the original. `names` are those of the two in
    messages."""
    from xbench.parity.like import compare

    own, other = Artifact.read(artifact), Artifact.read(original)
    size = fixed_batch(own.info) or fixed_batch(other.info) or batch
    if inputs is None:
        given, _ = candidate.sample(other, size, seed)
    else:
        samples = candidate.inputs_of(verdict.read(Path(inputs)))
        given = [samples[place] for place in order]
    first, second = names
    report = compare.compared(own, other, given, order, outputs, (first, second))
    return {"batch": len(given[0]) if given[0].ndim else size, **report}


JOBS = (compare_like,)
