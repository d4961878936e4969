"""TVM (Relax) by its own ONNX importer, compiled for this machine's CPU or GPU; untuned, and labelled so."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm
from onnx_ir import serde
from onnx_ir.passes.common import LiftConstantsToInitializersPass
from onnxscript.optimizer import fold_constants
from tvm import relax
from tvm.relax.frontend import detach_params
from tvm.relax.frontend.onnx import from_onnx
from tvm.relax.frontend.onnx.onnx_frontend import _get_convert_map

from xbench.converters import UnsupportedOps
from xbench.converters.artifact import Artifact
from xbench.runtimes import Options, Runtime, Unavailable


class Tvm(Runtime):
    def __init__(self, artifact: Artifact, options: Options) -> None:
        os.environ["TVM_NUM_THREADS"] = str(options.threads)
        if options.device == "cuda" and not tvm.cuda().exist:
            raise Unavailable("this tvm sees no CUDA device")
        self.device = tvm.cuda() if options.device == "cuda" else tvm.cpu()
        known = _get_convert_map()
        counts = artifact.info["operators"]
        if missing := {name: n for name, n in counts.items() if name not in known and name != "Dropout"}:
            raise UnsupportedOps(missing)
        self.model = onnx.load(artifact.onnx)
        self.names = [item["name"] for item in artifact.info["inputs"]]

    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        module = from_onnx(_fixed(self.model, inputs), keep_params_in_input=True)
        module = relax.transform.DecomposeOpsForInference()(module)
        names = [variable.name for variable in module["main"].params][len(self.names) :]
        module, params = detach_params(module)
        self.library = tvm.compile(module, target=self._target())
        self.vm = relax.VirtualMachine(self.library, self.device)
        self.params = [tvm.runtime.tensor(p.numpy(), self.device) for p in params["main"]]
        self.params_by_name = dict(zip(names, self.params, strict=True))
        self.main = self.vm["main"]
        return True

    def _target(self) -> Any:
        return tvm.target.Target.from_device(self.device) if self.device.dlpack_device_type() == 2 else "llvm"

    def put(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        return tuple(tvm.runtime.tensor(array, self.device) for array in arrays)

    def forward(self, *inputs: Any) -> Any:
        return self.main(*inputs, *self.params)

    def wait(self, result: Any) -> None:
        self.device.sync()

    def get(self, outputs: Any) -> list[np.ndarray]:
        single = isinstance(outputs, tvm.runtime.Tensor)
        return [value.numpy() for value in ([outputs] if single else outputs)]

    def held(self) -> dict[str, np.ndarray]:
        return {name: value.numpy() for name, value in self.params_by_name.items()}

    def save(self, folder: Path, name: str) -> tuple[str, ...]:
        """A library whose `main` takes the inputs and then the parameters `p0`, `p1`, ... of the `.params` file."""
        self.library.export_library(str(folder / f"{name}.so"))
        params = {f"p{i}": value for i, value in enumerate(self.params)}
        tvm.runtime.save_param_dict_to_file(params, str(folder / f"{name}.params"))
        return f"{name}.so", f"{name}.params"


def _fixed(model: onnx.ModelProto, inputs: Sequence[np.ndarray]) -> onnx.ModelProto:
    """The model with the shapes of these inputs, shape arithmetic folded: the importer wants constants there."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    given = {value.name for value in fixed.graph.initializer}
    for value, array in zip((v for v in fixed.graph.input if v.name not in given), inputs, strict=True):
        for axis, size in enumerate(array.shape):
            value.type.tensor_type.shape.dim[axis].dim_value = size
    del fixed.graph.value_info[:]
    result = serde.deserialize_model(fixed)
    fold_constants(result, onnx_shape_inference=True)
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(result)  # it knows no Constant(value_ints)
    return serde.serialize_model(result)
