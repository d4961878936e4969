"""ONNX Runtime: its CPU or CUDA provider, all graph optimisations, intra-op threads as told."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime

from xbench.converters.artifact import Artifact
from xbench.runtimes import Options, Runtime, Unavailable


class OnnxRuntime(Runtime):
    def __init__(self, artifact: Artifact, options: Options) -> None:
        self.path, self.options = str(artifact.onnx), options
        self.outputs: list[str] = artifact.info["outputs"]
        self.names = [item["name"] for item in artifact.info["inputs"]]
        self.providers: list[Any] = ["CPUExecutionProvider"]
        if options.device == "cuda":
            if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
                raise Unavailable("this onnxruntime has no CUDA provider: pip install 'xbench[onnxruntime-gpu]'")
            self.providers = [("CUDAExecutionProvider", {"use_tf32": "0"})]  # its default is TF32

    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = self.options.threads
        settings.inter_op_num_threads = 1
        settings.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(self.path, settings, providers=self.providers)
        if self.options.device == "cuda" and self.session.get_providers()[0] != "CUDAExecutionProvider":
            raise Unavailable("requested CUDA, got CPU: ONNX Runtime could not start its CUDA provider")
        return True

    def put(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        if self.options.device == "cpu":
            return tuple(np.ascontiguousarray(array) for array in arrays)
        return tuple(onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda", 0) for array in arrays)

    def forward(self, *inputs: Any) -> Any:
        feed = dict(zip(self.names, inputs, strict=True))
        if self.options.device == "cpu":
            return self.session.run(self.outputs, feed)
        binding = self.session.io_binding()
        for name, value in feed.items():
            binding.bind_ortvalue_input(name, value)
        for name in self.outputs:
            binding.bind_output(name, "cuda")
        self.session.run_with_iobinding(binding)
        return binding

    def wait(self, result: Any) -> None:
        if self.options.device == "cuda":
            result.synchronize_outputs()

    def get(self, outputs: Any) -> list[np.ndarray]:
        return outputs if self.options.device == "cpu" else outputs.copy_outputs_to_cpu()
