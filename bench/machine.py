"""Facts of the machine and of the installed packages that belong into every record. Nothing is guessed."""

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any


def cpus() -> int:
    """How many CPUs this process may use: the affinity mask, cut by the cgroup's quota."""
    quota = _quota()
    return max(1, min(len(allowed()), int(quota))) if quota else len(allowed())


def allowed() -> list[int]:
    """The numbers of the CPUs in the affinity mask."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [*range(os.cpu_count() or 1)]


def _quota() -> float | None:
    """The cgroup's CPU limit in CPUs, version 2 or 1; None where there is none."""
    for folder, names in (
        ("/sys/fs/cgroup", ("cpu.max",)),
        ("/sys/fs/cgroup/cpu", ("cpu.cfs_quota_us", "cpu.cfs_period_us")),
    ):
        words = " ".join(_read(Path(folder, name)) for name in names).split()
        if len(words) == 2 and words[0] not in ("max", "-1"):
            return float(words[0]) / float(words[1])
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def describe() -> dict[str, Any]:
    """CPU, cores, memory, operating system, Python and load."""
    return {
        "cpu": _cpu_name(),
        "cpus": cpus(),
        "governor": _read(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")) or None,
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "load": list(os.getloadavg()),
        "os": platform.platform(),
        "python": platform.python_version(),
    }


def _cpu_name() -> str:
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def available_memory() -> int:
    """Bytes that can be taken without swapping."""
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def has_cuda() -> bool:
    """Whether the driver shows an NVIDIA GPU; asks no framework."""
    return Path("/dev/nvidia0").exists() or Path("/dev/nvidiactl").exists()


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
