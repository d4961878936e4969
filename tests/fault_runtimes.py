"""Runtimes that misbehave, each in one way. `fault_kit` installs a copy as the third-party module `xbench_faults`.

The true answers come from ONNX's reference evaluator and are computed in `put`; `forward` spoils them.
"""

import itertools
import os
import resource
import signal
import sys
import threading
import time
from abc import abstractmethod

import numpy as np

from xbench.converters import UnsupportedOps
from xbench.runtimes import Row, Runtime

JUNK = b'{"result": 1}\n{"error": "none"}\n' + bytes(range(256)) * 8
PIECE = 64 << 20  # bytes
ALLOWED = 2 << 30  # bytes; less than any machine has that runs these tests


def is_timed() -> bool:
    """Whether this call comes from a block or a load: after the proof and the warm-up."""
    frame = sys._getframe()
    while frame.f_back:
        frame = frame.f_back
        if frame.f_code.co_name in ("block", "load"):
            return True
    return False


def spin() -> None:
    while True:
        pass


class Answers(Runtime):
    """All of a runtime but `forward`."""

    def __init__(self, artifact, options):
        from onnx.reference import ReferenceEvaluator

        self.names = [item["name"] for item in artifact.info["inputs"]]
        self.evaluator = ReferenceEvaluator(str(artifact.onnx))
        self.seconds = float(options.extra.get("seconds", "0"))
        self.first = None

    def prepare(self, inputs, labels, dropout):
        return False

    def put(self, arrays):
        return (self.evaluator.run(None, dict(zip(self.names, arrays, strict=True))),)

    @abstractmethod
    def forward(self, *inputs): ...

    def wait(self, result):
        pass

    def get(self, outputs):
        return list(outputs)


class Raises(Answers):
    def forward(self, *inputs):
        raise ValueError("the kernel is missing\nand more lines\nthat nobody needs")


class Unloadable(Raises):
    def __init__(self, artifact, options):
        raise RuntimeError("cannot load this model")


class Lacks(Raises):
    """A framework that has no convolution."""

    def __init__(self, artifact, options):
        raise UnsupportedOps({"Conv": 2})


class Aborts(Answers):
    def forward(self, *inputs):
        os.abort()


class Exits(Answers):
    def forward(self, *inputs):
        print("leaving now", file=sys.stderr)
        sys.exit(7)


class Leaves(Answers):
    """Ends as if all were well, without an answer."""

    def forward(self, *inputs):
        os._exit(0)


class Hangs(Answers):
    def forward(self, *inputs):
        time.sleep(3600)


class Babbles(Answers):
    """Writes all there is to both streams, as Python and as a C library would, and computes rightly."""

    def forward(self, *inputs):
        print('loading 100%|\r\x1b[2J\n{"result": null}')
        os.write(1, JUNK)
        os.write(2, JUNK)
        return inputs[0]


class Hoards(Answers):
    """Allocates until it is refused."""

    def forward(self, *inputs):
        resource.setrlimit(resource.RLIMIT_DATA, (ALLOWED, resource.RLIM_INFINITY))
        self.first = [np.zeros(PIECE, np.uint8) for _ in itertools.count()]


class Killed(Answers):
    """Dies as one that somebody killed."""

    def forward(self, *inputs):
        os.kill(os.getpid(), signal.SIGKILL)


class KilledParent(Answers):
    """Is killed while a child by fork goes on, which has the ends of its pipes."""

    def forward(self, *inputs):
        if os.fork() == 0:
            time.sleep(300)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)


class Infinite(Answers):
    def forward(self, *inputs):
        return [np.full_like(array, np.nan) for array in inputs[0]]


class WrongFirst(Answers):
    def forward(self, *inputs):
        return [inputs[0][0] * 1.01, *inputs[0][1:]]


class WrongSecond(Answers):
    def forward(self, *inputs):
        return [inputs[0][0], inputs[0][1] * 1.01, *inputs[0][2:]]


class Remembers(Answers):
    """Computes its first answer and repeats it."""

    def forward(self, *inputs):
        self.first = self.first or inputs[0]
        return self.first


class Slow(Answers):
    def forward(self, *inputs):
        time.sleep(self.seconds)
        return inputs[0]


class Spins(Answers):
    """Keeps a thread busy, as pools of threads do that wait for work."""

    def forward(self, *inputs):
        if not self.first:
            self.first = inputs[0]
            threading.Thread(target=spin, daemon=True).start()
        return inputs[0]


class LateWrong(Answers):
    """Right while it is proved, wrong while it is timed."""

    def forward(self, *inputs):
        return [array + 1 for array in inputs[0]] if is_timed() else inputs[0]


class LateRaises(Answers):
    def forward(self, *inputs):
        if is_timed():
            raise ValueError("the kernel is missing")
        return inputs[0]


class Moved(Answers):
    """Wrong on other CPUs, and in another thread, than it was loaded in."""

    def __init__(self, artifact, options):
        super().__init__(artifact, options)
        self.place = self.now()

    def now(self):
        return threading.get_native_id(), os.sched_getaffinity(0)

    def forward(self, *inputs):
        return inputs[0] if self.now() == self.place else [array + 1 for array in inputs[0]]


class LateAbort(Answers):
    def forward(self, *inputs):
        if is_timed():
            os.abort()
        return inputs[0]


class Second(Answers):
    """Aborts in every process but the first."""

    def __init__(self, artifact, options):
        super().__init__(artifact, options)
        self.later = os.path.exists(options.extra["mark"])
        open(options.extra["mark"], "w").close()

    def forward(self, *inputs):
        if self.later:
            os.abort()
        return inputs[0]


class LateHang(Answers):
    def forward(self, *inputs):
        if is_timed():
            time.sleep(3600)
        return inputs[0]


class SlowPut(Slow):
    """Takes long to put inputs on the device."""

    def put(self, arrays):
        time.sleep(0.05)
        return super().put(arrays)


FAKES = {
    "fault_raises": Raises,
    "fault_unloadable": Unloadable,
    "fault_lacks": Lacks,
    "fault_aborts": Aborts,
    "fault_exits": Exits,
    "fault_leaves": Leaves,
    "fault_hangs": Hangs,
    "fault_babbles": Babbles,
    "fault_hoards": Hoards,
    "fault_killed": Killed,
    "fault_killed_parent": KilledParent,
    "fault_infinite": Infinite,
    "fault_wrong_first": WrongFirst,
    "fault_wrong_second": WrongSecond,
    "fault_remembers": Remembers,
    "fault_slow": Slow,
    "fault_spins": Spins,
    "fault_late_wrong": LateWrong,
    "fault_late_raises": LateRaises,
    "fault_late_abort": LateAbort,
    "fault_late_hang": LateHang,
    "fault_second": Second,
    "fault_moved": Moved,
    "fault_slow_put": SlowPut,
}
for _name, _class in FAKES.items():
    globals()[_name] = Row(f"xbench_faults:{_class.__name__}", ("xbench-faults",), "faults", hidden=True)

slow_trainer = Row("xbench_slow:Slow", ("xbench-faults",), "faults", "native", hidden=True)
