"""Templates: processes that have imported a framework, from which the workers that time nothing are forked.

Importing a framework takes seconds, longer than most proofs. All such workers of a command share one import
(`template_process.py` is the other half). A worker whose times count is never forked: what it loads is a part of
them. Nor is one on a GPU. A runtime of a third party is imported after the fork: which frameworks go on after one is
known of our own alone (`Row.preload`).
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from xbench.host import process_tree
from xbench.workers import starter

CAN_FORK = sys.platform == "linux" and hasattr(os, "pidfd_open")
IMPORTS = 120.0  # seconds that imports may take; after that a worker is started as any other
REPORT = 60.0  # seconds in which a template reports the end of a worker that was killed
BYTES = 64  # of an answer
SET_ASIDE = "set aside"
MOST = 8  # templates that are kept for later commands: each takes some hundred megabytes
NONE: Mapping[str, str] = MappingProxyType({})
PLAIN = ("numpy", "onnx", "xbench.workers.jobs.cell")  # modules for a runtime whose own are not imported before a fork

# Variables that no import reads: a worker gets those of its command after the fork. With another value of any other
# variable there is another template.
LATE = {"TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "COLUMNS", "LINES", "PWD", "OLDPWD", "_"}
LATE_BEGINNINGS = ("XBENCH_", "PYTEST_")

ALIVE: set["Template"] = set()


class Forked:
    """A forked worker, as `subprocess.Popen` presents a process. Its number is not reused before `wait` or `poll` has
    returned its exit code, which is negative for a signal."""

    def __init__(self, pid: int, link: socket.socket) -> None:
        self.pid, self._link = pid, link
        self._code: int | None = None

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end; without `timeout` it must have been killed, and is taken for ended after a minute.

        Raises:
            subprocess.TimeoutExpired: it has not ended within `timeout` seconds.
        """
        if self._code is None:
            if not select.select([self._link], [], [], REPORT if timeout is None else timeout)[0]:
                if timeout is not None:
                    raise subprocess.TimeoutExpired("a worker", timeout)
                self._code = -signal.SIGKILL  # its template hangs; it ends the worker when it finds the link closed
                self._link.close()
                return self._code
            self._code = int(_received(self._link) or -signal.SIGKILL)  # a worker dies with its template
            self._link.close()
        return self._code


@dataclass(frozen=True)
class Start:
    """How a process is started: with which variables, threads and absent packages."""

    python: str
    variables: Mapping[str, str]
    threads: int
    without: tuple[str, ...]

    def key(self) -> tuple[str, ...]:
        variables = (f"{name}={value}" for name, value in sorted(self.variables.items()) if not is_late(name))
        allowed = map(str, sorted(os.sched_getaffinity(0)))  # which a later command may change
        return (self.python, str(self.threads), *allowed, *self.without, *variables)

    def late(self) -> dict[str, str]:
        return {name: value for name, value in self.variables.items() if is_late(name)}


def is_late(name: str) -> bool:
    return name in LATE or name.startswith(LATE_BEGINNINGS)


class Template:
    """One such process. It imports what a worker needs before it is forked, in addition to what earlier ones needed."""

    def __init__(self, start: Start) -> None:
        self._mark = uuid.uuid4().hex
        self._forks: list[Forked] = []
        self._unanswered = False
        self._link, other = _pair()
        with other, contextlib.ExitStack() as undo:
            undo.callback(self._link.close)
            numbers = map(str, (other.fileno(), start.threads, os.getpid()))
            self._process = starter.started(
                [start.python, "-P", "-m", "xbench.workers.template_process", *numbers, *start.without],
                (),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(other.fileno(),),
                env={**start.variables, process_tree.VARIABLE: self._mark},
                start_new_session=True,
            )
            undo.pop_all()
        ALIVE.add(self)

    def fork(
        self, modules: Sequence[str], mark: str, files: Sequence[int], late: Mapping[str, str] = NONE
    ) -> Forked | None:
        """A worker that has imported the modules; None if they cannot be imported. `files` are its pipes, of requests
        and of answers, and its log; `late` its variables that differ from those of earlier workers."""
        link, other = _pair()
        self._unanswered = True
        request = {"mark": mark, "modules": modules, "variables": dict(late), "folder": _current_folder()}
        try:
            with other, contextlib.suppress(OSError):  # it has ended
                socket.send_fds(self._link, [json.dumps(request).encode()], [*files, other.fileno()])
            if select.select([link], [], [], IMPORTS)[0] and (number := _received(link)):
                self._unanswered = False
                self._forks = [*(each for each in self._forks if each.poll() is None), Forked(int(number), link)]
                return self._forks[-1]
        except BaseException:
            link.close()  # which ends a worker that is being forked
            raise
        link.close()
        return None

    def kill(self) -> None:
        """Ends it, and all that it and its workers have started."""
        process_tree.send(self._process.pid, signal.SIGKILL, self._mark, self._process.poll() is not None)

    def is_idle(self) -> bool:
        """Whether it is there, does nothing, and all its workers have ended."""
        ended = all(each.poll() is not None for each in self._forks)
        return ended and not self._unanswered and self._process.poll() is None

    def close(self) -> None:
        ALIVE.discard(self)
        self.kill()
        self._process.wait()
        self._link.close()


