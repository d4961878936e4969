import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import fault_kit
import pytest
import tiers
from places import ROOT

CACHE = "XBENCH_CACHE"
# Slow test files go first, the slowest at the head: at the end one would run alone.
LONG = (
    "kit",
    "timed",
    "session",
    "strange",
    "source",
    "runtimes",
    "study",
    "time_cheats",
    "kill_moments",
    "scaling",
    "load",
    "cli",
    "export",
    "train",
    "kill",
    "operators",
    "assert",
    "gpu",
    "bisect",
    "damage",
    "precision",
    "node_suite",
    "layout",
    "docs",
    "kernels",
    "explain",
    "round_trip",
    "real_models",
    "match",
    "originals",
    "inspect",
    "deployment",
)
OWN_CACHE = pytest.StashKey[str]()
FAILED: list[str] = []  # a line each


def pytest_configure(config):
    _handle_signals()  # a shell's background jobs ignore Ctrl-C, and nohup's a hangup: so would what the tests start
    # Tests run in parallel; a test of its own checks the note about that on stderr.
    os.environ["XBENCH_SHARED"] = "1"
    # Two test processes share the CPUs: a pool's thread that spins takes the CPU of the other process.
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ["GOMP_SPINCOUNT"] = "0"
    # Set here and not in a fixture: pytest-xdist's workers inherit it, so the whole session exports each network once.
    if CACHE not in os.environ:
        config.stash[OWN_CACHE] = os.environ[CACHE] = tempfile.mkdtemp(prefix="xbench-tests-")


@pytest.fixture(autouse=True)
def signals():
    """Python's own handlers of signals: a command in this process, which a fixture may have run, leaves the system's.
    A test that interrupts itself would end the process."""
    _handle_signals()
    yield
    _handle_signals()


def _handle_signals():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True, scope="session")
def imported_once():
    """Commands in this process share the processes that have imported a framework."""
    from xbench.workers import template

    with template.kept():
        yield


@pytest.fixture(autouse=True, scope="module")
def dropout_is_on():
    """Adapters in this process switch dropout off for good: the order of test files must not matter."""
    yield
    if "xbench.converters.ops.torch_dropout" in sys.modules:
        sys.modules["xbench.converters.ops.torch_dropout"].switch(True)


def pytest_runtest_logreport(report):
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        FAILED.append(f"{report.nodeid}: {(crash.message if crash else report.longreprtext)[:300]}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    if exitstatus == pytest.ExitCode.INTERNAL_ERROR:  # pytest leaves its summary out, as where two workers crash
        print("\nFailed before the internal error:", *(FAILED or ["none"]), sep="\n  ", file=sys.__stderr__)


def pytest_unconfigure(config):
    own = config.stash.get(OWN_CACHE, None)
    if own is not None:
        os.environ.pop(CACHE, None)
        shutil.rmtree(own, ignore_errors=True)


@pytest.fixture(scope="session")
def fault_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    fault_kit.install_faults(folder)
    return folder


@pytest.fixture
def faults(fault_folder, monkeypatch):
    """The fake runtimes of fault_runtimes.py, in this process and in every worker, as a third party's package."""
    monkeypatch.syspath_prepend(str(fault_folder))
    paths = [str(fault_folder), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))


@pytest.fixture
def shell(tmp_path, faults):
    return fault_kit.Shell(tmp_path)


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """The folder with digits.onnx, digits.npz and inverted.npz of examples/digits.py."""
    folder = tmp_path_factory.mktemp("digits")
    subprocess.run([sys.executable, ROOT / "examples" / "digits.py", folder], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def exporter(tmp_path_factory):
    from xbench.workers.prepare import Exporter

    own = Exporter(tmp_path_factory.mktemp("exporter"))
    yield own
    own.close()


def prepared(exporter, model):
    """A model in the cache, with the references that the small cells of these tests need."""
    artifact = exporter.artifact(model)
    for seed in (0, 1):
        exporter.reference(artifact, "forward", 2, seed, "synthetic")
    return artifact


@pytest.fixture(scope="session")
def lenet(exporter):
    return prepared(exporter, "lenet")


@pytest.fixture(scope="session")
def two_outputs(exporter, tmp_path_factory):
    return prepared(exporter, str(fault_kit.write_two_outputs(tmp_path_factory.mktemp("model") / "two.onnx")))


@pytest.fixture
def own_cache(lenet, tmp_path):
    """A copy of the cache with LeNet in it, to be damaged."""
    shutil.copytree(lenet.folder, tmp_path / "cache/models" / lenet.folder.name)
    return tmp_path / "cache"


@pytest.fixture(scope="session", autouse=True)
def quick_xla():
    """Use XLA's older, faster code generator: this process compiles small programs and runs them once. Commands that
    tests start compile as users do. (Not -O0: in the gradient of a maximum XLA then recomputes the compared value
    differently, finds no maximum, and divides by 0.)"""
    if importlib.util.find_spec("jax"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false")
            importlib.import_module("jax").devices()  # reads the flags


@pytest.fixture
def float64():
    """ONNX's float is PyTorch's default type."""
    import torch

    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by `-m`
def pytest_collection_modifyitems(config, items):
    if not any("::" in word for word in config.args):  # otherwise some parameters of a test are missing
        config.stash[tiers.UNKNOWN] = [*tiers.unknown(items)]
    for item in items:
        if tiers.is_slow(item):
            item.add_marker("slow")
    places = {f"test_{name}.py": place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONG)))
