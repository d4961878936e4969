"""How far training steps can be judged: the share of a tensor's change that float32 loses, step by step.

    python tools/measure/float32_reach.py NETWORK ... [--steps 32]

Float64 and float32 PyTorch (the batch reversed, without oneDNN) make the same steps on the batches of a timed block
(`workers/batches.py`). Printed for the median and the worst tensor of those that float32 can judge at all: the gradient
of a bias before a norm is only rounding. `parity/trajectory.py` is based on these numbers.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

import torch

from xbench.converters.artifact import Artifact
from xbench.experiments.choose import batch_of
from xbench.parity import candidate
from xbench.parity.trajectory import BLIND, Training, _floors, is_batched
from xbench.workers import batches
from xbench.workers.prepare import Exporter


def measured(artifact: Artifact, batch: int, steps: int) -> None:
    given = [candidate.sample(artifact, batch, seed) for seed in (0, 1)]
    made = batches.training(artifact.info, [labels for _, labels in given], 0)
    start = {name: value.double().clone() for name, value in Training(artifact, torch.float32).state("step").items()}
    best = Training(artifact, torch.float64)
    other = Training(artifact, torch.float32, flip=is_batched(artifact.info), onednn=False)
    for count, place in enumerate(batches.order(0, 0, steps), 1):
        index, labels = made[place]
        for each in (best, other):
            each.step((given[index][0], labels))
        if not count & (count - 1):
            shares = [floor / change for _, change, floor in _floors(best, [(other, 1.0)], start).values() if change]
            seen = [share for share in shares if share <= BLIND]
            words = f"median {statistics.median(seen):8.1e}  worst {max(seen):8.1e}" if seen else "none"
            print(f"  {count:3} steps: {len(seen):4} of {len(shares):4} tensors judged, {words}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("network", nargs="+")
    parser.add_argument("--steps", type=int, default=32)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        exporter = Exporter(Path(folder))
        for word in options.network:
            artifact, batch = exporter.artifact(word), batch_of(word, 1)
            exporter.close()
            print(f"{word}, batch {batch}: the share of a tensor's change that float32 loses")
            measured(artifact, batch, options.steps)


if __name__ == "__main__":
    main()