@dataclass
class Templates:
    """The templates of a command: one per framework and environment, started when first needed. Threads may share
    them."""

    _made: dict[tuple[str, ...], Template | None] = field(default_factory=dict)  # None: its imports fail
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def fork(
        self,
        modules: Sequence[str],
        start: Start,
        mark: str,
        files: Sequence[int],
        ends: Sequence[int],
    ) -> Forked | None:
        """A worker that has imported the modules, the first of which names its template; None if it must be started as
        any other. If this raises, even because the caller is interrupted, the descriptors `ends` are closed."""
        if not (modules and CAN_FORK):
            return None
        key = (modules[0], *start.key())
        try:
            template = self._of(key, start)
            forked = template.fork(modules, mark, files, start.late()) if template else None
        except BaseException:
            for each in ends:
                os.close(each)
            raise
        if template and not forked:
            self._set_aside(key, template)
        return forked

    def _set_aside(self, key: tuple[str, ...], template: Template) -> None:
        """Forks no more of it. The workers that it has go on."""
        with self._turn:
            if self._made.get(key) is template:
                self._made[(*key, SET_ASIDE)] = template
                self._made[key] = None

    def _of(self, key: tuple[str, ...], start: Start) -> Template | None:
        with self._turn:
            if key not in self._made:
                try:
                    self._made[key] = _taken(key) or Template(start)
                except OSError:
                    self._made[key] = None
            return self._made[key]

    def close(self) -> None:
        while self._made:
            key, template = self._made.popitem()
            if template and not _is_kept(key, template):
                template.close()


KEPT: list[dict[tuple[str, ...], Template]] = []
TURN = threading.Lock()


def _forget() -> None:
    for each in KEPT:
        each.clear()


os.register_at_fork(after_in_child=_forget)  # they belong to the process that has started them


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Within it, the commands of this process share templates: those of a command that has ended are used by later
    ones, which import nothing again."""
    KEPT.append({})
    try:
        yield
    finally:
        for each in KEPT.pop().values():
            each.close()


def _is_kept(key: tuple[str, ...], template: Template) -> bool:
    """Keeps a template whose command has ended, if templates are kept and nothing of the command is left in it."""
    with TURN:
        if not KEPT or key in KEPT[-1] or key[-1] == SET_ASIDE or not template.is_idle():
            return False
        while len(KEPT[-1]) >= MOST:
            KEPT[-1].pop(next(iter(KEPT[-1]))).close()  # the one that was used longest ago
        ALIVE.discard(template)  # an interrupted command does not end it
        KEPT[-1][key] = template
        return True


def _taken(key: tuple[str, ...]) -> Template | None:
    """A kept template, which is no longer kept."""
    with TURN:
        template = KEPT[-1].pop(key, None) if KEPT else None
    if template and not template.is_idle():
        template.close()
        return None
    if template:
        ALIVE.add(template)
    return template


def kill_all() -> None:
    for each in list(ALIVE):
        each.kill()


def _current_folder() -> str | None:
    """None if it was removed."""
    try:
        return str(Path.cwd())
    except OSError:
        return None


def _pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _received(link: socket.socket) -> bytes:
    try:
        return link.recv(BYTES)
    except OSError:
        return b""
