"""A runtime that takes exactly a given time, to test the tool itself: `null:seconds=0.001`.

Its outputs come from ONNX's reference evaluator and are computed in `put`, outside the clock; `forward` only waits.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx.reference import ReferenceEvaluator

from xbench.converters.artifact import Artifact
from xbench.runtimes import Options, Runtime


class Null(Runtime):
    def __init__(self, artifact: Artifact, options: Options) -> None:
        self.seconds = float(options.extra.get("seconds", "0.001"))
        self.names = [item["name"] for item in artifact.info["inputs"]]
        self.evaluator = ReferenceEvaluator(str(artifact.inference))

    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        return True

    def put(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        return (self.evaluator.run(None, dict(zip(self.names, arrays, strict=True))),)

    def forward(self, *inputs: Any) -> Any:
        end = time.perf_counter() + self.seconds
        if self.seconds > 0.01:
            time.sleep(self.seconds - 0.005)
        while time.perf_counter() < end:
            pass
        return inputs[0]

    def wait(self, result: Any) -> None:
        pass

    def get(self, outputs: Any) -> list[np.ndarray]:
        return list(outputs)
