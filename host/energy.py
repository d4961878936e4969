"""Energy from the counters of the processor: Linux' powercap tree (Intel's RAPL, which AMD's driver serves too).

A package's counter covers everything the package does: neither other load of the machine nor idle power can be
subtracted. Memory and GPUs are not included. Only root may read the counters, since they leak secrets (CVE-2020-8694),
and virtual machines have none: then there is no number.

Source: Documentation/power/powercap/powercap.rst of Linux.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path("/sys/class/powercap")
ZONE = re.compile(r"intel-rapl:\d+")  # a package or the platform; `intel-rapl-mmio:0` is the same counter again


class Counter(NamedTuple):
    """A counter at one moment: microjoules, and where it wraps to zero."""

    energy: int
    end: int


def read(root: Path = ROOT) -> dict[str, Counter]:
    """The counters of all packages by zone; empty if there are none or one cannot be read."""
    counters = {}
    try:
        for zone in sorted(each for each in root.iterdir() if ZONE.fullmatch(each.name)):
            if (zone / "name").read_text().startswith("package"):
                energy, end = ((zone / name).read_text() for name in ("energy_uj", "max_energy_range_uj"))
                counters[zone.name] = Counter(int(energy), int(end))
    except (OSError, ValueError):
        return {}
    return counters


def between(before: Mapping[str, Counter], after: Mapping[str, Counter]) -> float | None:
    """Joules that all packages took between two moments, if no counter wrapped twice; None if there are no counters, or
    not the same ones."""
    if not before or before.keys() != after.keys():
        return None
    deltas = [after[zone].energy - before[zone].energy for zone in before]
    ends = [before[zone].end for zone in before]
    return sum(spent if spent >= 0 else spent + end for spent, end in zip(deltas, ends, strict=True)) / 1e6
