"""The thread that starts all workers of this process, and ends a worker that nobody waits for any more.

Linux ends a process with the thread that started it (`worker.die_with`), so one thread that lives as long as the
process starts them all. A signal may interrupt its caller between any two bytecodes: a pool's locks would then stay
locked, or the process would wait for the pool's thread when it ends. So only calls that are atomic in
Python are used: a thread that Python does not wait for, and `SimpleQueue`.
"""

import _thread
import contextlib
import functools
import os
import queue
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

PATIENCE = 10.0  # seconds that an interrupted command waits for the process that it was starting


def started(command: Sequence[str], ends: Sequence[int], **settings: Any) -> "subprocess.Popen[bytes]":
    """A new process, with the settings of `subprocess.Popen`. If this raises, even because the caller is interrupted,
    the process is ended and the descriptors `ends` are closed.

    Raises:
        OSError: there is no such program, or it cannot be run.
    """
    start = _Start(command, ends, settings)
    try:
        _requests(os.getpid()).put(start)
        start.ready.get()
        if start.error:
            raise start.error
        assert start.process
        return start.process
    except BaseException:
        start.abandon()
        raise


class _Start:
    """A process to be started."""

    def __init__(self, command: Sequence[str], ends: Sequence[int], settings: dict[str, Any]) -> None:
        self.command, self.settings = command, settings
        self.abandoned = self.finished = False
        self.process: subprocess.Popen[bytes] | None = None
        self.error: BaseException | None = None
        self.ready = queue.SimpleQueue[None]()
        self._ends = [list(ends)]  # taken by the one that closes them

    def run(self) -> None:
        try:
            self.process = subprocess.Popen(self.command, **self.settings)
        except BaseException as error:
            self.error = error
        if self.abandoned:
            self._end()
        self.finished = True
        self.ready.put(None)

    def abandon(self) -> None:
        """Ends the process, or leaves that to the thread that starts it."""
        self.abandoned = True
        try:
            if not self.finished:
                self.ready.get(timeout=PATIENCE)
        except queue.Empty:
            return
        self._end()

    def _end(self) -> None:
        with contextlib.suppress(IndexError):
            for each in self._ends.pop():
                os.close(each)
            if self.process:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


@functools.cache
def _requests(process: int) -> "queue.SimpleQueue[_Start]":
    """The queue of the thread of this process. A forked process has a thread of its own."""
    requests = queue.SimpleQueue[_Start]()
    _thread.start_new_thread(_serve, (requests,))
    return requests


def _serve(requests: "queue.SimpleQueue[_Start]") -> None:
    while True:
        requests.get().run()
