"""Which node of a quantised file is to blame for what it loses, compared with the network that it was made of."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from xbench.converters.inputs.pairs import paired_inputs, paired_outputs
from xbench.errors import XBenchError
from xbench.workers.prepare import Exporter
from xbench.workers.worker import WorkerFailure

Report = dict[str, Any]


def compare(
    model: str,
    like: str,
    exporter: Exporter,
    batch: int,
    seed: int,
    say: Callable[[str], None],
    samples: Path | None = None,
) -> Report:
    """Compares two networks by their words. `samples` is a reference of the model, whose inputs are taken; without it
    they are drawn at random, `batch` of them.

    Raises:
        XBenchError: one cannot be read, they are the same or do not fit together, or the model is not quantised.
    """
    say(f"{model}: export to ONNX")
    own = exporter.artifact(model)
    say(f"{like}: export to ONNX")
    original = exporter.artifact(like)
    if own.digest == original.digest:
        raise XBenchError(f"{model} and {like} are the same network: nothing differs")
    order = paired_inputs(own.info, original.info, (model, like))
    outputs = paired_outputs(own.info, original.info, (model, like))
    say("float64: both networks, node by node, on the same inputs")
    where = {"artifact": str(own.folder), "original": str(original.folder), "order": order, "outputs": outputs}
    given = {"batch": batch, "seed": seed, "inputs": None if samples is None else str(samples)}
    try:
        report: Report = exporter.call("compare_like", **where, names=[model, like], **given)
    except WorkerFailure as failure:
        raise XBenchError(failure.message) from failure
    for artifact in (own, original) if report["named"] else ():
        if damage := exporter.renewed(artifact):
            raise XBenchError(f"{artifact.name} in the cache was damaged ({damage}) and was made again: start again")
    return {"model": model, "like": like, "drawn": samples is None, "seed": seed, **report}
