"""`kill -9` at any moment: finished cells stay, missing cells are run, no worker is left."""

import random
import signal
import time

from fault_kit import records

MOMENTS = 20
COMMAND = ("time", "lenet", "--budget", "0.05", "--mode", "forward", "--batch", "1,2", "--threads", 1, "--out")
RUNTIMES = ("null:seconds=0.0002", "null:seconds=0.0004")
CELLS = [(batch, runtime) for batch in (1, 2) for runtime in sorted(RUNTIMES)]
WORDS = [word for runtime in RUNTIMES for word in ("--runtime", runtime)]


def content(out):
    path = out / "results.jsonl"
    return path.read_bytes() if path.exists() else b""


def complete(data):
    """The lines of a results file that were written to their end."""
    return data[: data.rfind(b"\n") + 1]


def finish(shell, out):
    """Runs the same command to its end; every cell is there once, earlier ones unchanged."""
    before = complete(content(out))
    ended = shell.run(*COMMAND, out, *WORDS)
    assert ended.returncode == 0, ended.stderr
    assert content(out).startswith(before)
    assert sorted((record["case"]["batch"], record["case"]["runtime"]) for record in records(out)) == CELLS


def test_kill_at_20_random_moments_loses_no_finished_cell(shell, lenet):
    generator, number, counts = random.Random(0), 0, []
    out = shell.folder / "0"
    finish(shell, shell.folder / "references")  # so that the kills hit the measurement and not the oracle
    begin = time.monotonic()
    finish(shell, shell.folder / "whole")
    duration = time.monotonic() - begin
    for moment in range(MOMENTS):
        before = complete(content(out))
        process = shell.start(*COMMAND, out, *WORDS)
        time.sleep(generator.uniform(0.02, 0.8) * duration)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not shell.survivors(), f"moment {moment}: workers outlive their parent"
        assert content(out).startswith(before), f"moment {moment}: a finished cell is lost"
        counts.append(content(out).count(b"\n"))
        if counts[-1] == len(CELLS) or moment == MOMENTS - 1:
            finish(shell, out)
            number += 1
            out = shell.folder / str(number)
    assert any(0 < count < len(CELLS) for count in counts), f"no kill met a half finished run: {counts}"
