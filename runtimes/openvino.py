"""OpenVINO on the CPU, in float32 (its default on CPUs with bfloat16 is bfloat16), tuned for latency."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino

from xbench.converters.artifact import Artifact
from xbench.runtimes import Options, Runtime, Unavailable


class OpenVino(Runtime):
    def __init__(self, artifact: Artifact, options: Options) -> None:
        if options.device != "cpu":
            raise Unavailable("openvino has no CUDA device")
        self.core, self.threads = openvino.Core(), options.threads
        self.model = self.core.read_model(artifact.onnx)
        self.names = [item["name"] for item in artifact.info["inputs"]]

    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        model = self.model.clone()  # the weights are not copied
        model.reshape({name: list(array.shape) for name, array in zip(self.names, inputs, strict=True)})
        settings = {
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": self.threads,
        }
        self.request = self.core.compile_model(model, "CPU", settings).create_infer_request()
        return True

    def put(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        return tuple(openvino.Tensor(np.ascontiguousarray(array), shared_memory=True) for array in arrays)

    def forward(self, *inputs: Any) -> Any:
        for name, tensor in zip(self.names, inputs, strict=True):
            self.request.set_tensor(name, tensor)
        self.request.infer()
        return self.request.output_tensors

    def wait(self, result: Any) -> None:
        pass  # infer() returns when the outputs are computed

    def get(self, outputs: Any) -> list[np.ndarray]:
        return [tensor.data.copy() for tensor in outputs]

    def held(self) -> dict[str, np.ndarray]:
        constants = [node for node in self.model.get_ops() if node.get_type_name() == "Constant"]
        return {node.get_friendly_name(): node.get_data() for node in constants}

    def save(self, folder: Path, name: str) -> tuple[str, ...]:
        """OpenVINO's intermediate representation, in float32 and for any batch."""
        openvino.save_model(self.model, str(folder / f"{name}.xml"), compress_to_fp16=False)
        return f"{name}.xml", f"{name}.bin"
