"""A worker process and the protocol between it and its parent, both halves in one file.

The parent writes one JSON object a line (`{"job": name, "arguments": {...}}`) to a pipe of its own and sleeps until the
answer arrives on another; whatever the worker prints goes to a log and does no harm. A worker that is not in use
is stopped by signal (`pause`), so its threads cannot disturb the active one. A worker dies with its parent.
"""

import contextlib
import ctypes
import importlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xbench.case import Case
from xbench.converters.printable import one_line
from xbench.errors import XBenchError
from xbench.host import process_tree
from xbench.workers import absent, death, marks, own_code, protocol, starter, template
from xbench.workers.protocol import WorkerFailure
from xbench.workers.template import Forked, Templates
from xbench.workers.variables import environment

if TYPE_CHECKING:
    from xbench.runtimes import Row

JOB_FILES = (
    *("cell", "block", "pace", "audit", "load", "cost", "phases", "layers", "scaling"),
    *("training", "answer_samples", "widen", "export", "trajectory", "bisect", "like"),
    *("inspect", "own_samples", "score"),
)
PR_SET_PDEATHSIG = 1


__all__ = ["Worker", "WorkerFailure", "worker_of"]


# ***** the parent's half *****


ALIVE: set["Worker"] = set()


def kill_all() -> None:
    """Ends the processes of all workers and templates; a call that waits for one in another thread fails."""
    for worker in list(ALIVE):
        worker.kill()
    template.kill_all()


class Worker:
    """One worker process, of the runtime of this row. One that times nothing, on a CPU, is forked from one of the
    `templates`, if they are given. Any failed call ends it."""

    def __init__(
        self,
        log: Path,
        device: str = "cpu",
        threads: int = 1,
        python: str = sys.executable,
        tf32: bool = False,
        timed: bool = True,
        templates: Templates | None = None,
        row: "Row | None" = None,
    ) -> None:
        without = row.without if row else ()
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        self.log, self._stopped = log, False
        self._mark, self.marks, self.late_s = uuid.uuid4().hex, list[float](), 0.0
        numbers = map(str, (requests, answers, threads, os.getpid()))
        command = [python, "-P", "-m", "xbench.workers.worker", *numbers, *without]
        variables = environment(device, threads, log.parent, timed)
        variables |= {"NVIDIA_TF32_OVERRIDE": "1"} if tf32 else {}
        variables |= own_code.variables(log.parent) if python != sys.executable else {}
        ends, forked = (requests, answers, self._requests, self._answers), None
        with log.open("wb") as chatter:
            if templates and row and not timed and device == "cpu":
                start = template.Start(python, variables, threads, without)
                files = (requests, answers, chatter.fileno())
                forked = templates.fork(row.preload or template.PLAIN, start, self._mark, files, ends)
            self.process: Forked | subprocess.Popen[bytes] = forked or starter.started(
                command,
                ends,
                stdin=subprocess.DEVNULL,
                stdout=chatter,
                stderr=chatter,
                pass_fds=(requests, answers),
                env=variables | {process_tree.VARIABLE: self._mark},
                start_new_session=True,  # Ctrl-C reaches the parent alone, which then ends the worker
            )
        os.close(requests)
        os.close(answers)
        self._ended, self._oom_kills = _end_of(self.process.pid), death.oom_kills()
        ALIVE.add(self)

    def call(self, job: str, timeout: float, **arguments: Any) -> Any:
        """Runs one job and returns its result; sleeps meanwhile.

        Raises:
            WorkerFailure: the job raised, or the worker died, or `timeout` seconds passed.
        """
        reply, waited = protocol.Reply(job, arguments), process_tree.kept_waiting()
        try:
            _write_all(self._requests, reply.request)
            self._read(reply, timeout)
            self.marks, self.late_s = reply.marks, process_tree.kept_waiting() - waited
            self._oom_kills = death.oom_kills()
            return reply.result()
        except (BrokenPipeError, EOFError):
            raise self._death() from None
        except TimeoutError:
            self.stop()
            raise WorkerFailure("TIMEOUT", f"no answer to {job} within {timeout:.0f} s") from None
        except BaseException:
            self.stop()
            raise

    def _read(self, reply: protocol.Reply, timeout: float) -> None:
        """Waits for a complete line."""
        end, complete = time.monotonic() + timeout, False
        while not complete:
            ready, _, _ = select.select([self._answers, *self._ended], [], [], max(end - time.monotonic(), 0))
            if not ready:
                raise TimeoutError
            if self._answers not in ready:  # it is dead, and a child of it may hold the pipe
                ready, _, _ = select.select([self._answers], [], [], 0)
            data = os.read(self._answers, 1 << 20) if ready else b""
            if not data:
                raise EOFError
            complete = reply.add(data)

    @property
    def passed(self) -> dict[str, float]:
        """Seconds between the marks of the last job, by this process's clock, 0.0 if it gave none; and those that this
        process had to wait for a CPU meanwhile: by as much it may have noted a mark too late."""
        return {"parent_s": self.marks[-1] - self.marks[0] if self.marks else 0.0, "late_s": self.late_s}

    def _death(self) -> WorkerFailure:
        try:
            code = self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.stop()
            return WorkerFailure("CRASH", "the worker closed its pipe, and goes on")
        words = death.last_words(self.log)
        self.stop()
        return WorkerFailure(*death.cause(code, words, self._oom_kills))

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """Ends the worker and everything it started; once, as numbers of files and processes are reused."""
        if self._stopped:
            return
        self._stopped = True
        ALIVE.discard(self)
        self.kill()
        self.process.wait()
        for end in (self._requests, self._answers, *self._ended):
            os.close(end)

    def _signal(self, number: int) -> None:
        """Signals the worker and everything it started, in any session."""
        process_tree.send(self.process.pid, number, self._mark, self.process.poll() is not None)


