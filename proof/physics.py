"""Physical limits of a step: the arithmetic and memory reads of this machine, and the resolution of its clock.

The bounds are so wide that no honest runtime reaches them; what exceeds them was not computed while it was timed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xbench.case import Case
from xbench.host import clock
from xbench.proof.contracts import Contract

# Times a float32 probe of the machine's arithmetic. Winograd's F(6x6, 3x3) does 5.06 times fewer multiplications than
# are counted (Lavin, Gray, arXiv 1509.09308); the probe may have had half of its CPUs, at half their clock.
ARITHMETIC = 24
# Arithmetic of a processor in a lower precision relative to float32: TF32 on an H100 7.4 times, float16 15, int8 30;
# AMX against AVX-512 16 and 32.
LOWER = {"fp32": 1, "tf32": 8, "bf16": 16, "fp16": 16, "int8": 32, "int4": 32}
SMALLER = {"bf16": 2, "fp16": 2, "int8": 4, "int4": 8}  # size of weights in float32 relative to that precision
# Times the bandwidth of a copy of large arrays. Reading takes half of a copy, or two thirds if what is written is read
# first; other processes may have used most of the memory's bandwidth.
MEMORY = 8
NEAR = 4  # speed of a GPU's caches and registers together relative to its memory
CACHE = 1e12  # bytes a second that a thread reads from its nearest cache: 128 bytes a cycle at 6 GHz are 0.77e12
CACHES = Path("/sys/devices/system/cpu")


def judge(case: Case, cost: Mapping[str, Any] | None, seconds: float, caches: Path = CACHES) -> Contract:
    """Whether a step may have taken only `seconds`; `cost` is the record's."""
    if seconds <= 2 * clock.resolution():
        return Contract(False, f"a step takes {seconds * 1e9:.3g} ns, which the clock cannot tell from none")
    known = cost or {}
    flop, flops = known.get("flop"), known.get("peak_flops")
    moved, bandwidth = known.get("bytes"), known.get("bandwidth")
    if flop and flops and flop / seconds > flops * ARITHMETIC * LOWER[case.precision]:
        times, most = flop / seconds / flops, ARITHMETIC * LOWER[case.precision]
        return Contract(False, f"computes {times:.3g} times as fast as this machine can, where {most} are excused")
    if moved and bandwidth and flop and flop >= moved / 4:  # else some of its data may never be read
        least = reading(moved / SMALLER.get(case.precision, 1), case, bandwidth, cached(caches))
        if seconds < least:
            words = f"a step takes {_ms(seconds)}, and reading its {moved / 1e6:.3g} MB at least {_ms(least)}"
            return Contract(False, f"reads faster than this machine can: {words}")
    if not (flops and bandwidth):
        return Contract(None, "what this machine can do at best could not be measured")
    return Contract(True) if flop or moved else Contract(None, "nothing it must compute or read is known")


def reading(size: float, case: Case, bandwidth: float, cache: int) -> float:
    """The least seconds to read `size` bytes. What fits into the caches may be there from the step before."""
    if case.device != "cpu":
        return size / (bandwidth * MEMORY * NEAR)
    beyond = max(size - cache, 0.0) if cache else 0.0
    return max(beyond / (bandwidth * MEMORY), size / (CACHE * case.threads))


def cached(caches: Path = CACHES) -> int:
    """The total bytes of all caches of the machine, each counted once, as several CPUs may share it; 0 if the system
    does not report them."""
    sizes = {}
    for path in caches.glob("cpu[0-9]*/cache/index*"):
        try:
            kind, size = ((path / name).read_text().strip() for name in ("type", "size"))
            shared = (path / "shared_cpu_list").read_text().strip()
            level = (path / "level").read_text().strip()
            sizes[level, kind, shared] = int(size.removesuffix("K")) << 10
        except (OSError, ValueError):
            continue
    return sum(sizes.values())


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
