"""Why a worker ended: by its exit code, its last output, and the kernel's counters.

SIGKILL does not say who sent it: the kernel when memory is short, a user, a batch system, or a memory guard outside the
kernel. Out of memory is only reported if the kernel's own count of the processes it has killed for that
has grown.
"""

import os
import re
import signal
from pathlib import Path

ROOT = Path("/")
OUT_OF_MEMORY = ("MemoryError", "bad_alloc", "out of memory", "Out of memory", "Cannot allocate memory", "OutOfMemory")
TAIL = 400  # last bytes of a log, for a message


def oom_kills(root: Path | None = None) -> int | None:
    """How many processes the kernel has killed because memory was short: in this process's own cgroup if that is
    counted, as no other program on the machine adds to it, else on the machine. None if nothing is counted."""
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
    """The kernel's counters for this process's cgroup, of version 2 and 1. A container sees its own as the topmost
    one, whatever its name outside."""
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
    """Whether the kernel has killed more processes for lack of memory than `before`."""
    now = oom_kills()
    return before is not None and now is not None and now > before


def killed(what: str, before: int | None) -> tuple[str, str]:
    """The status and the message of a process that SIGKILL ended; `before` is `oom_kills()` while it was alive."""
    if starved(before):
        return "OOM", f"out of memory: the kernel killed {what}"
    return "CRASH", f"{what} was killed (signal SIGKILL), by whom is not known"


def cause(code: int, words: str, before: int | None) -> tuple[str, str]:
    """The status and message of a worker that ended with an exit code, negative for a signal; `words` are its
    last output."""
    if code == -signal.SIGKILL:
        return killed("the worker", before)
    if any(sign in words for sign in OUT_OF_MEMORY):
        return "OOM", f"out of memory: {words}"
    return "CRASH", f"the worker ended with {reason(code)}{': ' if words else ''}{words}"


def reason(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def last_words(log: Path) -> str:
    """The printable part of the last line of a worker's log."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - TAIL, 0))
            data = file.read()
    except OSError:
        return ""
    lines = [line.strip() for line in data.decode(errors="replace").splitlines() if line.strip()]
    return "".join(c for c in lines[-1] if c.isprintable())[:200] if lines else ""
