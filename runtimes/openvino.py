"""OpenVINO on the CPU, in float32 (its default on CPUs with bfloat16 is bfloat16), tuned for latency."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import openvino

from xbench.converters import UnsupportedOps
from xbench.converters.artifact import Artifact
from xbench.runtimes import Layer, Options, Runtime, Unavailable
from xbench.runtimes.support.graph import Arrays, Call, GraphTrainer
from xbench.runtimes.support.wide import wide

NARROW = ("int8", "int4")  # precisions with a model of their own, whose other numbers are float32
TYPES = {"fp32": "f32", "bf16": "bf16", "fp16": "f16", **dict.fromkeys(NARROW, "f32")}
# By default it quantises the activations of a product with int8 weights, and the cache of attention: errors of a
# hundredth, where float32 was requested.
AS_TOLD = {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 0, "KV_CACHE_PRECISION": "f32"}
PLACES = ("Exception from ", "Check '", "FrontEnd API failed", "Model wasn't fully converted")  # lines of its messages


def make(artifact: Artifact, options: Options) -> Runtime:
    if options.device != "cpu":
        raise Unavailable("openvino has no CUDA device")
    if options.trains and options.extra.get("shapes") == "open":
        raise Unavailable("openvino:shapes=open is for --mode forward: a graph of training has fixed shapes")
    return Training(artifact, options) if options.trains else Inference(artifact, options)


def _settings(options: Options) -> dict[str, Any]:
    return {
        "INFERENCE_PRECISION_HINT": TYPES[options.precision],
        "PERFORMANCE_HINT": options.extra.get("hint", "latency").upper(),
        "INFERENCE_NUM_THREADS": options.threads,
        "PERF_COUNT": "profile" in options.extra,
        **AS_TOLD,
    }


def _compiled(core: openvino.Core, model: openvino.Model, options: Options) -> openvino.CompiledModel:
    """
    Raises:
        Unavailable: it computes in another precision below float32 than it was told.
    """
    compiled = core.compile_model(model, "CPU", _settings(options))
    actual = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    if actual not in (TYPES[options.precision], TYPES["fp32"]):
        raise Unavailable(f"was told {options.precision}, and computes in {actual}")  # fp16, on a CPU with bf16 alone
    return compiled


def _placed(compiled: openvino.CompiledModel) -> dict[str, int]:
    """Nodes of the compiled graph by device."""
    devices = compiled.get_property("EXECUTION_DEVICES")
    return {" + ".join(devices).lower(): len(compiled.get_runtime_model().get_ops())}


def _array(constant: openvino.Node) -> np.ndarray:
    """The values of a constant. OpenVINO returns bfloat16 as float16 of the same bits."""
    array = constant.get_data()
    return array.view(ml_dtypes.bfloat16) if constant.get_element_type() == openvino.Type.bf16 else array


def _tensor(array: np.ndarray) -> openvino.Tensor:
    """A tensor in an array's memory; of bfloat16 in its own, where OpenVINO shows the bits as float16."""
    if array.dtype.name == "bfloat16":
        tensor = openvino.Tensor(openvino.Type.bf16, array.shape)
        tensor.data[...] = array.view(np.float16)
        return tensor
    return openvino.Tensor(array, shared_memory=True)


def _copy(tensor: openvino.Tensor) -> np.ndarray:
    copy = tensor.data.copy()
    return copy.view(ml_dtypes.bfloat16) if tensor.element_type == openvino.Type.bf16 else copy


def _read(core: openvino.Core, artifact: Artifact) -> openvino.Model:
    """The model by OpenVINO's own importer.

    Raises:
        UnsupportedOps: it has no rule for some operators, all of which it names, ONNX's own with the opset appended;
            or none for such a form of them.
    """
    try:
        return core.read_model(artifact.onnx)
    except RuntimeError as error:
        match = re.search(r"No conversion rule found for operations: (.+)", str(error))
        names = [re.sub(r"-\d+$", "", name.strip()) for name in match[1].split(",")] if match else _refused(str(error))
        if not names:
            raise RuntimeError(_reason(str(error))) from error
        raise UnsupportedOps({name: artifact.info["operators"].get(name, 1) for name in names}) from error


def _refused(message: str) -> list[str]:
    """The operators of other domains whose form it does not know. Those that read what such an operator computes fail,
    too, because its type is not known."""
    section = r"^-- (\S+\.\S+) with a message:\n(.*?)(?=^-- |\nSummary:)"
    sections = re.findall(section, message, re.DOTALL | re.MULTILINE)
    return sorted({name for name, why in sections if "dynamic" not in why})


def _reason(message: str) -> str:
    """The reason of OpenVINO's importer, without the leading places in its own source."""
    lines = [line.strip() for line in message.splitlines()]
    return " ".join(line for line in lines if line and not line.startswith(PLACES)) or message


def _places(model: openvino.Model, names: Sequence[str]) -> list[int]:
    """The positions of inputs among the model's, which are in the file's order. An input before a Dropout, which
    OpenVINO removes, has the name of the tensor after it."""
    known = {name: place for place, port in enumerate(model.inputs) for name in port.get_names()}
    if len(names) == len(model.inputs) and not all(name in known for name in names):
        return list(range(len(names)))
    return [known[name] for name in names]


