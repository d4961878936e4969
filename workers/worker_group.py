"""Several workers that train together: how they are started, called and ended. Both halves, as in `worker.py`.

The framework's own launcher starts the processes, so pipes cannot be handed to them: each connects to a socket of the
parent's and sends its rank; from then on it is a worker of `worker.py`, with the same protocol and the same jobs. A
job is sent to all at once, because they meet in it. The first that dies, fails or does not answer ends all of them.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xbench.converters import temporary
from xbench.host import machine
from xbench.runtimes import distributed, row_of
from xbench.workers import absent, death, own_code, worker
from xbench.workers.protocol import Reply, WorkerFailure
from xbench.workers.variables import environment

PROGRAM = "xbench.workers.worker_group"
LONGEST = 70  # bytes; a socket's name has at most 104 (macOS; 108 on Linux), of which our own folder takes 33
GRACE = 1.0  # seconds to wait for the death of the worker that made another one fail
ENDING = 10.0  # seconds in which all must end after their launcher


class Group:
    """The workers of one runtime. Any failed call ends all of them."""

    def __init__(self, runtime: str, count: int, log: Path, device: str, threads: int, timeout: float) -> None:
        """Starts them, and waits until each has sent its rank.

        Raises:
            WorkerFailure: one ended or did not connect.
        """
        self.count, self.log, self._stopped, self._oom_kills = count, log, False, death.oom_kills()
        self._replies: dict[int, Reply] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ports = distributed.reserved(count)
        self._stack = contextlib.ExitStack()
        self._folder = self._stack.enter_context(temporary.folder(temporary.place(LONGEST)))
        self._links: dict[int, socket.socket] = {}
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(str(self._folder / "parent"))
                listener.listen(count)
                self._start(runtime, device, threads)
                self._meet(listener, timeout)
        except BaseException:
            self.stop()
            raise

    def _start(self, runtime: str, device: str, threads: int) -> None:
        ports = [each.getsockname()[1] for each in self._ports]
        program = [PROGRAM, "rank", str(self._folder / "parent"), str(threads), str(self.log)]
        program += row_of(runtime).without
        for number, (command, more) in enumerate(distributed.launches(runtime, ports, program)):
            with self.log.with_suffix(f".launcher{number}.log").open("wb") as chatter:
                own = [sys.executable, "-P", "-m", PROGRAM, "launch", str(os.getpid()), *command]
                variables = environment(device, threads, self.log.parent) | more
                variables |= own_code.variables(self.log.parent)
                process = subprocess.Popen(
                    own, stdin=subprocess.DEVNULL, stdout=chatter, stderr=chatter, env=variables, start_new_session=True
                )
            self._processes.append(process)

    def _meet(self, listener: socket.socket, timeout: float) -> None:
        end = time.monotonic() + timeout
        while len(self._links) < self.count:
            ready, _, _ = select.select([listener], [], [], 0.2)
            if ready:
                link, _ = listener.accept()
                self._links[int(link.recv(16))] = link
            elif any(process.poll() is not None for process in self._processes):
                raise WorkerFailure("CRASH", f"a launcher of {self.count} workers ended: {self._launchers_words()}")
            elif time.monotonic() > end:
                raise WorkerFailure("TIMEOUT", f"{self.count} workers did not start within {timeout:.0f} s")

    def call(self, job: str, timeout: float, **arguments: Any) -> list[Any]:
        """Runs one job in all workers, and returns their results in order.

        Raises:
            WorkerFailure: one of them raised, or died, or did not answer in time.
        """
        return self.each(job, timeout, [arguments] * self.count)

    def each(self, job: str, timeout: float, arguments: Sequence[dict[str, Any]]) -> list[Any]:
        """As `call`, with arguments per worker."""
        try:
            for rank, fields in enumerate(arguments):
                self._send(rank, Reply(job, fields))
            return self._answers(job, timeout)
        except BaseException:
            self.stop()
            raise

    def _send(self, rank: int, reply: Reply) -> None:
        self._replies[rank] = reply
        try:
            self._links[rank].sendall(reply.request)
        except OSError:
            raise self._death(rank) from None

    def _answers(self, job: str, timeout: float) -> list[Any]:
        end = time.monotonic() + timeout
        results: dict[int, Any] = {}
        failure: WorkerFailure | None = None
        while len(results) < self.count:
            waiting = {link: rank for rank, link in self._links.items() if rank not in results}
            ready, _, _ = select.select(list(waiting), [], [], max(end - time.monotonic(), 0))
            if not ready:
                late = ", ".join(str(rank) for rank in sorted(waiting.values()))
                words = f"no answer to {job} within {timeout:.0f} s from worker {late} of {self.count}"
                raise failure or WorkerFailure("TIMEOUT", words)
            for link in ready:
                rank = waiting[link]
                if not self._read(rank):
                    continue
                try:
                    results[rank] = self._replies[rank].result()
                except WorkerFailure as raised:
                    results[rank] = None
                    failure = failure or self._of(rank, raised)
                    end = min(end, time.monotonic() + GRACE)
        if failure:
            raise failure
        return [results[rank] for rank in range(self.count)]

    def _of(self, rank: int, failure: WorkerFailure) -> WorkerFailure:
        """A failure that names its worker."""
        words = failure.message if self.count == 1 else f"worker {rank} of {self.count}: {failure.message}"
        return WorkerFailure(failure.status, words, failure.operators)

    def _read(self, rank: int) -> bool:
        """Reads a part of a worker's answer; returns whether it is complete."""
        try:
            data = self._links[rank].recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            raise self._death(rank)
        return self._replies[rank].add(data)

    def _death(self, rank: int) -> WorkerFailure:
        words = death.last_words(log_of(self.log, rank))
        oom = any(sign in words for sign in death.OUT_OF_MEMORY)
        status = "OOM" if oom or death.starved(self._oom_kills) else "CRASH"
        how = self._ended(rank)
        return WorkerFailure(status, f"worker {rank} of {self.count} ended{how}{': ' if words else ''}{words}")

    def _ended(self, rank: int) -> str:
        """How a worker ended, if it is its own launcher."""
        if len(self._processes) != self.count:
            return ""
        try:
            code = self._processes[rank].wait(ENDING)
        except subprocess.TimeoutExpired:
            return ""
        return f" with {death.reason(code)}"

    def _launchers_words(self) -> str:
        logs = (self.log.with_suffix(f".launcher{number}.log") for number in range(len(self._processes)))
        return next(filter(None, map(death.last_words, logs)), "it said nothing")

    def stop(self) -> None:
        """Ends the launchers, and with them the workers: each dies with its parent. Waits for them."""
        if self._stopped:
            return
        self._stopped = True
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        end = time.monotonic() + ENDING
        for link in self._links.values():
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_WR)  # a worker that waits for a job reads the end
                link.settimeout(max(end - time.monotonic(), 0.1))
                while link.recv(1 << 20):
                    pass
            link.close()
        for port in self._ports:
            port.close()
        self._stack.close()


