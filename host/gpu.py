"""What NVIDIA's driver tells of the GPU that a cell is timed on: who else is on it, its clock, its temperature, whether
it was throttled, its energy. By NVML (`pip install nvidia-ml-py`); without it or a driver nothing is told."""

import contextlib
import functools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xbench.host.clock import now

DRIVER = Path("/proc/driver/nvidia")
BUSY = 0.05  # of the GPU's time, used by others, beyond which a block is disturbed
# nvmlClocksEventReasons: what slows a clock down though there is work. Not power capping in software: so runs every
# GPU under load.
THROTTLED = {0x08: "hardware slowdown", 0x20: "heat", 0x40: "heat", 0x80: "its power supply"}


@dataclass(frozen=True)
class Reading:
    """A GPU at one moment; None where the driver does not tell. `others` are the processes on it that are none of ours,
    None where the driver numbers processes otherwise than this one's system; `busy` is the share of the GPU's time that
    they used in the driver's last samples, `bytes` what is taken of its memory, by whomever. `at` is the clock's."""

    clock_hz: float | None = None
    celsius: float | None = None
    throttled: str | None = None
    others: int | None = None
    busy: float | None = None
    joules: float | None = None
    bytes: int | None = None
    at: float = field(default=0.0, compare=False)


def facts(nvml: Any = None, driver: Path = DRIVER) -> dict[str, Any]:
    """The first GPU that this process may use: `name`, `driver` (its version) and `memory_bytes`; None for each that
    neither NVML nor the driver's files tell."""
    found: dict[str, Any] = dict.fromkeys(("name", "driver", "memory_bytes"))
    if (nvml := nvml or _nvml()) is None:
        return found | _from_files(driver)
    with _untold(nvml):
        handle = _handle(nvml, os.environ.get("CUDA_VISIBLE_DEVICES", ""))
        found["name"] = _text(nvml.nvmlDeviceGetName(handle))
        found["driver"] = _text(nvml.nvmlSystemGetDriverVersion())
        found["memory_bytes"] = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    return found


def _from_files(driver: Path) -> dict[str, Any]:
    """What the kernel's module writes under /proc."""
    lines = [line for path in sorted(driver.glob("gpus/*/information")) for line in _read(path).splitlines()]
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("Model")]
    version = re.search(r"Kernel Module\D*([\d.]+)", _read(driver / "version"))
    return {"name": models[0] if models else None, "driver": version[1] if version else None}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _text(told: str | bytes) -> str:
    """Bytes by older versions of nvidia-ml-py."""
    return told.decode(errors="replace") if isinstance(told, bytes) else told


def look(nvml: Any = None, ours: int | None = None) -> Reading | None:
    """The first GPU that this process may use; None where there is no driver to ask. `ours` is the process whose
    children are ours: the parent of this worker."""
    nvml = nvml or _nvml()
    if nvml is None:
        return None
    try:
        handle = _handle(nvml, os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    except nvml.NVMLError:
        return None
    found: dict[str, Any] = {"at": now()}
    with _untold(nvml):
        found["clock_hz"] = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM) * 1e6
    with _untold(nvml):
        found["celsius"] = float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
    with _untold(nvml):
        reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
        found["throttled"] = next((words for bit, words in THROTTLED.items() if reasons & bit), None)
    with _untold(nvml):
        found["joules"] = nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3
    with _untold(nvml):
        found["bytes"] = int(nvml.nvmlDeviceGetMemoryInfo(handle).used)
    with _untold(nvml):
        on_it = {process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)}
        if os.getpid() in on_it:  # else its numbers are those of another system, outside of this container
            strangers = {process for process in on_it if not _is_ours(process, ours or os.getppid())}
            found |= {"others": len(strangers), "busy": 0.0}
            with _untold(nvml):  # no process has computed lately
                used = nvml.nvmlDeviceGetProcessUtilization(handle, 0)
                found["busy"] = sum(each.smUtil for each in used if each.pid in strangers) / 100
    return Reading(**found)


def between(before: Reading | None, after: Reading | None) -> dict[str, Any] | None:
    """What happened on the GPU between two looks, and how it is now."""
    if before is None or after is None:
        return None
    known = before.joules is not None and after.joules is not None
    told = {name: getattr(after, name) for name in ("clock_hz", "celsius", "others", "busy", "bytes")}
    spent = (after.joules or 0.0) - (before.joules or 0.0) if known else None
    return told | {"throttled": after.throttled or before.throttled, "joules": spent, "seconds": after.at - before.at}


def disturbance(found: dict[str, Any] | None) -> str | None:
    """What disturbed a block on the GPU, or None."""
    if not found:
        return None
    if (found["busy"] or 0.0) > BUSY:
        return f"other processes used {found['busy']:.0%} of its GPU"
    return f"its GPU was throttled by {found['throttled']}" if found["throttled"] else None


@functools.cache
def _nvml() -> Any:
    """The library with the driver open, or None."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def _handle(nvml: Any, visible: str) -> Any:
    """The first GPU of `CUDA_VISIBLE_DEVICES`: numbers, or names of GPUs."""
    first = visible.split(",")[0].strip()
    if first.startswith(("GPU-", "MIG-")):
        return nvml.nvmlDeviceGetHandleByUUID(first)
    return nvml.nvmlDeviceGetHandleByIndex(int(first) if first.isdigit() else 0)


def _is_ours(process: int, parent: int) -> bool:
    """Whether it is xbench's own process, or one of its workers."""
    if process in (os.getpid(), parent):
        return True
    try:
        words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return int(words[1]) == parent


@contextlib.contextmanager
def _untold(nvml: Any) -> Iterator[None]:
    """What a GPU does not tell is left out."""
    with contextlib.suppress(nvml.NVMLError):
        yield
