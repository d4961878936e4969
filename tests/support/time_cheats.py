"""Adapters that spoil the clock, answer sooner than a machine can, or compute with more than they may use.

`fault_kit.install_faults` installs a copy as the third-party module `xbench_time_cheats`. `EXPECTED` has
the promise that each breaks, and the mode and plane that show it.
"""

import contextlib
import os
import pickle
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime

try:
    from xbench_cheats import Honest, is_timed
except ImportError:  # in the tests' own process
    from cheats import Honest, is_timed

from xbench.runtimes import Row
from xbench.runtimes.onnxruntime import Training

TRUE_CLOCK = time.perf_counter
ALL_CPUS = range(os.cpu_count() or 1)


# ***** clocks *****


class HalfClock(Honest):
    """Makes the clock of its process run at half its pace"""

    start, count = TRUE_CLOCK(), 0

    def forward(self, *inputs):
        self.count += 1
        if self.count == 2:  # its loading and its first call have been timed
            spoil(self.now)
        return super().forward(*inputs)

    def now(self):
        return self.start + (TRUE_CLOCK() - self.start) / 2


class SlowClock(HalfClock):
    """Makes a minute of its process a second"""

    def now(self):
        return self.start + (TRUE_CLOCK() - self.start) / 60


class StillClock(HalfClock):
    """Stops the clock of its process"""

    def now(self):
        return self.start


class BackwardClock(HalfClock):
    """Makes the clock of its process run backwards"""

    def now(self):
        return self.start - (TRUE_CLOCK() - self.start)


class FastClock(HalfClock):
    """Makes the clock of its process run at twice its pace"""

    def now(self):
        return self.start + (TRUE_CLOCK() - self.start) * 2


class OwnHalf(Honest):
    """Says it computes in another process, whose clock it lets run at half its pace"""

    remote = True
    pace = 0.5

    def clock(self):
        return self.pace * TRUE_CLOCK()


class OwnSlow(OwnHalf):
    """Says it computes in another process, whose minute it calls a second"""

    pace = 1 / 60


class OwnStill(OwnHalf):
    """Says it computes in another process, whose clock stands still"""

    pace = 0.0


class OwnBackward(OwnHalf):
    """Says it computes in another process, whose clock runs backwards"""

    pace = -1.0


class HalfEvents(Honest):
    """Says that half of the time passes between two events"""

    def by_events(self, step):
        start = TRUE_CLOCK()
        step()
        return (TRUE_CLOCK() - start) / 2


class TrueEvents(Honest):
    """Says what passes between two events; this one is honest"""

    def by_events(self, step):
        start = TRUE_CLOCK()
        step()
        return TRUE_CLOCK() - start


def spoil(clock):
    """Replace the true clock everywhere in this process: in its modules, and in the defaults of their functions."""
    time.perf_counter = time.monotonic = clock
    modules = [module for name, module in sys.modules.items() if name.startswith(("xbench.", "__main__"))]
    for module in modules:
        for name, value in list(vars(module).items()):
            if value is TRUE_CLOCK:
                setattr(module, name, clock)
            defaults = getattr(value, "__defaults__", None)
            if defaults and TRUE_CLOCK in defaults:
                value.__defaults__ = tuple(clock if each is TRUE_CLOCK else each for each in defaults)


# ***** sooner than a machine can *****


class Resting(Honest):
    """Remembers its answers while blocks are timed"""

    def forward(self, *inputs):
        key = id(inputs[0])
        if key not in self.known or not is_timed():
            self.known[key] = inputs, self.run(inputs)
        return self.known[key][1]


class Tired(Training):
    """Trains three steps, and then returns its last loss"""

    trained, answer = 0, None

    def reset(self):
        self.trained = 0
        super().reset()

    def step(self, inputs, labels):
        self.trained += 1
        if self.trained <= 3:
            self.answer = super().step(inputs, labels)
        return self.answer


