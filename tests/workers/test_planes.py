"""The planes: where a step's time is measured."""

import json

import numpy as np

from xbench.case import Case
from xbench.proof.record import impossible
from xbench.workers import timing
from xbench.workers.cell import Cell, step_of


class Ticking:
    """A runtime on a device by whose clock every step takes a quarter of a second."""

    def __init__(self):
        self.calls = []

    def put(self, arrays):
        return tuple(arrays)

    def forward(self, *inputs):
        self.calls.append("forward")
        return inputs

    def wait(self, result):
        self.calls.append("wait")

    def by_events(self, step):
        self.calls.append("begin")
        step()
        self.calls.append("end")
        return 0.25


def test_on_the_plane_device_a_step_lies_between_two_events_and_has_the_time_of_the_device():
    runtime, reference = Ticking(), {"input/0": np.zeros(1, np.float32)}
    step = step_of(Cell(None, runtime, "forward", [reference], plane="device"), reference)
    assert timing.sample([step], 10.0, 3) == [0.25] * 3
    assert runtime.calls == ["begin", "forward", "wait", "end"] * 3


def test_what_a_step_returns_that_is_no_time_is_no_time():
    ticks = iter(range(100))
    assert timing.sample([lambda: np.float32(7)], 1.5, 5, clock=lambda: float(next(ticks))) == [1.0]


def test_who_cannot_read_the_clock_of_a_device_says_so(lenet, shell):
    message = "torch cannot read the clock of cpu: it has the planes resident and host"
    assert impossible(Case("lenet", "torch", plane="device"), lenet) == message
    assert impossible(Case("lenet", "torch", plane="device", device="cuda"), lenet) is None
    assert "jax cannot" in str(impossible(Case("lenet", "jax", plane="device", device="cuda"), lenet))
    words = ("time", "lenet", "--runtime", "torch", "--mode", "forward", "--plane", "device", "--json")
    (row,) = json.loads(shell.run(*words).stdout)
    assert (row["status"], row["message"]) == ("UNSUPPORTED", message)
