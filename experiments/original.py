"""The network whose answers in float64 an evaluation compares with: that of the file itself, or with `--like` the one
that the file was made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xbench.case import Case
from xbench.converters.artifact import Artifact
from xbench.data.own import fixed_batch
from xbench.errors import XBenchError

if TYPE_CHECKING:
    from xbench.experiments.evaluate import Evaluate
    from xbench.experiments.experiment import Lab


@dataclass(frozen=True)
class Reference:
    """A network, the place among the file's inputs of each of its inputs, and the places of its outputs that count."""

    artifact: Artifact
    inputs: Sequence[int]
    outputs: Sequence[int]


def reference_of(settings: "Evaluate", case: Case, artifact: Artifact, lab: "Lab", size: int) -> Reference:
    """`size` is the number of samples of a batch.

    Raises:
        XBenchError: there is no such output; the original cannot be read, is the same file, or takes other inputs.
    """
    from xbench.converters.inputs.pairs import paired_inputs, paired_outputs  # it reads graphs

    places = places_of(artifact, settings)
    if settings.like is None:
        return Reference(artifact, [*range(len(artifact.info["inputs"]))], places)
    original, names = lab.exporter.artifact(settings.like), (case.model, settings.like)
    if original.digest == artifact.digest:
        raise XBenchError(f"--like {settings.like} is the same network as {case.model}: nothing differs")
    inputs = paired_inputs(artifact.info, original.info, names)
    pairs = paired_outputs(artifact.info, original.info, names)
    fixed = fixed_batch(original.info)
    if fixed not in (None, size):
        words = f"takes {fixed} samples at once, and {case.model} {size}"
        raise XBenchError(f"--like {settings.like} {words}: --batch {fixed}")
    return Reference(original, inputs, [pairs.index(place) for place in places])


def places_of(artifact: Artifact, settings: "Evaluate") -> list[int]:
    """The outputs that are compared: the named one, for post-processing all, else the first.

    Raises:
        XBenchError: there is no output of that name.
    """
    outputs: list[str] = artifact.info["outputs"]
    if settings.output is None:
        return [*range(len(outputs))] if settings.post else [0]
    if settings.output not in outputs:
        raise XBenchError(f"--output {settings.output}: the outputs are {', '.join(outputs)}")
    return [outputs.index(settings.output)]