class TiredGradient(Training):
    """Returns the gradients of its last step while blocks are timed"""

    answer = None

    def gradients(self, inputs, labels):
        if self.answer is None or not is_timed():
            self.answer = super().gradients(inputs, labels)
        return self.answer


# ***** more than it may use *****


class Pair(Honest):
    """Uses two threads where it was told one"""

    threads = 2


class Halves(Honest):
    """Computes each half of a batch in a thread of its own"""

    def __init__(self, artifact, options):
        super().__init__(artifact, options)
        self.pool = ThreadPoolExecutor(2)

    def forward(self, *inputs):
        middle = len(inputs[0]) // 2
        parts = [[a[:middle] for a in inputs], [a[middle:] for a in inputs]]
        return [np.concatenate(both) for both in zip(*self.pool.map(self.part, parts), strict=True)]

    def part(self, inputs):
        return self.run(inputs)


class FreeHalves(Halves):
    """Computes halves of a batch in two threads, on all CPUs, while blocks are timed"""

    def forward(self, *inputs):
        if not is_timed():
            return self.run(inputs)
        return super().forward(*inputs)

    def part(self, inputs):
        os.sched_setaffinity(0, ALL_CPUS)
        return self.run(inputs)


class Loose(Honest):
    """Lets itself run on all CPUs while blocks are timed"""

    def forward(self, *inputs):
        if is_timed():
            os.sched_setaffinity(0, ALL_CPUS)
        return self.run(inputs)


class FreePool(Loose):
    """Uses two threads on all CPUs while blocks are timed, with threads that were there before"""

    threads = 2

    def forward(self, *inputs):
        if is_timed():
            for thread in os.listdir("/proc/self/task"):
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(int(thread), ALL_CPUS)
        return self.run(inputs)


class Daemon(Honest):
    """Has half of a batch computed by a process that left its group"""

    serves = "serve"

    def __init__(self, artifact, options):
        super().__init__(artifact, options)
        self.artifact, self.asking = artifact, None

    def prepare(self, inputs, labels, dropout):
        if self.asking is None:
            self.leave()
        return False

    def leave(self):
        """Starts the other process: twice forked, in a session of its own, on all CPUs."""
        (questions, self.asking), (self.answers, answering) = os.pipe(), os.pipe()
        if not os.fork():
            os.setsid()
            if os.fork():
                os._exit(0)
            os.sched_setaffinity(0, ALL_CPUS)
            for end in (questions, answering):
                os.set_inheritable(end, True)
            os.execv(sys.executable, [*self.words(), str(questions), str(answering)])
        os.close(questions)
        os.close(answering)

    def words(self):
        code = f"import sys, xbench_time_cheats as cheats; cheats.{self.serves}(*sys.argv[1:])"
        return [sys.executable, "-c", code, str(self.artifact.onnx), ",".join(self.names), ",".join(self.outputs)]

    def forward(self, *inputs):
        middle = len(inputs[0]) // 2
        send(self.asking, [a[middle:] for a in inputs])
        first = self.run([a[:middle] for a in inputs])
        return [np.concatenate(both) for both in zip(first, receive(self.answers), strict=True)]


class TimedDaemon(Daemon):
    """Has half of a batch computed by a process that left its group, while blocks are timed"""

    def forward(self, *inputs):
        return super().forward(*inputs) if is_timed() else self.run(inputs)


class Servant(Daemon):
    """Has a batch computed by a process that left its group"""

    def forward(self, *inputs):
        send(self.asking, list(inputs))
        return receive(self.answers)


