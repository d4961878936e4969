"""The architecture certificate: that a runtime holds the same parameters of the same graph, by name, shape and content.

Equal outputs do not prove it: a weight that no output depends on on these inputs, a parameter lost to folding, a layer
that is dead in the graph would all pass.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from xbench.converters.artifact import Artifact


def certify(artifact: Artifact, held: Mapping[str, np.ndarray] | None) -> dict[str, Any]:
    """What a runtime holds of a converted model; `held` are its parameters by ONNX name, in ONNX's layout.

    `equal` is None where the runtime does not tell what it holds.
    """
    parameters, different = [], []
    for name, array in artifact.each_parameter():
        parameters.append({"name": name, "shape": list(array.shape), "sha256": _digest(array)})
        if held is not None and not _same(held.get(name), array):
            different.append(name)
    return {
        "parameters": parameters,
        "parameter_count": artifact.info["parameter_count"],
        "equal": None if held is None else not different,
        "different": different,
        "macs": artifact.info["macs"],
        "operators": artifact.info["operators"],
        "dead_nodes": artifact.info["dead_nodes"],
    }


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def _same(held: np.ndarray | None, array: np.ndarray) -> bool:
    return held is not None and held.shape == array.shape and bool((held == array).all())
