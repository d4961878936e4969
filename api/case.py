"""The cell that is measured, as plain frozen data, and the digest of plain data. Imports only the standard library."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

MODES = ("forward", "gradient", "step")
PLANES = ("resident", "host", "device")
DEVICES = ("cpu", "cuda")
AUTO = "auto"
LAYOUTS = ("nchw", "nhwc", AUTO)
PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "int8", "int4")
CALIBRATED = ("int8",)  # those in which the ranges of activations are found on samples
TUNES = ("off", "default", "max")
TUNE_BUDGET = 120.0  # seconds
SYNTHETIC = "synthetic"
GIVEN = "given"  # by the caller, who has the network in memory (workers/live.py)
OWN = "inputs:"  # begins the word of samples that a user brings (data/own); `#` and their digest end it once read
STEPS = 2  # momentum and bias correction show at the second


@dataclass(frozen=True)
class Case:
    """One cell of the table.

    `runtime` is the word the user typed, with its options (`tensorflow:xla`). `mode` is `forward`, `gradient` (forward,
    loss and all parameter gradients, no update) or `step` (gradient, optimizer update and new statistics). `plane` says
    where the clock starts and stops: `resident` (inputs already on the device, results complete on the device), `host`
    (NumPy arrays in, NumPy arrays out) or `device` (as resident, between two events of the device). `layout` is the
    order of an image's axes that the runtime computes in, or `auto`, the faster one of those it has; arrays go in and
    out in ONNX's, nchw, always. `threads` is the number of CPU threads every runtime is set to use. `precision` is
    what it may compute in, float32 or less by its own means. `tune` is the effort for speed: `off`, the runtime's
    `default`, or `max`, the fastest setting that the runtime has, searched for in `tune_budget` seconds (0 if there is
    no search). `steps` is how many training steps are compared in mode `step`: one is timed.
    """

    model: str
    runtime: str
    mode: str = "forward"
    batch: int = 1
    device: str = "cpu"
    threads: int = 1
    precision: str = "fp32"
    layout: str = "nchw"
    plane: str = "resident"
    data: str = SYNTHETIC
    steps: int = STEPS
    tune: str = "default"
    tune_budget: float = 0.0

    @property
    def own(self) -> str | None:
        """The word of the user's samples that it computes on; None if it has others."""
        word = self.data.removeprefix(OWN)
        return None if word == self.data else word.rpartition("#")[0]

    @property
    def group(self) -> tuple[Any, ...]:
        """Cells with the same group differ only in the runtime: these may be compared."""
        return tuple(value for name, value in vars(self).items() if name != "runtime")


def data_in_words(data: str) -> str:
    """A case's data as it is shown: of a user's samples without their digest."""
    return Case("", "", data=data).own or data


def digest(*parts: Any) -> str:
    """Sixteen hexadecimal digits that identify plain data by its content."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]
