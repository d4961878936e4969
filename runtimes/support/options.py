"""What a runtime is requested to do with a model (`runtimes/__init__.py`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Options:
    """Settings of a run: `mode` forward, gradient or step; `device` cpu or cuda; `extra` is what followed the colon of
    the runtime's name (`tensorflow:xla` gives {"xla": "1"}); `layout` is one of the row's, `precision` fp32 or one of
    the row's lower ones. `calibration` are batches of inputs, by their names, to find the ranges of activations with;
    without them those of `prepare` serve."""

    mode: str = "forward"
    device: str = "cpu"
    threads: int = 1
    extra: Mapping[str, str] = field(default_factory=dict)
    layout: str = "nchw"
    precision: str = "fp32"
    calibration: Sequence[Mapping[str, np.ndarray]] = ()

    @property
    def trains(self) -> bool:
        return self.mode != "forward"