def _end_of(process: int) -> tuple[int, ...]:
    """A descriptor that is readable when the process has ended, if the system has one."""
    try:
        return (os.pidfd_open(process),)
    except (AttributeError, OSError):
        return ()


def worker_of(case: Case, log: Path, timed: bool = True, templates: Templates | None = None) -> Worker:
    """The worker of a cell: on its device, with its threads, in the Python of its runtime; forked from one of the
    `templates`, if they are given and it times nothing."""
    from xbench.runtimes import _configuration, row_of

    python, tf32 = _configuration.worker(case.runtime), case.precision == "tf32"
    return Worker(log, case.device, case.threads, python, tf32, timed, templates, row_of(case.runtime))


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


# ***** the worker's half *****


def main(requests: int, answers: int, threads: int, parent: int) -> None:
    die_with(parent)
    process_tree.adopt()
    pin(threads)
    _limit()
    own = os.getpid()
    with os.fdopen(requests, "rb") as lines:
        for line in lines:
            request, oom_kills = json.loads(line), death.oom_kills()
            answer = _answer(request["job"], request["arguments"], oom_kills)
            if os.getpid() != own:  # a fork of an adapter: one process answers
                os._exit(0)
            _write_all(answers, protocol.encoded(request["number"], answer))


def _job(name: str) -> Any:
    """The function of that name. A file is imported if no earlier one has the job: some import what reads graphs,
    which a converted model does not need."""
    files = (importlib.import_module(f"xbench.workers.jobs.{file}") for file in JOB_FILES)
    for file in files:
        for job in file.JOBS:
            if job.__name__ == name:
                return job
    raise KeyError(name)


def _answer(name: str, arguments: dict[str, Any], oom_kills: int | None) -> dict[str, Any]:
    """The result of a job, or its failure: whatever is raised in a worker becomes a failure of one line. SystemExit
    ends the process here, too."""
    from xbench.converters import UnsupportedOps, seals
    from xbench.parity.calls import BadAnswer, NoAnswer
    from xbench.parity.verdict import Changed
    from xbench.runtimes import Killed, Unavailable

    try:
        return {"result": _job(name)(**arguments)}
    except UnsupportedOps as error:
        return {"status": "UNSUPPORTED", "error": f"operators missing: {one_line(error)}", "operators": error.operators}
    except (NotImplementedError, Unavailable) as error:
        return {"status": "UNSUPPORTED", "error": one_line(error)}
    except (Changed, NoAnswer) as error:
        return {"status": "FAIL", "error": one_line(error)}
    except BadAnswer as error:
        return {"status": "CRASH", "error": one_line(error)}
    except Killed as error:
        return dict(zip(("status", "error"), death.killed(one_line(error), oom_kills), strict=True))
    except MemoryError as error:
        return {"status": "OOM", "error": f"out of memory: {one_line(error)}"}
    except (XBenchError, seals.Broken) as error:
        return {"status": "ERROR", "error": one_line(error)}
    except SystemExit:
        raise
    except BaseException as error:
        with contextlib.suppress(BaseException):  # calls the error's own code
            traceback.print_exc()
        name, text = one_line(type(error).__name__), one_line(error)
        message = text if text == name else f"{name}: {text}"
        return {"status": "OOM" if any(sign in message for sign in death.OUT_OF_MEMORY) else "CRASH", "error": message}


def die_with(parent: int) -> None:
    """Makes Linux kill this process when the thread that started it ends (`starter.py`): when the parent dies, even
    by kill -9 and even while it is stopped."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent had already ended
            os._exit(1)


def pin(threads: int) -> None:
    """Limits the CPUs of this process to `threads`."""
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[:threads])


def _limit() -> None:
    """When memory is short the worker is killed first, and fails before it swaps."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "-1":  # CUDA maps far more than it uses
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_DATA, (int(total * 0.9), resource.RLIM_INFINITY))


if __name__ == "__main__":
    marks.OUT[:] = [int(sys.argv[2])]
    absent.hide(sys.argv[5:])
    main(*map(int, sys.argv[1:5]))