class Inference(Runtime):
    def __init__(self, artifact: Artifact, options: Options) -> None:
        self.core, self.options, self.path = openvino.Core(), options, artifact.onnx
        self.model = _read(self.core, artifact)
        self.places = _places(self.model, [item["name"] for item in artifact.info["inputs"]])

        self.narrow: tuple[openvino.Model, openvino.Model] | None = None  # in less, and the one it was made of
        if options.precision not in NARROW and "wide" in options.extra:
            raise Unavailable("openvino:wide=... is for --precision int8 or int4")

    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        self.shapes = {place: list(array.shape) for place, array in zip(self.places, inputs, strict=True)}
        if self.options.precision in NARROW:
            self._quantise(inputs)
        self._compile(self.narrow[0] if self.narrow else self.model)
        return True

    def _compile(self, model: openvino.Model) -> None:
        model = model.clone()  # the weights are not copied
        if self.options.extra.get("shapes", "fixed") == "fixed":
            model.reshape(self.shapes)
        self.compiled = _compiled(self.core, model, self.options)
        self.request = self.compiled.create_infer_request()

    def _quantise(self, inputs: Sequence[np.ndarray]) -> None:
        """Of the model as its own converter simplifies it: of the file as it is, every step of a BatchNormalization
        would be rounded."""
        from xbench.runtimes.support.openvino_int8 import compressed, quantised  # it imports PyTorch, too

        batches = [[*each.values()] for each in self.options.calibration]
        if self.narrow and (batches or self.options.precision == "int4"):
            return
        plain, names = openvino.convert_model(self.path), wide(self.options.extra)
        if self.options.precision == "int4":
            self.narrow = compressed(plain, names), plain
        else:
            self.narrow = quantised(plain, self.places, batches or [[*inputs]], names), plain

    def widen(self, tensors: Sequence[str]) -> Sequence[str]:
        from xbench.runtimes.support.openvino_int8 import narrow_tensors, widened

        assert self.narrow
        self._compile(widened(*self.narrow, tensors))
        return narrow_tensors(*self.narrow)

    def put(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        return tuple(_tensor(np.asarray(array, order="C")) for array in arrays)

    def forward(self, *inputs: Any) -> Any:
        for place, tensor in zip(self.places, inputs, strict=True):  # by name takes longer
            self.request.set_input_tensor(place, tensor)
        self.request.infer(share_outputs=True)  # else it copies all outputs into new arrays
        return self.request  # `get` reads its outputs: to fetch them takes longer than a small network

    def wait(self, result: Any) -> None:
        pass  # infer() returns when the outputs are computed

    def get(self, outputs: Any) -> list[np.ndarray]:
        return [_copy(tensor) for tensor in outputs.output_tensors]

    def placed(self) -> dict[str, int]:
        return _placed(self.compiled)

    def layers(self, inputs: Sequence[Any], count: int) -> list[Layer]:
        layers: dict[str, Layer] = {}
        for _ in range(count):
            for each in self.forward(*inputs).profiling_info:
                layer = layers.setdefault(each.node_name, Layer(each.node_name, each.node_type, []))
                layer.seconds.append(each.real_time.total_seconds())
        return [layer for layer in layers.values() if any(layer.seconds)]

    def held(self) -> dict[str, np.ndarray]:
        constants = [node for node in self.model.get_ops() if node.get_type_name() == "Constant"]
        return {node.get_friendly_name(): _array(node) for node in constants}

    def save(self, folder: Path, name: str) -> tuple[str, ...]:
        """OpenVINO's intermediate representation, for any batch: in float32, or as it was quantised."""
        model = self.narrow[0] if self.narrow else self.model
        openvino.save_model(model, str(folder / f"{name}.xml"), compress_to_fp16=False)
        return f"{name}.xml", f"{name}.bin"


class Training(GraphTrainer):
    def compile(self, model: onnx.ModelProto) -> openvino.CompiledModel:
        core = openvino.Core()
        self.compiled = _compiled(core, core.read_model(model.SerializeToString()), self.options)
        return self.compiled

    def placed(self) -> dict[str, int]:
        return _placed(self.compiled)

    def put(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        return tuple(self.buffer(array) for array in arrays)

    def buffer(self, array: np.ndarray) -> Any:
        return openvino.Tensor(np.array(array, order="C"))

    def fill(self, buffer: Any, array: np.ndarray) -> None:
        buffer.data[...] = array

    def bind(self, compiled: openvino.CompiledModel, given: Arrays, made: Arrays) -> Call:
        request = compiled.create_infer_request()
        for name, tensor in (*given.items(), *made.items()):
            request.set_tensor(name, tensor)

        def call(inputs: Mapping[str, Any]) -> None:
            for name, tensor in inputs.items():
                request.set_tensor(name, tensor)
            request.infer(share_outputs=True)  # else it copies the weights; returns when the outputs are computed

        return call

    def wait(self, result: Any) -> None:
        pass

    def host(self, buffer: Any) -> np.ndarray:
        return buffer.data.copy()
