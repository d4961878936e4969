"""Shared parts of the failure tests: fake runtimes as a third-party package, the command line, marked processes."""

import contextlib
import faulthandler
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from xbench.cli import main

TESTS = Path(__file__).parent
MARK = "XBENCH_TEST_MARK"
PATIENCE = 300.0  # seconds for a command


def install_faults(folder: Path) -> None:
    """Write the third-party distribution `xbench-faults` as pip would install it in a site folder. The rows
    of each module are in a separate one: commands read all rows, and should not import PyTorch for that."""
    import cheats
    import cheats_training
    import fault_runtimes
    import strange_runtimes
    import time_cheats

    modules = {
        fault_runtimes: ("xbench_faults", [*fault_runtimes.FAKES, "slow_trainer"]),
        cheats: ("xbench_cheats", cheats.CHEATS),
        cheats_training: ("xbench_cheats_training", cheats_training.CHEATS),
        time_cheats: ("xbench_time_cheats", time_cheats.CHEATS),
        strange_runtimes: (
            "xbench_strange",
            [strange_runtimes.HONEST, *(f"strange_{name}" for name in strange_runtimes.EVERY)],
        ),
    }
    shutil.copy(TESTS / "slow_trainer.py", folder / "xbench_slow.py")
    points = ""
    for module, (own, names) in modules.items():
        shutil.copy(str(module.__file__), folder / f"{own}.py")
        rows = "".join(f"{name} = {getattr(module, name)!r}\n" for name in names)
        (folder / f"{own}_rows.py").write_text(f"from xbench.runtimes import Lower, Row\n\n{rows}")
        points += "".join(f"{name} = {own}_rows:{name}\n" for name in names)
    facts = folder / "xbench_faults-0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: xbench-faults\nVersion: 0\n")
    (facts / "entry_points.txt").write_text(f"[xbench.runtimes]\n{points}")


def write_two_outputs(path: Path) -> Path:
    """A small ONNX file with two outputs, so that one can be wrong without the other."""
    weights = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["left"]), helper.make_node("MatMul", ["x", "w"], ["right"])],
        "two",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [
            helper.make_tensor_value_info("left", TensorProto.FLOAT, ["batch", 4]),
            helper.make_tensor_value_info("right", TensorProto.FLOAT, ["batch", 3]),
        ],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


@dataclass
class Shell:
    """The console script in its own processes, all of which carry a mark in their environment."""

    folder: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def command(self, *words: object) -> list[str]:
        return [sys.executable, "-P", "-c", "from xbench.cli import main; main()", *map(str, words)]

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, MARK: self.mark, "COLUMNS": "200", **more}

    def run(self, *words: object, **more: str) -> subprocess.CompletedProcess[str]:
        """The command, with more variables. It is run in this process, where commands share what workers import, unless
        modules are to be found elsewhere."""
        path = {**os.environ, **more}.get("PYTHONPATH", "").split(os.pathsep)
        return (self.inside if {*path} <= {"", *sys.path} else self.apart)(*words, **more)

    def apart(self, *words: object, **more: str) -> subprocess.CompletedProcess[str]:
        """The command in a process of its own, whose workers `survivors` finds."""
        return subprocess.run(
            self.command(*words),
            capture_output=True,
            text=True,
            errors="replace",
            cwd=self.folder,
            env=self.environment(**more),
            timeout=PATIENCE,
        )

    def inside(self, *words: object, **more: str) -> subprocess.CompletedProcess[str]:
        """The command in this process."""
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "replace", write_through=True) for _ in range(2))
        code, redirected = 0, (redirect_stdout(out), redirect_stderr(err))
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(), contextlib.ExitStack() as stack:
            for each in (*redirected, time_limit(PATIENCE)):
                stack.enter_context(each)
            warnings.simplefilter("default")  # as in a process of its own
            patch.chdir(self.folder)
            patch.setattr(sys, "argv", ["xbench", *map(str, words)])
            for name, value in {MARK: self.mark, "COLUMNS": "200", **more}.items():
                patch.setenv(name, value)
            try:
                main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
        written = [each.buffer.getvalue().decode(errors="replace") for each in (out, err)]
        return subprocess.CompletedProcess(sys.argv, code, *written)

    def start(self, *words: object) -> subprocess.Popen[bytes]:
        log = (self.folder / "stderr.log").open("wb")
        with log:
            return subprocess.Popen(
                self.command(*words),
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=self.folder,
                env=self.environment(),
                start_new_session=True,
            )

    def python_path(self, first: Path) -> str:
        return os.pathsep.join((str(first), os.environ["PYTHONPATH"]))

    def until(self, true: Callable[[], object], seconds: float = 60.0) -> bool:
        end = time.monotonic() + seconds
        while not true() and time.monotonic() < end:
            time.sleep(0.05)
        return bool(true())

    def survivors(self, patience: float = 5.0) -> list[int]:
        """Marked workers still alive after some seconds."""
        self.until(lambda: not workers(self.mark), patience)
        return workers(self.mark)


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Ends what takes longer, with the error of a process that does; writes what each thread is at."""

    def end(*_: object) -> None:
        faulthandler.dump_traceback(sys.__stderr__)
        raise subprocess.TimeoutExpired("xbench", seconds)

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def workers(mark: str) -> list[int]:
    """Live worker processes with this mark in their environment."""
    numbers = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            about = (folder / "environ").read_bytes(), (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if f"{MARK}={mark}".encode() in about[0] and b"xbench.workers." in about[1] and is_alive(int(folder.name)):
            numbers.append(int(folder.name))
    return numbers


def is_alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def cpu_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def records(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]


def refused(shell: Shell, *words: object, **more: str) -> str:
    """The one-line error of a wrong command."""
    answer = shell.run(*words, **more) if more else shell.inside(*words)
    assert answer.returncode == 2, answer.stdout + answer.stderr
    assert answer.stdout == ""
    return only_line(answer.stderr)


def only_line(text: str) -> str:
    """The text, proved to be one line and no traceback."""
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) == 1, text
    assert "Traceback" not in text
    return lines[0]
