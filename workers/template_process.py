"""The process of a template: it forks a worker for each request of its parent (`template.py`).

It has no threads and no state of a framework but what importing leaves, so its forks can go on. It ends with its
parent, and its workers with it.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from dataclasses import dataclass
from typing import Any

from xbench.host import process_tree
from xbench.workers import absent, marks, template, worker

BYTES = 1 << 18  # of a request


@dataclass
class Child:
    """A forked worker: a descriptor that is readable once it has ended, and the socket to its parent."""

    pid: int
    end: int
    link: socket.socket
    ended: bool = False

    def report(self) -> None:
        """Sends its exit code, negative for a signal. It stays a zombie, so that nothing else gets its number."""
        how = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        assert how
        code = how.si_status if how.si_code == os.CLD_EXITED else -how.si_status
        self.ended = True
        with contextlib.suppress(OSError):
            self.link.send(str(code).encode())

    def release(self) -> None:
        """The parent needs it no more."""
        if not self.ended:
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.close()

    def close(self) -> None:
        os.close(self.end)
        self.link.close()


def main(link: socket.socket, threads: int, parent: int) -> None:
    worker.die_with(parent)
    process_tree.adopt()
    worker.pin(threads)
    own, pipes = os.getpid(), _serve(link)
    if pipes:  # this is a fork
        requests, answers = pipes
        marks.OUT[:] = [answers]
        worker.main(requests, answers, threads, own)


def _serve(link: socket.socket) -> tuple[int, int] | None:
    """Serves requests until the parent closes the socket. Returns in each fork, with its two pipes."""
    children: list[Child] = []
    while True:
        ends = [each.end for each in children if not each.ended]
        links: list[Any] = [link, *(each.link for each in children)]
        ready, _, _ = select.select([*links, *ends], [], [])
        for child in [each for each in children if each.end in ready]:
            child.report()
        for child in [each for each in children if each.link in ready]:
            child.release()
            children.remove(child)
        if link not in ready:
            continue
        request, files, _, _ = socket.recv_fds(link, BYTES, 4)
        if not request:
            return None
        wanted = json.loads(request)
        _set(wanted["variables"], wanted["folder"])
        if not _imported(wanted["modules"]):  # the workers that there are go on
            for each in files:
                os.close(each)
            continue
        requests, answers, log, other = files
        gc.freeze()  # else the next collection copies every page
        own = os.getpid()
        if (pid := os.fork()) == 0:
            worker.die_with(own)
            _leave(link, children)
            _enter(wanted["mark"], log, socket.socket(fileno=other))
            return requests, answers
        children.append(Child(pid, os.pidfd_open(pid), socket.socket(fileno=other)))
        for each in (requests, answers, log):
            os.close(each)


def _set(variables: dict[str, str], folder: str | None) -> None:
    """Makes this process what its next worker is to be: it may be of another command than the last one."""
    for name in [name for name in os.environ if template.is_late(name) and name != process_tree.VARIABLE]:
        del os.environ[name]
    os.environ.update(variables)
    if "tempfile" in sys.modules:
        vars(sys.modules["tempfile"])["tempdir"] = None  # it remembers TMPDIR
    if folder:
        with contextlib.suppress(OSError):
            os.chdir(folder)


def _imported(modules: list[str]) -> bool:
    """Whether they can be imported. A worker that is started as any other reports what is wrong."""
    try:
        for name in modules:
            importlib.import_module(name)
    except BaseException:
        return False
    return True


def _leave(link: socket.socket, children: list[Child]) -> None:
    """Closes what belongs to the template."""
    link.close()
    for child in children:
        child.close()


def _enter(mark: str, log: int, link: socket.socket) -> None:
    """Makes a fork what a started process is: in a session of its own, with its log, its mark and random numbers."""
    os.setsid()
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    os.environ[process_tree.VARIABLE] = mark
    sys.argv[1:] = []
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()  # Python's own are drawn from a new seed after a fork
    with link:
        link.send(str(os.getpid()).encode())


if __name__ == "__main__":
    absent.hide(sys.argv[4:])
    main(socket.socket(fileno=int(sys.argv[1])), *map(int, sys.argv[2:4]))
