"""The time of a piece of work excludes waiting for a CPU, and is never less than the CPU time."""

import pytest

from xbench.host import machine, stopwatch
from xbench.host.stopwatch import Stopwatch


class Clocks:
    """The three clocks of a machine, set by hand."""

    wall = waited = computed = 0.0


@pytest.fixture
def clocks(monkeypatch):
    monkeypatch.setattr(stopwatch, "now", lambda: Clocks.wall)
    monkeypatch.setattr(stopwatch, "kept_waiting", lambda: Clocks.waited)
    monkeypatch.setattr(stopwatch, "used", lambda: Clocks.computed)
    monkeypatch.setattr(machine, "allowed", lambda: [0, 1])
    return Clocks


@pytest.mark.parametrize(
    ("passed", "took"),
    [
        ((0.05, 0.0, 0.05), 0.05),  # it computed all the time
        ((0.05, 0.0, 0.0), 0.05),  # asleep: another process may have computed for it
        ((0.05, 0.049, 0.001), 0.001),  # another process had the CPU
        ((0.05, 0.045, 0.1), 0.05),  # threads of its own had both CPUs meanwhile
        ((0.05, 0.07, 0.0), 0.0),  # clocks that do not agree by a little
        ((0.05, 0.0, 0.3), 0.05),
    ],
)
def test_what_counts(clocks, passed, took):
    watch = Stopwatch()
    clocks.wall, clocks.waited, clocks.computed = (
        a + b for a, b in zip((clocks.wall, clocks.waited, clocks.computed), passed, strict=True)
    )
    assert watch.seconds() == pytest.approx(passed[0])
    assert watch.worked() == pytest.approx(took, abs=1e-9)


def test_the_system_tells_all_three():
    watch = Stopwatch()
    total = sum(number * number for number in range(200_000))
    assert total and 0 < watch.worked() <= watch.seconds()
