"""An OpenVINO model in int8, by the tool of its makers, NNCF: weights and activations are quantised after training."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import openvino

from xbench.runtimes import Unavailable

os.environ["NNCF_CI"] = "1"  # or it reports its use over the network


def quantised(model: openvino.Model, places: Sequence[int], batches: Sequence[Sequence[np.ndarray]]) -> openvino.Model:
    """The model with the ranges of activations as they are on the batches; each has an array for every one of `places`
    among the model's inputs.

    Raises:
        Unavailable: NNCF is not installed.
    """
    try:
        import nncf
    except ImportError as error:
        raise Unavailable("openvino needs NNCF for int8: pip install 'xbench[int8]'") from error
    given = [dict(zip(places, batch, strict=True)) for batch in batches]
    made: Any = nncf.quantize(model, nncf.Dataset(given), subset_size=len(given))
    assert isinstance(made, openvino.Model)
    return made