class Hosted(Daemon):
    """Computes in a process of its own, and tells the seconds of that process's clock; this one is honest"""

    remote, pace, seconds, serves = True, 1.0, 0.0, "host"

    def prepare(self, inputs, labels, dropout):
        if self.asking is None:
            (questions, self.asking), (self.answers, answering) = os.pipe(), os.pipe()
            words = [*self.words(), str(questions), str(answering)]
            self.process = subprocess.Popen(words, pass_fds=(questions, answering))
        return False

    def ask(self, what):
        send(self.asking, what)
        return receive(self.answers)

    def put(self, arrays):
        return (self.ask(list(arrays)),)

    def forward(self, *inputs):
        self.seconds += self.pace * self.ask(inputs[0])

    def get(self, outputs):
        return self.ask(-1)

    def clock(self):
        return self.seconds

    def round_trip(self):
        start = TRUE_CLOCK()
        self.ask(0)
        return TRUE_CLOCK() - start


class HostedHalf(Hosted):
    """Computes in a process of its own, whose clock runs at half its pace"""

    pace = 0.5


class HostedSlow(Hosted):
    """Computes in a process of its own, whose minute is a second"""

    pace = 1 / 60


def send(pipe, value):
    data = pickle.dumps(value)
    data = struct.pack("q", len(data)) + data
    while data:
        data = data[os.write(pipe, data) :]


def receive(pipe):
    def read(count):
        data = b""
        while len(data) < count:
            part = os.read(pipe, count - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    return pickle.loads(read(*struct.unpack("q", read(8))))


def serve(path, names, outputs, questions, answering):
    """The other process: answers until the requests end."""
    run = runner(path, names, outputs)
    with contextlib.suppress(EOFError, OSError):
        while True:
            send(int(answering), run(receive(int(questions))))


def host(path, names, outputs, questions, answering):
    """The other process of one that says so: keeps what it is given, and tells the seconds of a run on it."""
    run, kept, result = runner(path, names, outputs), [None], None
    with contextlib.suppress(EOFError, OSError):
        while True:
            given = receive(int(questions))
            if isinstance(given, list):
                kept.append(given)
                answer = len(kept) - 1
            elif given > 0:
                start = TRUE_CLOCK()
                result = run(kept[given])
                answer = TRUE_CLOCK() - start
            else:
                answer = result if given < 0 else None
            send(int(answering), answer)


def runner(path, names, outputs):
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    return lambda given: session.run(outputs.split(","), dict(zip(names.split(","), given, strict=True)))


# The promise that each breaks, and the mode and the plane in which it does.
EXPECTED = {
    HalfClock: ("clock", "forward", "resident"),
    SlowClock: ("clock", "forward", "resident"),
    StillClock: ("clock", "forward", "resident"),
    BackwardClock: ("clock", "forward", "resident"),
    FastClock: ("clock", "forward", "resident"),
    OwnHalf: ("clock", "forward", "resident"),
    OwnSlow: ("clock", "forward", "resident"),
    OwnStill: ("clock", "forward", "resident"),
    HostedSlow: ("clock", "forward", "resident"),
    HalfEvents: ("clock", "forward", "device"),
    Resting: ("physical", "forward", "resident"),
    Tired: ("physical", "step", "resident"),
    TiredGradient: ("physical", "gradient", "resident"),
    Pair: ("threads", "forward", "resident"),
    FreeHalves: ("threads", "forward", "resident"),
    Loose: ("threads", "forward", "resident"),
    FreePool: ("threads", "forward", "resident"),
    Daemon: ("threads", "forward", "resident"),
    TimedDaemon: ("threads", "forward", "resident"),
}
# Only our own rows may use the clock of another process, or of a device (`runtimes/_plugins.py`): a test puts these
# into the table.
OURS = (OwnHalf, OwnSlow, OwnStill, OwnBackward, Hosted, HostedHalf, HostedSlow, HalfEvents, TrueEvents)


def name(kind):
    return f"cheat_{kind.__name__.lower()}"


def row(kind, **more):
    trains = "graph" if issubclass(kind, Training) else None
    return Row(f"xbench_time_cheats:{kind.__name__}", ("xbench-faults",), "faults", trains, hidden=True, **more)


CHEATS = {name(kind): kind for kind in (*EXPECTED, Halves, Servant) if kind not in OURS}
for _name, _class in CHEATS.items():
    globals()[_name] = row(_class)
