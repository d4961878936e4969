"""Facts of the machine and of the installed packages that every record includes. Nothing is guessed."""

import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from xbench.host import gpu

CGROUPS, MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def cpus() -> int:
    """How many CPUs this process may use: the affinity mask, cut by the cgroup's quota."""
    quota = _quota()
    return max(1, min(len(allowed()), int(quota))) if quota else len(allowed())


def allowed() -> list[int]:
    """The numbers of the CPUs in the affinity mask."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [*range(os.cpu_count() or 1)]


def _quota(root: Path = CGROUPS, membership: Path = MEMBERSHIP) -> float | None:
    """The smallest CPU limit, in CPUs, of the cgroups this process is in and of those around them, version 2 or 1; None
    if there is none. A container may see its host's paths there, which it does not have: then its own root counts.
    """
    limits = []
    for line in _read(membership).splitlines():
        _, controllers, place = line.split(":", 2)
        kinds = controllers.split(",")
        if "cpu" not in kinds and controllers:
            continue
        names = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if controllers else ("cpu.max",)
        for top in {root / controllers, root / "cpu"} if controllers else (root, root / "unified"):
            inside = Path(place.strip("/"))
            limits += [_limit(top / each, names) for each in (inside, *inside.parents)]
    return min((limit for limit in limits if limit), default=None)


def _limit(group: Path, names: tuple[str, ...]) -> float | None:
    """The limit of one cgroup, microseconds of quota per period in microseconds."""
    words = " ".join(_read(group / name) for name in names).split()
    return float(words[0]) / float(words[1]) if len(words) == 2 and words[0] not in ("max", "-1") else None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def facts(device: str) -> dict[str, Any]:
    """The facts of `describe`, and on `cuda` also the `gpu`."""
    return describe() | ({"gpu": gpu.facts()} if device == "cuda" else {})


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


def label(facts: Mapping[str, Any] | None) -> str:
    """The machine of a record in words: the name that `xbench import --as` gave it, else its GPU, if it was used, its
    CPU and the number of CPUs."""
    facts = facts or {}
    if facts.get("name"):
        return str(facts["name"])
    count = facts.get("cpus")
    number = "" if count is None else f", {count} CPU{'s' * (count != 1)}"
    on_gpu = f"{facts['gpu'].get('name') or 'unknown GPU'}, " if facts.get("gpu") else ""
    return f"{on_gpu}{facts.get('cpu') or 'unknown machine'}{number}"


def processor(device: str) -> str:
    """The name of the processor of a device: the CPU, and on `cuda` also the GPU."""
    known = facts(device)
    return label({"cpu": known["cpu"], "gpu": known.get("gpu")})


def _cpu_name() -> str:
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def channel_block() -> int | None:
    """How many channels ONNX Runtime puts side by side on this CPU, as many float32 as it likes in a vector; None if it
    never does, or if that is not known. (MLAS, core/mlas/lib/platform.cpp)"""
    if platform.machine() in ("aarch64", "arm64"):
        return 16
    words = {
        word for line in _read(Path("/proc/cpuinfo")).splitlines() if line.startswith("flags") for word in line.split()
    }
    return 16 if "avx512f" in words else 8 if "avx" in words else None


def available_memory() -> int:
    """Bytes that can be taken without swapping."""
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def has_cuda() -> bool:
    """Whether the driver shows an NVIDIA GPU; no framework is imported."""
    return Path("/dev/nvidia0").exists() or Path("/dev/nvidiactl").exists()


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    installed = {}
    for name in packages:
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return installed
