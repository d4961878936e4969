"""Ctrl-C, SIGTERM and a closed terminal: one line, an exit code each, no leftovers."""

import signal
import subprocess
import sys

import pytest
from fault_kit import only_line

HANGS = ("time", "lenet", "--runtime", "fault_hangs", "--mode", "forward", "--batch", 2, "--threads", 1)


@pytest.mark.parametrize(
    ("sent", "code", "word"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "ended by SIGTERM"),
        (signal.SIGHUP, 129, "ended with its terminal"),
    ],
)
def test_a_signal_ends_a_command_in_one_line(shell, lenet, sent, code, word, monkeypatch):
    (shell.folder / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(shell.folder / "tmp"))
    process = shell.start(*HANGS, "--out", shell.folder / "out")
    assert shell.until(lambda: list((shell.folder / "tmp").glob("*/*.log"))), "no worker was started"
    process.send_signal(sent)
    assert process.wait(30) == code
    assert only_line((shell.folder / "stderr.log").read_text()) == f"xbench: {word}; what was measured is kept"
    assert not shell.survivors()
    assert not list((shell.folder / "tmp").glob("xbench*"))
    assert [each.name for each in (shell.folder / "out").iterdir()] == ["results.jsonl"]


def test_what_nohup_has_it_ignore_it_ignores():
    code = "import os, signal; from xbench.cli.terminal.ending import Ending; Ending(); "
    code += "os.kill(os.getpid(), signal.SIGHUP)"
    ended = subprocess.run(["nohup", sys.executable, "-P", "-c", code], capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_after_its_end_a_command_writes_no_traceback(sent):
    code = "from xbench.cli.terminal import ending; import os; end = ending.Ending(); end.over(); os.kill(os.getpid(), "
    ended = subprocess.run([sys.executable, "-P", "-c", f"{code}{int(sent)})"], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (-sent, b"")


INTERRUPTED = """
import os, signal, subprocess, sys, time
from pathlib import Path
from xbench.workers import starter, worker

class Slow(subprocess.Popen):
    def __init__(self, *words, **settings):
        time.sleep({before})
        super().__init__(*words, **settings)
        time.sleep({after})

subprocess.Popen = Slow
starter._requests(os.getpid())
opened = len(os.listdir("/proc/self/fd"))
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.5)
try:
    worker.Worker(Path(sys.argv[1]))
except KeyboardInterrupt:
    print(len(os.listdir("/proc/self/fd")) - opened)
    print(os.waitpid(-1, os.WNOHANG))
"""


@pytest.mark.parametrize(("before", "after"), [(2, 0), (0, 2)])
def test_a_worker_that_is_started_while_its_command_is_interrupted_does_not_stay(tmp_path, before, after):
    """In a notebook the process goes on, and so would the worker."""
    code = INTERRUPTED.format(before=before, after=after)
    words = [sys.executable, "-P", "-c", code, tmp_path / "log"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout == "0\n", "descriptors are left open, or there is a child"
    assert "ChildProcessError" in ended.stderr
