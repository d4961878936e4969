"""Are files that ONNX Runtime's tools have rewritten judged rightly?

    python tools/measure/rewritten.py [NETWORK ...] [--form F ...] [--folder FOLDER]

Each network of the zoo, and a random Llama, BERT and Whisper encoder, is exported and rewritten: by ONNX Runtime's
`basic`, `extended` and `all` optimisation, to fp16, to weights of bf16, to int8 (QDQ, QLinear and dynamic) and to int4
(MatMulNBits and QDQ). `xbench check` then judges every file on ONNX Runtime and OpenVINO. Files and results are in
FOLDER, where an ended run goes on; a form that changes nothing in a network is left out.
"""

import argparse
import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.quantization.shape_inference import quant_pre_process
from onnxruntime.transformers.float16 import convert_float_to_float16

from xbench import models
from xbench.converters import build
from xbench.converters.artifact import Artifact
from xbench.converters.source import parse
from xbench.parity import candidate

RUNTIMES = ("onnxruntime", "openvino")
QLINEAR = ["Conv", "MatMul", "Gemm", "Add", "Mul", "Concat", "MaxPool", "AveragePool", "GlobalAveragePool", "Sigmoid"]
LINEAR = {"MatMulConstBOnly": True}  # else the tool drops the scores of attention that a mask selects from
SAMPLES = 4  # batches that a calibration sees
TEXT = {
    "vocab_size": 120,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
WORDS = ("input_ids:int64:batch,12", "attention_mask:int64:batch,12")
OWN = {"llama": WORDS, "bert": WORDS, "whisper_encoder": ("input_features:float32:batch,16,40",)}


def llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**TEXT, num_key_value_heads=2))


def bert() -> Any:
    from transformers import BertConfig, BertForSequenceClassification

    return BertForSequenceClassification(BertConfig(**TEXT))


def whisper_encoder() -> Any:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    sizes = {"d_model": 64, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 128}
    return WhisperEncoder(WhisperConfig(**sizes, num_mel_bins=16, max_source_positions=20))


class Samples(CalibrationDataReader):  # type: ignore[misc]
    """Batches for a calibration, drawn as those that a check judges with."""

    def __init__(self, plain: Path, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        build.export_file(parse(str(plain)), plain, folder)
        artifact = Artifact.read(folder)
        names = [each["name"] for each in artifact.info["inputs"]]
        self.left = [
            dict(zip(names, candidate.sample(artifact, 2, seed)[0], strict=True)) for seed in range(100, 100 + SAMPLES)
        ]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.left.pop() if self.left else None


def optimised(level: str) -> Callable[[Path, Path], None]:
    def write(plain: Path, file: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level.upper()}")
        options.optimized_model_filepath = str(file)
        onnxruntime.InferenceSession(str(plain), options, providers=["CPUExecutionProvider"])

    return write


def fp16(plain: Path, file: Path) -> None:
    onnx.save(convert_float_to_float16(onnx.load(plain), keep_io_types=True), file)


def bf16_weights(plain: Path, file: Path) -> None:
    """Weights of bfloat16 that are cast where they are used."""
    model = onnx.load(plain)
    casts = []
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) > 1:
            name, values = tensor.name, numpy_helper.to_array(tensor)
            short = ((values.view(np.uint32) + 0x8000) >> 16).astype(np.uint16)
            tensor.CopyFrom(
                helper.make_tensor(f"{name}_bf16", onnx.TensorProto.BFLOAT16, tensor.dims, short.tobytes(), raw=True)
            )
            casts.append(helper.make_node("Cast", [tensor.name], [name], to=onnx.TensorProto.FLOAT))
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.save(model, file)


def ready(plain: Path) -> Path:
    """The file as the tools that quantise ask for it: weights are constants. The shapes that its first tool writes
    down contradict those that the next one finds."""
    file = plain.with_suffix(".ready")
    if not file.exists():
        quant_pre_process(plain, file, skip_symbolic_shape=True)
        model = onnx.load(file)
        model.graph.ClearField("value_info")
        onnx.save(model, file)
    return file


