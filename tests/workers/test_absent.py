"""A worker loads its own framework alone, however it is started."""

import re
import subprocess
import sys
import sysconfig
from contextlib import closing
from pathlib import Path

import pytest

from xbench.case import Case
from xbench.runtimes import RUNTIMES
from xbench.workers.template import Templates
from xbench.workers.worker import worker_of

FRAMEWORKS = {
    "torch": {"torch"},
    "tensorflow": {"tensorflow"},
    "jax": {"jaxlib"},
    "onnxruntime": {"onnxruntime"},
    "openvino": {"openvino"},
    "tvm": {"tvm", "tvm_ffi"},
    "keras": {"tensorflow", "jaxlib"},  # its row is for both backends
    "keras:backend=jax": {"jaxlib"},
}
NOT_THEIRS = {"sklearn", "matplotlib", "cv2", *set.union(*FRAMEWORKS.values())}
WITHOUT = """
import sys
from importlib import metadata, util
from xbench.workers import absent
absent.hide(["numpy", "wave"])
for name in ("numpy", "numpy.linalg", "wave", "json.tool", "onnx_ir"):
    try:
        __import__(name)
        print(name, "imported")
    except ModuleNotFoundError as error:
        print(name, "lacks", error.name)
print(util.find_spec("numpy"), "numpy" in sys.modules, metadata.version("numpy") > "1")
"""


def packages(process):
    """The installed packages whose libraries a process has loaded."""
    site = re.escape(sysconfig.get_paths()["platlib"])
    return set(re.findall(rf"{site}/(\w+)/\S+\.so", Path(f"/proc/{process}/maps").read_text()))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("forked", [False, True])
@pytest.mark.parametrize("runtime", FRAMEWORKS)
def test_a_worker_loads_no_library_of_another_framework(runtime, forked, lenet, tmp_path):
    with closing(Templates()) as templates:
        case = Case("lenet", runtime, "forward")
        worker = worker_of(case, tmp_path / "log", timed=not forked, templates=templates)
        try:
            worker.call("convertible", 120, artifact=str(lenet.folder), runtime=runtime, device="cpu")
            loaded = packages(worker.process.pid)
        finally:
            worker.stop()
    assert loaded & NOT_THEIRS == FRAMEWORKS[runtime]


def test_a_hidden_package_is_as_if_not_installed():
    printed = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == [
        "numpy lacks numpy",
        "numpy.linalg lacks numpy",
        "wave lacks wave",
        "json.tool imported",
        "onnx_ir lacks numpy",
        "None False True",
    ]


def test_no_runtime_hides_what_it_needs():
    """Its own framework, or what xbench itself imports in a worker."""
    for name, row in RUNTIMES.items():
        assert not {*row.packages, "numpy", "onnx", "ml_dtypes", "xbench"} & {*row.without}, name
