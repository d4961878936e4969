"""Other activity of the machine is read from its counters, and reported if it is a disturbance."""

import dataclasses
import os
from pathlib import Path

import pytest

from xbench.host.health import LEAST, TICK, Reading, between, disturbance, look

TICKS = round(1 / TICK)


def tree(root: Path, busy: int = 0, steal: int = 0, waited: int = 0, throttled: int | None = None) -> Path:
    """The files of a machine whose CPUs 0 and 1 have been busy for `busy` ticks each."""
    files = {
        "proc/stat": "cpu  0 0 0 0 0 0 0 0 0 0\n"
        + "".join(f"cpu{n} {busy} 0 0 9 9 0 0 {steal} 0 0\n" for n in range(3)),
        "proc/self/task/7/schedstat": f"5 {waited} 3\n",
        "proc/self/task/8/schedstat": f"5 {waited} 3\n",
        "sys/class/thermal/thermal_zone0/temp": "41000\n",
        "sys/class/thermal/thermal_zone1/temp": "52500\n",
    }
    for cpu in range(2):
        files[f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq"] = f"{2000000 + cpu * 1000000}\n"
        if throttled is not None:
            files[f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count"] = f"{throttled}\n"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_counters_are_those_of_the_cpus_that_are_asked_for(tmp_path):
    counters = look([0, 1], 1.5, tree(tmp_path, busy=2 * TICKS, steal=TICKS, waited=3 * 10**9, throttled=4))
    assert (counters.own, counters.busy, counters.steal) == (1.5, 4.0, 2.0)
    assert (counters.waited, counters.throttled) == (6.0, 8)


def test_a_machine_that_tells_nothing_gives_nulls(tmp_path):
    shares = between(look([0], 0.0, tmp_path), look([0], 0.0, tmp_path), [0], tmp_path)
    names = ("steal", "others", "waited", "throttled", "clock_hz", "celsius")
    assert [shares[name] for name in names] == [None] * len(names)
    assert disturbance(shares) is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "stat").write_text("cpu0 1 2\n")  # a kernel with fewer counters
    assert look([0], 0.0, tmp_path).busy is None


def test_shares_are_of_what_the_cpus_could_do(tmp_path):
    before = Reading(10.0, 1.0, 0.5, 100.0, 3.0, 2)
    after = Reading(11.0, 1.8, 0.9, 101.2, 3.2, 5)
    shares = between(before, after, [0, 1], tree(tmp_path))
    assert (shares["others"], shares["waited"], shares["steal"]) == pytest.approx((0.2, 0.2, 0.1))
    assert (shares["throttled"], shares["wall_s"], shares["clock_hz"], shares["celsius"]) == (3, 1.0, 2.5e9, 52.5)
    short = between(before, dataclasses.replace(after, wall=10 + LEAST / 2), [0, 1], tmp_path)
    assert short["others"] is short["waited"] is short["steal"] is None


def usage(wall_s: float = 1.0, **shares) -> dict:
    return {"steal": 0.0, "others": 0.0, "waited": 0.0, "throttled": 0, "wall_s": wall_s, **shares}


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (usage(), None),
        (usage(others=0.3, waited=0.3), "other processes used 30% of its CPUs"),
        (usage(others=0.3, waited=0.01), None),  # on CPUs that it did not need
        (usage(others=0.01, waited=0.4), None),  # its own threads wait for one another
        (usage(0.1, others=0.14, waited=0.14), None),  # a tick of 10 ms may be missing
        (usage(steal=0.1), "the hypervisor took 10% of its CPUs"),
        (usage(steal=0.015), None),
        (usage(0.1, steal=0.1), None),
        (usage(throttled=2), "its CPUs were throttled"),
        (usage(steal=None, others=None, waited=None, throttled=None), None),
    ],
)
def test_what_is_called_a_disturbance(found, says):
    assert disturbance(found) == says


def test_this_machine_tells_or_says_that_it_does_not():
    cpus = sorted(os.sched_getaffinity(0))
    before = look(cpus, 0.0)
    shares = between(before, look(cpus, 0.0), cpus)
    assert shares["wall_s"] > 0 and shares["load"] >= 0
    assert all(shares[name] is None for name in ("steal", "others", "waited"))
