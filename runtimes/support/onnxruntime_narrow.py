"""An ONNX file in float16 or int8, made by the tools that ONNX Runtime ships for it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnxruntime import quantization
from onnxruntime.transformers.float16 import convert_float_to_float16


def narrowed(
    path: str,
    precision: str,
    inputs: Mapping[str, np.ndarray],
    folder: str,
    calibration: Sequence[Mapping[str, np.ndarray]] = (),
) -> str:
    """Writes the file in `folder`, and returns its path. Inputs and outputs stay float32.

    In int8 weights and activations are quantised ahead (`QDQ`, per channel), with ranges as they are on the batches of
    `calibration`, else on `inputs`: the activations to unsigned bytes, the weights to seven bits. A CPU without VNNI
    adds two products in 16 bits, which weights of eight bits overflow: LeNet's output was off by 0.64 of its size.
    """
    target = str(Path(folder) / "model.onnx")
    if precision == "fp16":
        model = convert_float_to_float16(onnx.load(path), keep_io_types=True)
        onnx.save(model, target, save_as_external_data=True, location="weights")
        return target
    ready = str(Path(folder) / "ready.onnx")
    quantization.quant_pre_process(path, ready, skip_symbolic_shape=True)
    unsigned = quantization.QuantType.QUInt8
    batches = _Batches(calibration or [inputs])
    quantization.quantize_static(ready, target, batches, per_channel=True, activation_type=unsigned, reduce_range=True)
    return target


class _Batches(quantization.CalibrationDataReader):  # type: ignore[misc]
    """Batches for calibration, once."""

    def __init__(self, batches: Sequence[Mapping[str, np.ndarray]]) -> None:
        self.batches = iter([dict(each) for each in batches])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.batches, None)
