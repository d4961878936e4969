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
import platform
import re
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from xbench.bench import Case, XBenchError, cache, protocol
from xbench.bench.protocol import WorkerFailure
from xbench.converters.printable import one_line

JOB_FILES = (
    *("cell", "audit", "load", "cost", "phases", "layers", "scaling"),
    *("training", "export", "bisect", "inspect"),
)
PR_SET_PDEATHSIG = 1
# What a step frees stays with the process. By glibc's own rule it is a matter of luck, process by process, whether it
# is given back, and its pages faulted in again by the next step: PyTorch takes 29 or 39 ms for one of lstm_ptb, JAX 34
# to 49 (benchmarks/allocator.txt). One arena, because those of other threads are given back whatever the thresholds.
# Before 2.35 glibc takes no larger number for the first.
NEW = tuple(map(int, re.findall(r"\d+", platform.libc_ver()[1]))) >= (2, 35)
MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**30 if NEW else 2**25), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
MEMORY |= {"MALLOC_ARENA_MAX": "1"}
TAIL = 400  # bytes of a worker's log that may become a message

__all__ = ["Worker", "WorkerFailure", "worker_of"]

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
        self.log, self._stopped = log, False
        numbers = map(str, (requests, answers, threads, os.getpid()))
        command = [python, "-P", "-m", "xbench.bench.worker", *numbers]
        with log.open("wb") as chatter:
            started = _starter(os.getpid()).submit(
                subprocess.Popen,
                command,
                stdin=subprocess.DEVNULL,
                stdout=chatter,
                stderr=chatter,
                pass_fds=(requests, answers),
                env=environment(device, threads) | ({"NVIDIA_TF32_OVERRIDE": "1"} if tf32 else {}),
                start_new_session=True,  # Ctrl-C reaches the parent alone, which then ends the worker
            )
            self.process: subprocess.Popen[bytes] = started.result()
        os.close(requests)
        os.close(answers)
        ALIVE.add(self)

    def call(self, job: str, timeout: float, **arguments: Any) -> Any:
        """Runs one job and returns its result; asleep meanwhile.

        Raises:
            WorkerFailure: the job raised, or the worker died, or `timeout` seconds passed.
        """
        reply = protocol.Reply(job, arguments)
        try:
            _write_all(self._requests, reply.request)
            self._read(reply, timeout)
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
        """Waits for a whole line."""
        end, whole = time.monotonic() + timeout, False
        while not whole:
            ready, _, _ = select.select([self._answers], [], [], max(end - time.monotonic(), 0))
            if not ready:
                raise TimeoutError
            data = os.read(self._answers, 1 << 20)
            if not data:
                raise EOFError
            whole = reply.add(data)

    def _death(self) -> WorkerFailure:
        try:
            code = self.process.wait(10)
        except subprocess.TimeoutExpired:
            code = None
        words = self._last_words()
        self.stop()
        if code is None:
            return WorkerFailure("CRASH", "the worker closed its pipe, and goes on")
        if code == -signal.SIGKILL:
            return WorkerFailure("OOM", "out of memory: the system killed the worker")
        if any(sign in words for sign in OUT_OF_MEMORY):
            return WorkerFailure("OOM", f"out of memory: {words}")
        reason = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return WorkerFailure("CRASH", f"the worker ended with {reason}{': ' if words else ''}{words}")

    def _last_words(self) -> str:
        with self.log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - TAIL, 0))
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        return "".join(c for c in lines[-1] if c.isprintable())[:200] if lines else ""

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
        os.close(self._requests)
        os.close(self._answers)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


OUT_OF_MEMORY = ("MemoryError", "bad_alloc", "out of memory", "Out of memory", "Cannot allocate memory", "OutOfMemory")


def worker_of(case: Case, log: Path) -> Worker:
    """The worker of a cell: on its device, with its threads, of the Python that its runtime means."""
    from xbench.runtimes import _configuration

    return Worker(log, case.device, case.threads, _configuration.worker(case.runtime), case.precision == "tf32")


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def environment(device: str, threads: int) -> dict[str, str]:
    """The worker's environment: the same thread setting in every library's own words, float32 meant as float32."""
    settings = dict(os.environ)
    for name in ("OMP", "MKL", "OPENBLAS", "TVM", "VECLIB_MAXIMUM", "NUMEXPR"):
        settings[f"{name}_NUM_THREADS"] = str(threads)
    settings.pop("ONEDNN_DEFAULT_FPMATH_MODE", None)  # would let oneDNN compute in bfloat16
    settings = MEMORY | settings
    settings |= {
        "NVIDIA_TF32_OVERRIDE": "0",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTHONUNBUFFERED": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": str(threads),
    }
    settings["XBENCH_CACHE"] = str(cache.root())
    settings.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache.root() / "inductor"))
    if device == "cpu":
        settings |= {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
    else:  # JAX would take three quarters of the GPU's memory, on which all cells are alive at once
        settings.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    return settings


# ***** the worker's half *****


def main(requests: int, answers: int, threads: int, parent: int) -> None:
    die_with(parent)
    _limit(threads)
    own = os.getpid()
    with os.fdopen(requests, "rb") as lines:
        for line in lines:
            request = json.loads(line)
            answer = _answer(request["job"], request["arguments"])
            if os.getpid() != own:  # an adapter has forked: one process answers
                os._exit(0)
            _write_all(answers, protocol.encoded(request["number"], answer))


def _job(name: str) -> Any:
    """The function of that name. A file is imported when none before it has the job: some import what reads graphs,
    and who runs a converted model need not."""
    files = (importlib.import_module(f"xbench.bench.jobs.{file}") for file in JOB_FILES)
    for file in files:
        for job in file.JOBS:
            if job.__name__ == name:
                return job
    raise KeyError(name)


def _answer(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What a job gave, or why it gave nothing: whatever is raised in a worker is of what it does, and no more than a
    line. What ends a process on purpose ends it here, too."""
    from xbench.converters import UnsupportedOps
    from xbench.parity.verdict import Changed
    from xbench.runtimes import Unavailable
    from xbench.runtimes._checked import BadAnswer, NoAnswer

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
    except MemoryError as error:
        return {"status": "OOM", "error": f"out of memory: {one_line(error)}"}
    except XBenchError as error:
        return {"status": "ERROR", "error": one_line(error)}
    except SystemExit:
        raise
    except BaseException as error:
        with contextlib.suppress(BaseException):  # it asks the error for its text
            traceback.print_exc()
        name, text = one_line(type(error).__name__), one_line(error)
        message = text if text == name else f"{name}: {text}"
        return {"status": "OOM" if any(sign in message for sign in OUT_OF_MEMORY) else "CRASH", "error": message}


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
    main(*map(int, sys.argv[1:5]))
