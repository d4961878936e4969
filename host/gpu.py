"""State of the GPU that a cell is timed on: other processes, clock, temperature, throttling, energy. Read from NVIDIA's
driver by NVML (`pip install nvidia-ml-py`); without NVML or a driver there is no data."""

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
BUSY = 0.05  # of the GPU's time, used by other processes; above it a block is disturbed
# nvmlClocksEventReasons: what lowers the clock under load. Not power capping in software: every GPU does that
# under load.
THROTTLED = {0x08: "hardware slowdown", 0x20: "heat", 0x40: "heat", 0x80: "its power supply"}


@dataclass(frozen=True)
class Reading:
    """A GPU at one moment; None for what the driver does not report. `others` counts the processes on it that are not
    xbench's, None if the driver numbers processes differently from this system; `busy` is the share of the GPU's time
    that they used in the driver's last samples, `bytes` its memory in use by all processes. `at` is clock time."""

    clock_hz: float | None = None
    celsius: float | None = None
    throttled: str | None = None
    others: int | None = None
    busy: float | None = None
    joules: float | None = None
    bytes: int | None = None
    at: float = field(default=0.0, compare=False)


def facts(nvml: Any = None, driver: Path = DRIVER) -> dict[str, Any]:
    """The first GPU that this process may use: `name`, `driver` (its version) and `memory_bytes`; None for each that is
    in neither NVML nor the driver's files."""
    properties: dict[str, Any] = dict.fromkeys(("name", "driver", "memory_bytes"))
    if (nvml := nvml or _nvml()) is None:
        return properties | _from_files(driver)
    with _optional(nvml):
        handle = _handle(nvml, os.environ.get("CUDA_VISIBLE_DEVICES", ""))
        properties["name"] = _text(nvml.nvmlDeviceGetName(handle))
        properties["driver"] = _text(nvml.nvmlSystemGetDriverVersion())
        properties["memory_bytes"] = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    return properties


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


def _text(value: str | bytes) -> str:
    """Older nvidia-ml-py versions return bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def look(nvml: Any = None, ours: int | None = None) -> Reading | None:
    """A reading of the first GPU that this process may use; None if there is no driver. `ours` is the process whose
    children belong to xbench: the parent of this worker."""
    nvml = nvml or _nvml()
    if nvml is None:
        return None
    try:
        handle = _handle(nvml, os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    except nvml.NVMLError:
        return None
    fields: dict[str, Any] = {"at": now()}
    with _optional(nvml):
        fields["clock_hz"] = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM) * 1e6
    with _optional(nvml):
        fields["celsius"] = float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
    with _optional(nvml):
        reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
        fields["throttled"] = next((words for bit, words in THROTTLED.items() if reasons & bit), None)
    with _optional(nvml):
        fields["joules"] = nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3
    with _optional(nvml):
        fields["bytes"] = int(nvml.nvmlDeviceGetMemoryInfo(handle).used)
    with _optional(nvml):
        processes = {process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)}
        if os.getpid() in processes:  # else the numbers are those of another system, outside this container
            others = {process for process in processes if not _is_own(process, ours or os.getppid())}
            fields |= {"others": len(others), "busy": 0.0}
            with _optional(nvml):  # raises if no process has computed recently
                samples = nvml.nvmlDeviceGetProcessUtilization(handle, 0)
                fields["busy"] = sum(each.smUtil for each in samples if each.pid in others) / 100
    return Reading(**fields)


def between(before: Reading | None, after: Reading | None) -> dict[str, Any] | None:
    """What happened on the GPU between two readings, and its current state."""
    if before is None or after is None:
        return None
    known = before.joules is not None and after.joules is not None
    state = {name: getattr(after, name) for name in ("clock_hz", "celsius", "others", "busy", "bytes")}
    spent = (after.joules or 0.0) - (before.joules or 0.0) if known else None
    return state | {"throttled": after.throttled or before.throttled, "joules": spent, "seconds": after.at - before.at}


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


def _is_own(process: int, parent: int) -> bool:
    """Whether it is xbench's own process, or one of its workers."""
    if process in (os.getpid(), parent):
        return True
    try:
        words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return int(words[1]) == parent


@contextlib.contextmanager
def _optional(nvml: Any) -> Iterator[None]:
    """Skips a value that the GPU does not report."""
    with contextlib.suppress(nvml.NVMLError):
        yield
