"""ONNX's reference evaluator as a runtime of xbench: a whole adapter, in a distribution of its own.

    pip install ./examples/xbench-onnx-reference
    xbench plugin test onnx_reference
    xbench time lenet --runtime onnx_reference --mode forward

It cannot train, so it has no `gradients` and no `step`: `autodiff` of its row stays None.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx.reference import ReferenceEvaluator

from xbench.converters.artifact import Artifact
from xbench.runtimes import Options, Row, Runtime, Unavailable

ROW = Row(
    entry="xbench_onnx_reference:Reference",
    packages=("onnx",),  # the first that is installed tells the version
    extra="onnx",  # what `pip install 'xbench[...]'` would be told where it is missing
    note="NumPy",  # shown beside its name
)


class Reference(Runtime):
    def __init__(self, artifact: Artifact, options: Options) -> None:
        if options.device != "cpu":
            raise Unavailable("onnx_reference has no CUDA device")
        self.names = [item["name"] for item in artifact.info["inputs"]]
        self.evaluator = ReferenceEvaluator(str(artifact.onnx))  # NumPy takes its threads from the environment

    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        return False  # nothing is compiled

    def put(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        return tuple(arrays)  # the host is the device

    def forward(self, *inputs: Any) -> Any:
        return self.evaluator.run(None, dict(zip(self.names, inputs, strict=True)))

    def wait(self, result: Any) -> None:
        pass  # `run` returns when the outputs are complete

    def get(self, outputs: Any) -> list[np.ndarray]:
        return list(outputs)

    def placed(self) -> dict[str, int]:
        return {"cpu": len(self.evaluator.rt_nodes_)}
