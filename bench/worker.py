"""A worker process and the protocol between it and its parent, both halves in one file.

The parent writes one JSON object a line (`{"job": name, "arguments": {...}}`) to a pipe of its own and sleeps until the
answer arrives on another; whatever the worker prints goes to a log and can spoil nothing. A worker that is not at work
is stopped by signal (`pause`), so its threads cannot disturb the one that is. A worker dies with its parent.
"""

import contextlib
import ctypes
import functools
import importlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from xbench.bench import Case, XBenchError, death, group, marks
from xbench.bench.variables import environment

JOB_FILES = (
    *("cell", "block", "pace", "audit", "load", "cost", "phases", "layers", "scaling"),
    *("training", "export", "trajectory", "bisect", "inspect"),
)
PR_SET_PDEATHSIG = 1


class WorkerFailure(Exception):
    """What became of a job that gave no result: a status of the store and one line."""

    def __init__(self, status: str, message: str, operators: dict[str, int] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.operators = status, message, operators


# ***** the parent's half *****


ALIVE: set["Worker"] = set()


def kill_all() -> None:
    """Ends the processes of all workers; whoever waits for one, in another thread, is told of its death."""
    for worker in list(ALIVE):
        worker.kill()


@functools.cache
def _starter(process: int) -> ThreadPoolExecutor:
    """The thread of this process that starts all workers: Linux ends a process with the thread that started it
    (`die_with`), and this one lives as long as the process, where others are a pool's."""
    return ThreadPoolExecutor(1, thread_name_prefix="xbench-starter")


class Worker:
    """One worker process. Any failed call ends it."""

    def __init__(
        self, log: Path, device: str = "cpu", threads: int = 1, python: str = sys.executable, tf32: bool = False
    ) -> None:
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        self.log, self._buffer, self._stopped = log, b"", False
        self._mark, self.marks, self.late_s = uuid.uuid4().hex, list[float](), 0.0
        numbers = map(str, (requests, answers, threads, os.getpid()))
        command = [python, "-P", "-m", "xbench.bench.worker", *numbers]
        variables = environment(device, threads, log.parent) | {group.VARIABLE: self._mark}
        variables |= {"NVIDIA_TF32_OVERRIDE": "1"} if tf32 else {}
        with log.open("wb") as chatter:
            started = _starter(os.getpid()).submit(
                subprocess.Popen,
                command,
                stdin=subprocess.DEVNULL,
                stdout=chatter,
                stderr=chatter,
                pass_fds=(requests, answers),
                env=variables,
                start_new_session=True,  # Ctrl-C reaches the parent alone, which then ends the worker
            )
            try:
                self.process: subprocess.Popen[bytes] = started.result()
            except BaseException:  # interrupted, or there is no such interpreter
                started.add_done_callback(_abandoned(requests, answers, self._requests, self._answers))
                raise
        os.close(requests)
        os.close(answers)
        self._ended, self._oom_kills = _end_of(self.process.pid), death.oom_kills()
        ALIVE.add(self)

    def call(self, job: str, timeout: float, **arguments: Any) -> Any:
        """Runs one job and returns its result; asleep meanwhile.

        Raises:
            WorkerFailure: the job raised, or the worker died, or `timeout` seconds passed.
        """
        line = json.dumps({"job": job, "arguments": arguments}).encode() + b"\n"
        self.marks, waited = [], group.kept_waiting()
        try:
            _write_all(self._requests, line)
            answer = self._read(timeout)
            self.late_s = group.kept_waiting() - waited
        except (BrokenPipeError, EOFError):
            raise self._death() from None
        except TimeoutError:
            self.stop()
            raise WorkerFailure("TIMEOUT", f"no answer to {job} within {timeout:.0f} s") from None
        except BaseException:
            self.stop()
            raise
        if "error" in answer:
            self.stop()
            raise WorkerFailure(answer["status"], answer["error"], answer.get("operators"))
        self._oom_kills = death.oom_kills()
        return answer["result"]

    def _read(self, timeout: float) -> dict[str, Any]:
        end = time.monotonic() + timeout
        while self._is_mark() or b"\n" not in self._buffer:
            if b"\n" in self._buffer:
                continue
            ready, _, _ = select.select([self._answers, *self._ended], [], [], max(end - time.monotonic(), 0))
            if not ready:
                raise TimeoutError
            if self._answers not in ready:  # it is dead, and what it has started may hold the pipe
                ready, _, _ = select.select([self._answers], [], [], 0)
            data = os.read(self._answers, 1 << 20) if ready else b""
            if not data:
                raise EOFError
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or not ({"result", "error"} & set(answer)):
            self.stop()
            raise WorkerFailure("CRASH", "the worker's answer is not JSON of ours")
        return answer

    def _is_mark(self) -> bool:
        """Notes a mark that has come, which is no answer."""
        if not self._buffer.startswith(marks.LINE):
            return False
        self._buffer = self._buffer.removeprefix(marks.LINE)
        self.marks.append(time.monotonic())
        return True

    @property
    def passed(self) -> dict[str, float]:
        """Seconds between the marks of the last job, by this process's clock, 0.0 where it gave none; and those that
        this process had to wait for a CPU meanwhile: by so much it may have noted a mark too late."""
        return {"parent_s": self.marks[-1] - self.marks[0] if self.marks else 0.0, "late_s": self.late_s}

    def _death(self) -> WorkerFailure:
        try:
            code = self.process.wait(10)
        except subprocess.TimeoutExpired:
            code = 0
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
        """Ends the worker and everything it started; once, as numbers of files and processes are used again."""
        if self._stopped:
            return
        self._stopped = True
        ALIVE.discard(self)
        self.kill()
        self.process.wait()
        for end in (self._requests, self._answers, *self._ended):
            os.close(end)

    def _signal(self, number: int) -> None:
        """Reaches the worker and everything it started, in whatever session that is."""
        group.send(self.process.pid, number, self._mark, self.process.poll() is not None)


def _end_of(process: int) -> tuple[int, ...]:
    """A descriptor that can be read when the process has ended, where the system has such."""
    try:
        return (os.pidfd_open(process),)
    except (AttributeError, OSError):
        return ()


def _abandoned(*ends: int) -> Callable[["Future[subprocess.Popen[bytes]]"], None]:
    """What is done with a worker that nobody waits for any more when it is started."""

    def end(started: "Future[subprocess.Popen[bytes]]") -> None:
        for each in ends:
            os.close(each)
        if not started.cancelled() and not started.exception():
            os.killpg(started.result().pid, signal.SIGKILL)
            started.result().wait()

    return end


def worker_of(case: Case, log: Path) -> Worker:
    """The worker of a cell: on its device, with its threads, of the Python that its runtime means."""
    from xbench.runtimes import _configuration

    return Worker(log, case.device, case.threads, _configuration.worker(case.runtime), case.precision == "tf32")


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


# ***** the worker's half *****


def main(requests: int, answers: int, threads: int, parent: int) -> None:
    die_with(parent)
    group.adopt()
    _limit(threads)
    with os.fdopen(requests, "rb") as lines:
        for line in lines:
            request, oom_kills = json.loads(line), death.oom_kills()
            answer = _answer(_job(request["job"]), request["arguments"], oom_kills)
            _write_all(answers, json.dumps(answer).encode() + b"\n")


def _job(name: str) -> Any:
    """The function of that name. A file is imported when none before it has the job: some import what reads graphs,
    and who runs a converted model need not."""
    files = (importlib.import_module(f"xbench.bench.jobs.{file}") for file in JOB_FILES)
    for file in files:
        for job in file.JOBS:
            if job.__name__ == name:
                return job
    raise KeyError(name)


def _answer(job: Any, arguments: dict[str, Any], oom_kills: int | None) -> dict[str, Any]:
    from xbench.converters import UnsupportedOps
    from xbench.parity.verdict import Changed
    from xbench.runtimes import Killed, Unavailable

    try:
        return {"result": job(**arguments)}
    except UnsupportedOps as error:
        return {"status": "UNSUPPORTED", "error": f"operators missing: {error}", "operators": error.operators}
    except (NotImplementedError, Unavailable) as error:
        return {"status": "UNSUPPORTED", "error": _line(error)}
    except Changed as error:
        return {"status": "FAIL", "error": _line(error)}
    except Killed as error:
        return dict(zip(("status", "error"), death.killed(_line(error), oom_kills), strict=True))
    except MemoryError as error:
        return {"status": "OOM", "error": f"out of memory: {_line(error)}"}
    except XBenchError as error:
        return {"status": "ERROR", "error": _line(error)}
    except Exception as error:
        import traceback

        traceback.print_exc()
        message = f"{type(error).__name__}: {_line(error)}"
        return {"status": "OOM" if any(sign in message for sign in death.OUT_OF_MEMORY) else "CRASH", "error": message}


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__


def die_with(parent: int) -> None:
    """Asks Linux to kill this process when the thread that started it ends (`_starter`): when the parent dies, even by
    kill -9 and even while it is stopped."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was gone before we could ask
            os._exit(1)


def _limit(threads: int) -> None:
    """Runs on as many CPUs as there are threads, is the first to go when memory is short, and fails before it swaps."""
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[:threads])
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "-1":  # CUDA maps far more than it uses
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_DATA, (int(total * 0.9), resource.RLIM_INFINITY))


if __name__ == "__main__":
    marks.OUT[:] = [int(sys.argv[2])]
    main(*map(int, sys.argv[1:5]))