def log_of(log: Path, rank: int) -> Path:
    return log.with_suffix(f".rank{rank}.log")


# ***** the workers' half *****


def launch(parent: int, command: list[str]) -> None:
    """Becomes the launcher, which dies with the parent: `exec` keeps that setting."""
    worker.die_with(parent)
    os.execv(command[0], command)


def rank(place: str, threads: int, log: Path) -> None:
    """Connects to the parent, then runs as a worker."""
    parent, number = os.getppid(), int(os.environ["RANK"])
    with log_of(log, number).open("wb") as chatter:
        os.dup2(chatter.fileno(), 1)
        os.dup2(chatter.fileno(), 2)
    if os.environ.get("CUDA_VISIBLE_DEVICES") != "-1":
        os.environ["CUDA_VISIBLE_DEVICES"] = str(number)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus_of(number, threads, machine.allowed()))
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.connect(place)
    link.sendall(str(number).encode())
    worker.main(link.fileno(), link.fileno(), threads, parent)


def cpus_of(number: int, threads: int, allowed: Sequence[int]) -> set[int]:
    """The CPUs of a worker: one per thread, assigned in turn; shared if there are too few."""
    return {allowed[(number * threads + index) % len(allowed)] for index in range(min(threads, len(allowed)))}


if __name__ == "__main__":
    if sys.argv[1] == "launch":
        launch(int(sys.argv[2]), sys.argv[3:])
    else:
        absent.hide(sys.argv[5:])
        rank(sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
