"""A forked worker is like any other: it starts from the same state, and ends with its parent, alone and in one line."""

import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from fault_kit import is_alive

from xbench.converters.source import with_options
from xbench.runtimes import RUNTIMES
from xbench.workers import template, worker
from xbench.workers.template import Forked, Templates
from xbench.workers.worker import Worker, WorkerFailure

PATIENCE = 60.0
ORT, TORCH = RUNTIMES["onnxruntime"], RUNTIMES["torch"]
FACTORIES = {
    "numbers": "print(np.random.rand(), random.random())",
    "changes": "json.changed = True; os.environ['CHANGED'] = '1'; print('changed')",
    "state": "print(hasattr(json, 'changed'), 'CHANGED' in os.environ)",
    "session": "print(os.getsid(0) == os.getpid(), sys.argv[1:], repr(sys.stdin.read()))",
    "place": "print(os.getcwd(), os.environ['TMPDIR'], tempfile.gettempdir(), os.environ.get('XBENCH_OWN'))",
    "daemon": "os.fork() or (os.setsid(), print(os.getpid(), flush=True), time.sleep(600)); time.sleep(2)",
}


def importing(*modules):
    """A row whose workers are forked after these imports."""
    return dataclasses.replace(ORT, preload=modules)


@pytest.fixture(scope="module")
def factories(tmp_path_factory):
    """A folder with factories whose output is in the log of the worker that calls them."""
    folder = tmp_path_factory.mktemp("factories")
    lines = ["import json, os, random, sys, tempfile, time", "import numpy as np"]
    lines += [f"def {name}():\n    {body}" for name, body in FACTORIES.items()]
    (folder / "called_here.py").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def templates():
    with contextlib.closing(Templates()) as made:
        yield made


@pytest.fixture
def start(tmp_path_factory, templates, factories, monkeypatch):
    """Starts workers that have the same temporary folder, and therefore the same template."""
    monkeypatch.setenv("PYTHONPATH", str(factories))
    with contextlib.ExitStack() as stack:

        def started(row=ORT):
            made = Worker(factories / f"{time.monotonic_ns()}.log", timed=False, templates=templates, row=row)
            stack.callback(made.stop)
            return made

        yield started


def printed(made, factory):
    """What a factory prints in a worker. It makes no network: the job fails, and the worker ends."""
    with pytest.raises(WorkerFailure):
        word = with_options(f"called_here:{factory}", [], ["x:float32:batch,2"], None)
        made.call("export", PATIENCE, word=word, file="", folder=str(made.log.parent))
    return made.log.read_text().splitlines()[0]


def until(true, seconds=10.0):
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


def test_workers_share_an_import_and_nothing_else(start):
    assert printed(start(TORCH), "changes") == "changed"
    assert printed(start(TORCH), "state") == "False False"
    random = importing("numpy.random")  # has a state from its import on
    assert len({number for _ in range(2) for number in printed(start(random), "numbers").split()}) == 4
    assert printed(start(TORCH), "session") == "True [] ''"


def test_what_a_worker_started_ends_with_it(start):
    """Even what left its session, and was orphaned."""
    pid = int(printed(start(TORCH), "daemon"))
    assert until(lambda: not is_alive(pid))


