"""GPU code paths, as far as they can be tested without a GPU."""

from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from xbench.converters.artifact import PARTS
from xbench.runtimes.support import tvm_cuda
from xbench.runtimes.support.graph import fixed
from xbench.runtimes.tvm import _folded
from xbench.workers.jobs.audit import TRANSFERS, _transfers

LIMITS = {"max_num_threads": 1024, "max_threads_per_block": 1024, "max_shared_memory_per_block": 49152}
H100 = {"kind": "cuda", "arch": "sm_90", "thread_warp_size": 32, **LIMITS}


class OnDevice:
    """A runtime whose arrays are on a device, or which accepts only its own results."""

    def __init__(self, get):
        self.get, self.given = get, []

    def put(self, arrays):
        self.given += arrays
        return tuple(arrays)


def broken(_):
    raise TypeError("not one of mine")


@pytest.mark.parametrize(
    ("device", "remote", "get", "names"),
    [
        ("cuda", False, list, {"one", "all"}),
        ("cuda", False, broken, set()),
        ("cuda", True, list, set()),
        ("cpu", False, list, set()),
    ],
)
def test_what_a_transfer_takes_is_asked_of_devices_alone(device, remote, get, names):
    runtime = OnDevice(get)
    transfers = _transfers(SimpleNamespace(device=device, remote=remote, runtime=runtime), count=3)
    assert set(transfers) == names
    assert all(len(times) == TRANSFERS for times in transfers.values())
    if names:  # a fetched array may be cached
        assert len({float(np.ravel(array)[0]) for array in runtime.given}) == len(runtime.given) == 4 * TRANSFERS


def gradient_of(artifact):
    model = onnx.load(artifact.folder / PARTS["gradient"])
    model = fixed(model, {"x": [2, 1, 28, 28], "labels": [2]})
    return relax.transform.DecomposeOpsForInference()(from_onnx(_folded(model)))


@pytest.mark.filterwarnings("ignore:Renaming name")
def test_tvm_trains_on_a_gpu_where_one_of_its_schedules_fails(lenet):
    """Needs no GPU: TVM compiles for one anywhere. The first assertion fails when TVM has fixed it: remove it."""
    module, target = gradient_of(lenet), tvm.target.Target(H100)
    with pytest.raises(tvm.error.InternalError, match="block_realize"):
        tvm.compile(module, target=target)
    compiled = tvm.compile(module, target=target, relax_pipeline=tvm_cuda.pipeline(target))
    host = compiled.mod.imports[0]
    assert [part.kind for part in host.imports] == ["cuda"]
