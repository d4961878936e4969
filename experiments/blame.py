"""No runtime is blamed for a damaged cache.

A converted model in the cache is checked cheaply when it is read. Before anything but a PASS is stored the model is
checked completely: damaged files are made again, and the cell is measured again.
"""

from collections.abc import Callable, Collection, Iterable, Iterator

from xbench.converters import damage
from xbench.converters.artifact import Artifact
from xbench.errors import XBenchError
from xbench.store.record import Record
from xbench.workers.prepare import Exporter

GOOD = ("PASS", "CONVERTED")
TURNS = 3  # how often a cell is measured if its model is damaged each time


def sound(
    run: Callable[[Collection[str]], Iterable[Record]], artifact: Artifact, exporter: Exporter
) -> Iterator[Record]:
    """The records that `run` makes, each as soon as damage is ruled out as its cause. `run` gets the keys of the
    records that it need not make."""
    done, damages, reason = set[str](), dict[str, None](), ""
    for _ in range(TURNS):
        before, pending = damage.sealed(artifact), list[Record]()
        for record in run(done):
            if record["key"] in done:
                continue
            if record["status"] in GOOD or not damage.suspect(artifact, before):
                done.add(record["key"])
                yield _noted(record, damages)
            else:
                pending.append(record)
        if not pending:
            return
        try:
            damages[exporter.renewed(artifact) or "something was made again meanwhile"] = None
            reason = f"{artifact.folder} is damaged again and again: {'; '.join(damages)}"
        except XBenchError as error:
            reason = str(error)
            break
    yield from (
        record | {"status": "UNVERIFIED", "message": reason, "parity": None, "times": None} for record in pending
    )


def _noted(record: Record, damages: Iterable[str]) -> Record:
    """The record, with a remark if its cell was measured again."""
    if not damages:
        return record
    words = f"measured again, as its model in the cache was damaged: {'; '.join(damages)}"
    return record | {"message": "; ".join(filter(None, (record["message"], words)))}
