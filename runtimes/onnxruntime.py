"""ONNX Runtime: its CPU, CUDA or TensorRT provider, all graph optimisations, intra-op threads as requested."""

import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph, NotImplemented

from xbench.converters import UnsupportedOps
from xbench.converters.artifact import Artifact
from xbench.runtimes import Layer, Options, Runtime, Unavailable
from xbench.runtimes.support import onnx_copy, onnxruntime_values
from xbench.runtimes.support.graph import Arrays, Call, GraphTrainer, drop_unread_inputs
from xbench.runtimes.support.wide import wide

LEVELS = {
    "disable": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}

NARROW = ("fp16", "int8", "int4")  # precisions with a graph of their own
KERNEL = "_kernel_time"  # ends the name of an event of its profiler
# Its messages for an unknown operator: of another domain, of ONNX's, without a kernel.
LACKS = (
    r"Fatal error: ([\w.]+:\w+)\(-?\d+\) is not a registered",
    r"No Op registered for (\w+) with domain_version",
    r"Could not find an implementation for (\w+)\(",
)
PROVIDERS = {
    "cpu": {"cpu": "CPUExecutionProvider"},
    "cuda": {"cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider"},
}


def make(artifact: Artifact, options: Options) -> Runtime:
    return Training(artifact, options) if options.trains else Inference(artifact, options)


def _session(
    model: str | bytes, options: Options, sizes: Mapping[str, int] = MappingProxyType({})
) -> onnxruntime.InferenceSession:
    """A session on the requested device; `sizes` are those of named axes.

    Raises:
        Unavailable: there is none (ONNX Runtime itself would take the CPU instead), or no such level.
    """
    if (level := options.extra.get("level", "all")) not in LEVELS:
        raise Unavailable(f"onnxruntime:level={level}: its levels are {', '.join(LEVELS)}")
    providers = _providers(options)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.inter_op_num_threads = 1
    settings.graph_optimization_level = LEVELS[level]
    settings.log_severity_level = 3
    if "profile" in options.extra:
        settings.enable_profiling = True
        settings.profile_file_prefix = str(Path(tempfile.mkdtemp(prefix="xbench-profile-")) / "onnxruntime")
    settings.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")  # its default is int8
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for name, size in sizes.items():
        settings.add_free_dimension_override_by_name(name, size)
    session = onnxruntime.InferenceSession(model, settings, providers=providers)
    wanted, got = providers[0][0], session.get_providers()[0]
    if got != wanted:
        raise Unavailable(f"asked for {wanted}, got {got}: ONNX Runtime could not start it")
    return session


def _providers(options: Options) -> list[tuple[str, dict[str, str]]]:
    """The requested provider, and for TensorRT also the one for the nodes it leaves.

    Raises:
        Unavailable: this build has none, or it is none of the device's.
    """
    word = options.extra.get("provider", options.device)
    if word not in PROVIDERS[options.device]:
        known = ", ".join(PROVIDERS[options.device])
        raise Unavailable(f"onnxruntime:provider={word}: on {options.device} its providers are {known}")
    name = PROVIDERS[options.device][word]
    if name not in onnxruntime.get_available_providers():
        raise Unavailable(f"this onnxruntime has no {name}: pip install 'xbench[onnxruntime-gpu]'")
    # The default of CUDA's is TF32; TensorRT's obeys NVIDIA_TF32_OVERRIDE, which every worker has set.
    cuda = ("CUDAExecutionProvider", {"use_tf32": str(int(options.precision == "tf32"))})
    return [(name, {}), cuda] if word == "tensorrt" else [cuda if word == "cuda" else (name, {})]


def _placed(session: onnxruntime.InferenceSession) -> dict[str, int] | None:
    """Nodes by the device of their provider, before providers fuse any; None before 1.24, which lacks this."""
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return None
    devices = {"CPUExecutionProvider": "cpu", "CUDAExecutionProvider": "cuda", "TensorrtExecutionProvider": "cuda"}
    nodes = Counter[str]()
    for part in session.get_provider_graph_assignment_info():
        nodes[devices.get(part.ep_name, part.ep_name)] += len(part.get_nodes())
    return dict(nodes)


