"""Why a worker ended: by its exit code, by what it said last, and by what the kernel counts.

SIGKILL says nothing of who sent it: the kernel for want of memory, or a user, a batch system, a guard of memory that is
no part of the kernel. Out of memory is only said where the kernel's own count of the processes it has killed for that
has grown.
"""

import os
import re
import signal
from pathlib import Path

ROOT = Path("/")
OUT_OF_MEMORY = ("MemoryError", "bad_alloc", "out of memory", "Out of memory", "Cannot allocate memory", "OutOfMemory")
TAIL = 400  # bytes of a log that may become a message


def oom_kills(root: Path | None = None) -> int | None:
    """How many processes the kernel has killed for want of memory: of this process's own group of them (cgroup) where
    that is counted, which no other program on the machine adds to, else of the machine. None where nobody counts."""
    root = root or ROOT
    for path in (*_counters(root), root / "proc/vmstat"):
        try:
            match = re.search(r"^oom_kill (\d+)$", path.read_text(), re.MULTILINE)
        except OSError:
            continue
        if match:
            return int(match[1])
    return None


def _counters(root: Path) -> list[Path]:
    """Where the kernel counts for this process's cgroup, of version 2 and of 1. A container sees its own as the topmost
    one, whatever it is called outside."""
    mount, paths = root / "sys/fs/cgroup", []
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    for _, controllers, place in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        own = place.lstrip("/")
        if not controllers:
            paths += [mount / own / "memory.events", mount / "memory.events"]
        elif "memory" in controllers.split(","):
            paths += [mount / "memory" / own / "memory.oom_control", mount / "memory" / "memory.oom_control"]
    return paths


def starved(before: int | None) -> bool:
    """Whether the kernel has killed a process for want of memory since it had killed so many."""
    now = oom_kills()
    return before is not None and now is not None and now > before


def killed(what: str, before: int | None) -> tuple[str, str]:
    """The status and the message of what ended by SIGKILL; `before` is `oom_kills()` of a time when it was alive."""
    if starved(before):
        return "OOM", f"out of memory: the kernel killed {what}"
    return "CRASH", f"{what} was killed (signal SIGKILL), by whom is not known"


def cause(code: int, words: str, before: int | None) -> tuple[str, str]:
    """The status and the message of a worker that ended with an exit code, negative for a signal, and said `words`
    last."""
    if code == -signal.SIGKILL:
        return killed("the worker", before)
    if any(sign in words for sign in OUT_OF_MEMORY):
        return "OOM", f"out of memory: {words}"
    return "CRASH", f"the worker ended with {reason(code)}{': ' if words else ''}{words}"


def reason(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def last_words(log: Path) -> str:
    """The last line of a worker's log, as far as it can be printed."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - TAIL, 0))
            data = file.read()
    except OSError:
        return ""
    lines = [line.strip() for line in data.decode(errors="replace").splitlines() if line.strip()]
    return "".join(c for c in lines[-1] if c.isprintable())[:200] if lines else ""
