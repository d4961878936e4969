"""The verdicts on a runtime's trainings with dropout, as JSON: `trained_with_draws.py RUNTIME ARTIFACT`. A process
of its own, because TensorFlow sets its number of threads once."""

import json
import sys

import numpy as np

from xbench.converters.artifact import Artifact
from xbench.parity import calls, candidate, draws
from xbench.runtimes import Options, load
from xbench.workers import batches


def main(name: str, folder: str) -> None:
    artifact = Artifact.read(folder)
    inputs = [candidate.sample(artifact, 32, seed) for seed in (0, 1)]
    runtime = load(name, artifact, Options("step", "cpu", 1))
    runtime.prepare(*inputs[0], dropout=True)
    says = []
    for seed in range(2):
        made = batches.training(artifact.info, [labels for _, labels in inputs], seed)
        steps = [(inputs[made[place][0]][0], made[place][1]) for place in batches.order(seed, 0, 8)]
        states = [(count, trained(runtime, steps[:count])) for count in (1, 2, 4, 8) * 3]
        says += [each.says for each in draws.judged(artifact, steps, states)]
    print(json.dumps(says))


def trained(runtime, steps):
    """The state of a runtime after some steps from the start."""
    runtime.reset()
    losses = []
    for arrays, labels in steps:
        result = runtime.step(runtime.put(arrays), runtime.put([labels])[0])
        runtime.wait(result)
        losses.append(calls.loss(runtime, result))
    tensors = candidate.trained(runtime, losses)
    return {name: np.array(value) for name, value in tensors.items()}  # JAX's arrays are read-only


if __name__ == "__main__":
    main(*sys.argv[1:])