def _named_sizes(path: str, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The sizes of the axes that a file names instead of fixing them. An axis without a name stays open."""
    given = onnx.load(path, load_external_data=False).graph.input
    axes = [axis for each in given if each.name in shapes for axis in each.type.tensor_type.shape.dim]
    sizes = [size for each in given if each.name in shapes for size in shapes[each.name]]
    return {axis.dim_param: size for axis, size in zip(axes, sizes, strict=True) if axis.dim_param}


def _layers(events: list[dict[str, Any]], count: int) -> list[Layer]:
    """The times of kernels in the last `count` passes; the profiler has recorded all since the session began."""
    layers: dict[str, Layer] = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith(KERNEL):
            name = event["name"].removesuffix(KERNEL)
            layer = layers.setdefault(name, Layer(name, event["args"]["op_name"], []))
            layer.seconds.append(event["dur"] / 1e6)
    return [layer._replace(seconds=layer.seconds[-count:]) for layer in layers.values()]


class Inference(Runtime):
    def __init__(self, artifact: Artifact, options: Options) -> None:
        narrow = options.precision in NARROW
        self.path, self.options = str(artifact.inference if narrow else artifact.onnx), options
        self.outputs: list[str] = artifact.info["outputs"]
        self.operators: dict[str, int] = artifact.info["operators"]
        self.names = [item["name"] for item in artifact.info["inputs"]]
        self.sizes: dict[str, int] = {}
        self.has_bits = False  # of bfloat16, which NumPy lacks, in its outputs
        if not narrow and "wide" in options.extra:
            raise Unavailable("onnxruntime:wide=... is for --precision int8, int4 or fp16")

    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        shapes = {name: array.shape for name, array in zip(self.names, inputs, strict=True)}
        self.sizes = _named_sizes(self.path, shapes) if self.options.extra.get("shapes") == "fixed" else {}
        if self.options.precision in NARROW:
            self.folder = tempfile.TemporaryDirectory(prefix="xbench-narrow-")
            self.arrays = dict(zip(self.names, inputs, strict=True))
            self.widen(wide(self.options.extra))
        else:
            self.session = self._opened(self.options)
        types = [each.type for each in self.session.get_outputs()]
        self.has_bits = onnxruntime_values.BFLOAT16 in types and self.options.device == "cpu"
        return True

    def widen(self, tensors: Sequence[str]) -> Sequence[str]:
        from xbench.runtimes.support import onnxruntime_narrow as narrow  # its import takes as long as ONNX Runtime's

        how = (self.arrays, self.folder.name, self.options.calibration, tensors)
        self.narrow = narrow.narrowed(self.path, self.options.precision, *how)
        self.session = _session(self.narrow, self.options, self.sizes)
        return narrow.known(self.folder.name)

    def _opened(self, options: Options) -> onnxruntime.InferenceSession:
        """
        Raises:
            UnsupportedOps: it lacks an operator, or has none for these types.
        """
        try:
            return _session(self.path, options, self.sizes)
        except (Fail, InvalidGraph, NotImplemented) as error:
            names = [name for pattern in LACKS for name in re.findall(pattern, str(error))]
            if not names:
                raise
            name = names[0].replace(":", ".")  # the others are not named
            raise UnsupportedOps({name: self.operators.get(name, 1)}) from error

    def read(self) -> bool:
        self._opened(replace(self.options, extra={**self.options.extra, "level": "disable"}))
        return True

    def put(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        if self.options.device == "cpu":
            return tuple(onnxruntime_values.value(np.asarray(array, order="C"), self.has_bits) for array in arrays)
        return tuple(onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda", 0) for array in arrays)

    def forward(self, *inputs: Any) -> Any:
        feed = dict(zip(self.names, inputs, strict=True))
        if self.has_bits:
            return self.session.run_with_ort_values(self.outputs, feed)
        if self.options.device == "cpu":
            return self.session.run(self.outputs, feed)
        binding = self.session.io_binding()
        for name, value in feed.items():
            binding.bind_ortvalue_input(name, value)
        for name in self.outputs:
            binding.bind_output(name, "cuda")
        self.session.run_with_iobinding(binding)
        return binding

    def layers(self, inputs: Sequence[Any], count: int) -> list[Layer]:
        """By the profiler of the session, which this call ends."""
        for _ in range(count):
            self.wait(self.forward(*inputs))
        path = Path(self.session.end_profiling())
        events = json.loads(path.read_text())
        shutil.rmtree(path.parent)
        return _layers(events, count)

    def wait(self, result: Any) -> None:
        if self.options.device == "cuda":
            result.synchronize_outputs()

    def get(self, outputs: Any) -> list[np.ndarray]:
        if self.has_bits:
            return [onnxruntime_values.array(value) for value in outputs]
        return outputs if self.options.device == "cpu" else outputs.copy_outputs_to_cpu()

    def placed(self) -> dict[str, int] | None:
        return _placed(self.session)

    def held(self) -> Mapping[str, np.ndarray]:
        """The initializers of the session's file: a session does not return its own."""
        return Initializers(Path(self.path))

    def save(self, folder: Path, name: str) -> tuple[str, ...]:
        """The ONNX file, and weights that are too large for it in files next to it."""
        return onnx_copy.copy(self.narrow if self.options.precision in NARROW else self.path, folder, name)


class Training(GraphTrainer):
    def compile(self, model: onnx.ModelProto) -> onnxruntime.InferenceSession:
        drop_unread_inputs(model.graph)
        self.session = _session(model.SerializeToString(), self.options)
        return self.session

    def placed(self) -> dict[str, int] | None:
        return _placed(self.session)

    def put(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        return tuple(self.buffer(array) for array in arrays)

    def buffer(self, array: np.ndarray) -> Any:
        own = np.array(array, order="C")  # on a CPU the value uses this memory
        return onnxruntime.OrtValue.ortvalue_from_numpy(own, self.options.device, 0)

    def fill(self, buffer: Any, array: np.ndarray) -> None:
        buffer.update_inplace(np.asarray(array, order="C"))

    def bind(self, compiled: onnxruntime.InferenceSession, given: Arrays, made: Arrays) -> Call:
        binding, read = compiled.io_binding(), {each.name for each in compiled.get_inputs()}
        for name in read & given.keys():
            binding.bind_ortvalue_input(name, given[name])
        for name, value in made.items():
            binding.bind_ortvalue_output(name, value)

        def call(inputs: Mapping[str, Any]) -> None:
            for name in read & inputs.keys():
                binding.bind_ortvalue_input(name, inputs[name])
            compiled.run_with_iobinding(binding)  # returns when the outputs are complete

        return call

    def wait(self, result: Any) -> None:
        pass

    def host(self, buffer: Any) -> np.ndarray:
        return buffer.numpy().copy()  # on a CPU it is the buffer's own memory


class Initializers(Mapping[str, np.ndarray]):
    """The initializers of an ONNX file by name, each read on access."""

    def __init__(self, path: Path) -> None:
        self.folder, graph = str(path.parent), onnx.load(path, load_external_data=False).graph
        self.tensors = {tensor.name: tensor for tensor in graph.initializer}

    def __getitem__(self, name: str) -> np.ndarray:
        return numpy_helper.to_array(self.tensors[name], self.folder)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)