def test_a_worker_ends_with_its_template_and_the_next_is_started_as_any_other(start, templates):
    first = start()
    assert isinstance(first.process, Forked)
    parent = int(Path(f"/proc/{first.process.pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(parent, signal.SIGKILL)
    with pytest.raises(WorkerFailure) as failure:
        first.call("machine_peaks", PATIENCE)
    assert failure.value.status == "CRASH"
    assert until(lambda: not is_alive(first.process.pid))
    assert isinstance(start().process, subprocess.Popen)
    templates.close()
    assert isinstance(start().process, Forked)


@pytest.fixture
def command(factories, monkeypatch):
    """A command within a process that keeps templates: what a factory prints in a worker of it, and the worker's
    template. The worker is `left` to the end of the command, or ended before."""
    monkeypatch.setenv("PYTHONPATH", str(factories))
    (factories / "called_first.py").write_text("import tempfile; tempfile.gettempdir()\n")  # which is remembered

    def run(folder, factory="state", left=False):
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        with contextlib.closing(Templates()) as own:
            made = Worker(folder / "own.log", timed=False, templates=own, row=importing("called_first"))
            parent = int(Path(f"/proc/{made.process.pid}/stat").read_text().rpartition(")")[2].split()[1])
            says = None if left else printed(made, factory)
        return says, parent, made

    with template.kept():
        yield run


def test_commands_of_one_process_share_an_import_and_nothing_else(command, tmp_path, monkeypatch):
    monkeypatch.setenv("XBENCH_OWN", "1")
    first, parent, _ = command(tmp_path / "one", "place")
    assert first == f"{tmp_path / 'one'} {tmp_path / 'one'} {tmp_path / 'one'} 1"
    monkeypatch.delenv("XBENCH_OWN")
    second, same, _ = command(tmp_path / "two", "place")
    assert second == f"{tmp_path / 'two'} {tmp_path / 'two'} {tmp_path / 'two'} None"
    assert same == parent
    monkeypatch.setenv("OF_AN_IMPORT", "1")
    assert command(tmp_path / "two")[1] != parent


def test_a_template_with_a_worker_left_is_not_kept(command, tmp_path):
    _, parent, made = command(tmp_path / "one", left=True)
    assert not is_alive(parent) and until(lambda: not is_alive(made.process.pid))
    made.stop()
    assert command(tmp_path / "two")[1] != parent


def test_a_kept_template_that_has_ended_is_replaced(command, tmp_path):
    parent = command(tmp_path / "one")[1]
    worker.kill_all()
    time.sleep(0.5)
    assert is_alive(parent), "an interrupted command does not end it"
    os.kill(parent, signal.SIGKILL)
    assert until(lambda: not is_alive(parent))
    assert command(tmp_path / "two")[1] != parent


def test_those_used_longest_ago_make_room(command, tmp_path, monkeypatch):
    monkeypatch.setattr(template, "MOST", 2)

    def of(kind):
        monkeypatch.setenv("OF_AN_IMPORT", kind)
        return command(tmp_path / "one")[1]

    first, second = of("a"), of("b")
    assert of("a") == first
    of("c")
    assert not is_alive(second) and of("a") == first and of("b") != second


def test_kept_templates_end_with_what_keeps_them(factories, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(factories))
    files = len(os.listdir("/proc/self/fd"))
    with template.kept():
        with contextlib.closing(Templates()) as own:
            made = Worker(factories / "kept.log", timed=False, templates=own, row=importing("json"))
            (parent,) = (each._process.pid for each in own._made.values())
            made.stop()
        assert is_alive(parent)
        if not (fork := os.fork()):
            os._exit(sum(map(len, template.KEPT)))  # it has none: it would end those of its parent
        assert os.waitpid(fork, 0)[1] == 0
    assert not is_alive(parent)
    assert len(os.listdir("/proc/self/fd")) == files


def test_the_number_of_a_worker_is_not_reused_before_its_end_was_read(start):
    process = start().process
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.05)
    os.kill(process.pid, signal.SIGTERM)
    assert until(lambda: not is_alive(process.pid))
    time.sleep(0.2)
    assert Path(f"/proc/{process.pid}").exists()
    assert process.wait(PATIENCE) == process.poll() == -signal.SIGTERM
    assert until(lambda: not Path(f"/proc/{process.pid}").exists())


@pytest.mark.parametrize("modules", [("no_such_module",), ("called_badly",), ("called_dead",)])
def test_what_cannot_be_imported_is_left_to_a_worker_of_its_own(start, factories, modules):
    (factories / "called_badly.py").write_text("raise SystemExit(3)\n")
    (factories / "called_dead.py").write_text("import os; os.abort()\n")
    for _ in range(2):
        assert isinstance(start(importing(*modules)).process, subprocess.Popen)


def test_a_module_that_cannot_be_imported_costs_no_other_worker(start):
    first = start(importing("json"))
    assert isinstance(first.process, Forked)
    assert isinstance(start(importing("json", "no_such_module")).process, subprocess.Popen)
    time.sleep(0.5)
    assert first.process.poll() is None
    assert is_alive(first.process.pid)


def test_what_hangs_in_an_import_is_left_to_a_worker_of_its_own(start, factories, templates, monkeypatch):
    """And no other worker waits for it."""
    (factories / "called_late.py").write_text("import time; time.sleep(600)\n")
    monkeypatch.setattr(template, "IMPORTS", 2.0)
    assert isinstance(start(importing("called_late")).process, subprocess.Popen)
    monkeypatch.setattr(template.Template, "fork", None)
    assert isinstance(start(importing("called_late")).process, subprocess.Popen)


INTERRUPTED = """
import dataclasses, os, signal, sys, threading, time
from pathlib import Path
from xbench.host import process_tree
from xbench.runtimes import RUNTIMES
from xbench.workers.template import Templates
from xbench.workers.worker import Worker
folder = Path(sys.argv[1])
def interrupt():
    while not (folder / "began").exists():
        time.sleep(0.02)
    signal.raise_signal(signal.SIGINT)
files, own = len(os.listdir("/proc/self/fd")), Templates()
threading.Thread(target=interrupt).start()
row = dataclasses.replace(RUNTIMES["onnxruntime"], preload=("called_slowly",))
try:
    Worker(folder / "own.log", timed=False, templates=own, row=row)
except KeyboardInterrupt:
    print("interrupted")
(made,) = own._made.values()
process = made._process.pid
while process_tree.members(process) != [process]:
    time.sleep(0.02)
time.sleep(3)
print(process_tree.members(process) == [process])
own.close()
print(Path(f"/proc/{process}").exists(), len(os.listdir("/proc/self/fd")) - files)
"""


def test_an_interrupted_start_leaves_nothing(tmp_path, monkeypatch):
    """The imports take seconds, in which a user may press Ctrl-C. In a process of its own: pytest's would end if the
    signal came late."""
    slow = f"import pathlib, time; pathlib.Path({str(tmp_path / 'began')!r}).touch(); time.sleep(3)\n"
    (tmp_path / "called_slowly.py").write_text(slow)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    words = [sys.executable, "-P", "-c", INTERRUPTED, str(tmp_path)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    assert ended.stdout.splitlines() == ["interrupted", "True", "False 0"], ended.stderr


def test_ending_all_workers_ends_what_is_being_imported(factories, monkeypatch):
    (factories / "called_for_ever.py").write_text("import time; time.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(factories))
    made = []
    with contextlib.closing(Templates()) as own:
        settings = {"timed": False, "templates": own, "row": importing("called_for_ever")}
        thread = threading.Thread(target=lambda: made.append(Worker(factories / "ever.log", **settings)))
        thread.start()
        assert until(lambda: len(own._made) == 1)
        worker.kill_all()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        made[0].stop()
        assert isinstance(made[0].process, subprocess.Popen)


ORPHAN = """
import os, signal, sys
from pathlib import Path
from xbench.runtimes import RUNTIMES
from xbench.workers.template import Templates
from xbench.workers.worker import Worker
worker = Worker(Path(sys.argv[1]), timed=False, templates=Templates(), row=RUNTIMES["onnxruntime"])
{act}
print(worker.process.pid, os.readlink(f"/proc/{{worker.process.pid}}/exe"), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("act", ["", "worker.pause()"])
def test_template_and_worker_die_with_their_parent(tmp_path, act):
    words = [sys.executable, "-P", "-c", ORPHAN.format(act=act), str(tmp_path / "log")]
    own = {**os.environ, "XBENCH_TEST_MARK": str(tmp_path)}
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, env=own)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    line = f"XBENCH_TEST_MARK={tmp_path}".encode()

    def left():
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if line in (folder / "environ").read_bytes() and is_alive(int(folder.name)):
                    found.append(int(folder.name))
        return found

    assert until(lambda: not left()), left()


@pytest.mark.parametrize(
    "settings", [{"timed": True}, {"device": "cuda", "timed": False}, {"row": None, "timed": False}]
)
def test_a_worker_whose_times_count_and_one_on_a_gpu_are_not_forked(tmp_path, templates, settings):
    made = Worker(tmp_path / "log", **({"row": ORT} | settings), templates=templates)
    made.stop()
    assert isinstance(made.process, subprocess.Popen)


def test_other_threads_and_variables_have_another_template(start, templates, monkeypatch):
    start()
    before = len(templates._made)
    start()
    assert len(templates._made) == before
    monkeypatch.setenv("OMP_DYNAMIC", "true")
    start()
    assert len(templates._made) == before + 1


@pytest.mark.parametrize("runtime", [name for name, row in RUNTIMES.items() if row.preload])
def test_a_framework_has_one_thread_after_its_import(runtime):
    """A fork has one: what others have begun would never end. OpenBLAS ends its own before a fork."""
    code = """
import importlib, os, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(len(os.listdir("/proc/self/task")))
"""
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
    words = [sys.executable, "-c", code, *RUNTIMES[runtime].preload]
    assert subprocess.run(words, env=variables, capture_output=True, text=True).stdout.split() == ["1"]


def test_a_worker_whose_template_hangs_is_given_up(monkeypatch):
    """Its end is never reported: a command waited for that for ever, and now for a minute."""
    monkeypatch.setattr(template, "REPORT", 0.05)
    link, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with other:
        assert Forked(1, link).wait() == -signal.SIGKILL
        assert link.fileno() == -1
        assert other.recv(1) == b""  # a template that goes on ends the worker then