def static(form: QuantFormat) -> Callable[[Path, Path], None]:
    def write(plain: Path, file: Path) -> None:
        # Seven-bit weights: CPUs without VNNI saturate when adding two products of eight bits.
        kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "reduce_range": True}
        given = Samples(plain, file.with_suffix(".artifact"))
        which = None if form == QuantFormat.QDQ else QLINEAR
        quantize_static(
            ready(plain), file, given, quant_format=form, op_types_to_quantize=which, extra_options=LINEAR, **kinds
        )

    return write


def dynamic(plain: Path, file: Path) -> None:
    quantize_dynamic(ready(plain), file)


def int4(form: QuantFormat) -> Callable[[Path, Path], None]:
    def write(plain: Path, file: Path) -> None:
        quantizer = MatMulNBitsQuantizer(onnx.load(ready(plain)), block_size=32, is_symmetric=False, quant_format=form)
        quantizer.process()
        onnx.save(quantizer.model.model, file)

    return write


FORMS: dict[str, Callable[[Path, Path], None]] = {
    "basic": optimised("basic"),
    "extended": optimised("extended"),
    "all": optimised("all"),
    "fp16": fp16,
    "bf16": bf16_weights,
    "int8-qdq": static(QuantFormat.QDQ),
    "int8-qlinear": static(QuantFormat.QOperator),
    "int8-dynamic": dynamic,
    "int4-nbits": int4(QuantFormat.QOperator),
    "int4-qdq": int4(QuantFormat.QDQ),
}


def xbench(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", "from xbench.cli import main; main()", *words]
    return subprocess.run(command, capture_output=True, text=True)


def exported(network: str, folder: Path) -> Path:
    """The file of a network as `xbench convert` writes it."""
    file = folder / f"{network}.onnx"
    if not file.exists():
        given = [word for each in OWN.get(network, ()) for word in ("--input", each)]
        ranges = ["--range", "input_ids=0:120"] * (network in OWN and OWN[network] is WORDS)
        word = f"{Path(__file__)}:{network}" if network in OWN else network
        output = folder / "converted" / network
        done = xbench("convert", word, *given, *ranges, "--to", "onnxruntime", "--output", str(output))
        made = [*output.rglob("*.onnx")]
        if not made:
            raise SystemExit(done.stderr)
        made[0].rename(file)
    return file


def rewritten(network: str, form: str, folder: Path) -> Path | None:
    """The file of a network in a form, written once; None if the form is that of another."""
    plain, file = exported(network, folder), folder / f"{network}-{form}.onnx"
    if not file.exists():
        print(f"{network} {form}", file=sys.stderr, flush=True)
        with contextlib.redirect_stdout(sys.stderr):
            FORMS[form](plain, file)
    nodes = [sorted((node.domain, node.op_type) for node in onnx.load(each).graph.node) for each in (plain, file)]
    return None if form in ("int4-nbits", "int4-qdq", "int8-dynamic") and nodes[0] == nodes[1] else file


def check(files: Sequence[Path], folder: Path) -> list[dict[str, Any]]:
    words = [word for each in RUNTIMES for word in ("--runtime", each)]
    batch = ["--shape", "batch=batch"]
    done = xbench("check", *map(str, files), *words, *batch, "--mode", "forward", "--out", str(folder), "--json")
    if not done.stdout:
        raise SystemExit(done.stderr)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", nargs="*", default=[*OWN, *models.MODELS])
    parser.add_argument("--form", action="append", choices=FORMS)
    parser.add_argument("--folder", type=Path, default=Path("rewritten"))
    known = parser.parse_args()
    known.folder.mkdir(exist_ok=True)
    bad = 0
    for network in known.network:
        made = {form: rewritten(network, form, known.folder) for form in known.form or FORMS}
        for row in check([file for file in made.values() if file], known.folder / "results"):
            print(
                f"{Path(row['model']).stem:32} {row['runtime']:12} {row['status']:12} {row['message'] or ''}",
                flush=True,
            )
            bad += row["status"] not in ("PASS", "UNSUPPORTED")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
