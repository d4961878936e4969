"""The architecture certificate: a runtime has the same parameters of the same graph, by name, shape and content.

Equal outputs do not prove it: a weight that no output depends on for these inputs, a parameter lost to folding, and a
dead layer would all pass.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from xbench.converters.artifact import Artifact
from xbench.parity.element_types import NARROWER


def certify(artifact: Artifact, held: Mapping[str, Any] | None, given: bool = False) -> dict[str, Any]:
    """The certificate of a runtime for a converted model; `held` are its parameters by ONNX name, in ONNX's layout. Of
    a file that was `given` unchanged only those in the file are compared: others are computed from its constants.

    `equal` is None if the runtime does not report its parameters.
    """
    parameters, different = [], []
    names = artifact.info["initializers"] if given else artifact.parameters
    for name, array in artifact.each_parameter():
        parameters.append({"name": name, "shape": list(array.shape), "sha256": _digest(array)})
        if held is not None and name in names and not _same(held.get(name), array):
            different.append(name)
    return {
        "parameters": parameters,
        "parameter_count": artifact.info["parameter_count"],
        "equal": None if held is None else not different,
        "different": different,
        "macs": artifact.info["macs"],
        "operators": artifact.info["operators"],
        "dead_nodes": artifact.info["dead_nodes"],
        "unused": [*artifact.info["unused"]],
    }


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def _same(value: Any, array: np.ndarray) -> bool:
    """Whether a value equals an array: in its type, or in the narrower one of a runtime that lacks it."""
    name = array.dtype.name
    if not isinstance(value, np.ndarray | np.generic) or value.dtype.name not in (name, NARROWER.get(name)):
        return False
    value = np.asarray(value)  # a subclass may compare equal to anything: take the plain array
    return value.shape == array.shape and bool((value == array).all())
