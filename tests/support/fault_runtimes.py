"""Runtimes that misbehave, each in one way. `fault_kit` installs a copy as the third-party module `xbench_faults`.

The true answers come from ONNX Runtime, in one thread; `forward` spoils them. But for its fault each is an honest
adapter, which computes between `forward` and `wait`: nothing excuses it from the audit.
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
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        self.names = [item["name"] for item in artifact.info["inputs"]]
        self.session = onnxruntime.InferenceSession(artifact.onnx, settings, providers=["CPUExecutionProvider"])
        self.seconds = float(options.extra.get("seconds", "0"))
        self.first = None

    def prepare(self, inputs, labels, dropout):
        return False

    def put(self, arrays):
        return tuple(array.copy() for array in arrays)

    def right(self, inputs):
        return self.session.run(None, dict(zip(self.names, inputs, strict=True)))

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
        return self.right(inputs)


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
        return [np.full_like(array, np.nan) for array in self.right(inputs)]


class WrongFirst(Answers):
    def forward(self, *inputs):
        first, *others = self.right(inputs)
        return [first * 1.01, *others]


class WrongSecond(Answers):
    def forward(self, *inputs):
        first, second, *others = self.right(inputs)
        return [first, second * 1.01, *others]


class Remembers(Answers):
    """Computes its first answer and repeats it."""

    def forward(self, *inputs):
        self.first = self.first or self.right(inputs)
        return self.first


class Slow(Answers):
    def forward(self, *inputs):
        time.sleep(self.seconds)
        return self.right(inputs)


class Spins(Answers):
    """Keeps a thread busy, as pools of threads do that wait for work."""

    def forward(self, *inputs):
        if not self.first:
            self.first = inputs
            threading.Thread(target=spin, daemon=True).start()
        return self.right(inputs)


class LateWrong(Answers):
    """Right while it is proved, wrong while it is timed."""

    def forward(self, *inputs):
        return [array + 1 for array in self.right(inputs)] if is_timed() else self.right(inputs)


class LateRaises(Answers):
    def forward(self, *inputs):
        if is_timed():
            raise ValueError("the kernel is missing")
        return self.right(inputs)


class Moved(Answers):
    """Wrong on other CPUs, and in another thread, than it was loaded in."""

    def __init__(self, artifact, options):
        super().__init__(artifact, options)
        self.place = self.now()

    def now(self):
        return threading.get_native_id(), os.sched_getaffinity(0)

    def forward(self, *inputs):
        return self.right(inputs) if self.now() == self.place else [array + 1 for array in self.right(inputs)]


class LateAbort(Answers):
    def forward(self, *inputs):
        if is_timed():
            os.abort()
        return self.right(inputs)


class Second(Answers):
    """Aborts in every process but the first."""

    def __init__(self, artifact, options):
        super().__init__(artifact, options)
        self.later = os.path.exists(options.extra["mark"])
        open(options.extra["mark"], "w").close()

    def forward(self, *inputs):
        if self.later:
            os.abort()
        return self.right(inputs)


class LateHang(Answers):
    def forward(self, *inputs):
        if is_timed():
            time.sleep(3600)
        return self.right(inputs)


class SlowPut(Slow):
    """Takes long to put inputs on the device."""

    def put(self, arrays):
        time.sleep(0.05)
        return super().put(arrays)


class Recompiles(Answers):
    """Compiles for two seconds at the first call of each shape, as just-in-time compilers do: honest, and slow."""

    def __init__(self, artifact, options):
        super().__init__(artifact, options)
        self.compiled = set()

    def forward(self, *inputs):
        shapes = tuple(array.shape for array in inputs)
        if shapes not in self.compiled:
            time.sleep(2)
            self.compiled.add(shapes)
        return self.right(inputs)


class WrongAtTwelve(Answers):
    """A kernel that is wrong at one length, as those for multiples of a vector are."""

    def forward(self, *inputs):
        outputs = self.right(inputs)
        return [each + (inputs[0].shape[1] == 12) for each in outputs]


FAKES = {
    "fault_recompiles": Recompiles,
    "fault_wrong_at_twelve": WrongAtTwelve,
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
