"""Adapters with a false time or a false answer: ONNX Runtime, spoiled in one way each.

`fault_kit.install_faults` installs a copy as the third-party module `xbench_cheats`. The check that
catches each, and its name, are in `EXPECTED`; tests/proof/test_kit.py makes the table of docs/method.md from it.
"""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime

from xbench.runtimes import Lower, Row, Runtime


class Honest(Runtime):
    """ONNX Runtime, plainly."""

    threads = None
    file = None

    def __init__(self, artifact, options):
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = self.threads or options.threads
        settings.log_severity_level = 3
        if self.file:  # otherwise dropout does nothing, even if the graph says that it trains
            settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        path = artifact.folder / self.file if self.file else artifact.onnx
        self.session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
        self.names, self.calls, self.known = [item["name"] for item in artifact.info["inputs"]], 0, {}
        self.outputs = artifact.info["outputs"]

    def prepare(self, inputs, labels, dropout):
        return False

    def put(self, arrays):
        return tuple(array.copy() for array in arrays)

    def run(self, inputs):
        return self.session.run(self.outputs, dict(zip(self.names, inputs, strict=True)))

    def forward(self, *inputs):
        return self.run(inputs)

    def wait(self, result):
        pass

    def get(self, outputs):
        return list(outputs)


class Early(Honest):
    """Answers before it is done: another thread computes, and `wait` does not wait for it."""

    pool, room = ThreadPoolExecutor(1), threading.BoundedSemaphore(256)  # a queue that ends, as those of devices do

    def forward(self, *inputs):
        self.room.acquire()
        result = self.pool.submit(self.run, inputs)
        result.add_done_callback(lambda _: self.room.release())
        return result

    def get(self, outputs):
        return outputs.result()


class Lazy(Honest):
    """Computes when the result is fetched."""

    def forward(self, *inputs):
        return inputs

    def get(self, outputs):
        return self.run(outputs)


class Ahead(Honest):
    """Computes while inputs are put on the device."""

    def put(self, arrays):
        return (self.run(arrays),)

    def forward(self, *inputs):
        return inputs[0]


class ByIdentity(Honest):
    """Remembers the answer to each array on the device."""

    def forward(self, *inputs):
        if id(inputs[0]) not in self.known:
            self.known[id(inputs[0])] = inputs, self.run(inputs)
        return self.known[id(inputs[0])][1]


class ByValue(Honest):
    """Remembers the answer to each value."""

    def forward(self, *inputs):
        key = b"".join(array.tobytes() for array in inputs)
        if key not in self.known:
            self.known[key] = self.run(inputs)
        return self.known[key]


class ByPlace(Honest):
    """Takes an array at the same address for the same array."""

    def put(self, arrays):
        key = tuple(array.ctypes.data for array in arrays)
        if key not in self.known:
            self.known[key] = arrays, super().put(arrays)
        return self.known[key][1]


class FirstOnly(Honest):
    """Leaves out all outputs but the first."""

    def forward(self, *inputs):
        return self.session.run(self.outputs[:1], dict(zip(self.names, inputs, strict=True)))


class ThroughHost(Honest):
    """Copies its inputs there and back inside the clock."""

    def forward(self, *inputs):
        return self.run([array.copy().copy() for array in inputs])


class Elsewhere(Honest):
    """Was asked for a GPU and runs on the CPU."""

    def placed(self):
        return {"cpu": 1}


class Bfloat16(Honest):
    """Keeps the upper half of every number it is given."""

    mask = 0xFFFF0000

    def forward(self, *inputs):
        return self.run([(array.view(np.uint32) & np.uint32(self.mask)).view(np.float32) for array in inputs])


class Tf32(Bfloat16):
    """Keeps 10 bits behind the point."""

    mask = 0xFFFFE000


class Greedy(Honest):
    """Uses four threads, whatever it is told."""

    threads = 4


class Spinning(Honest):
    """Leaves a thread behind that never sleeps."""

    def forward(self, *inputs):
        if not self.known:
            self.known[0] = threading.Thread(target=spin, daemon=True)
            self.known[0].start()
        return self.run(inputs)


def spin():
    numbers = np.zeros(1 << 20)
    while True:
        numbers.sort()  # without the interpreter's lock


class Slowing(Honest):
    """Needs a tenth of a millisecond more with every call."""

    def forward(self, *inputs):
        self.calls += 1
        end = time.perf_counter() + 1e-4 * self.calls
        while time.perf_counter() < end:
            pass
        return self.run(inputs)


class NotFinite(Honest):
    """Returns NaN."""

    def forward(self, *inputs):
        return [array * np.float32(np.nan) for array in self.run(inputs)]


class Random(Honest):
    """Adds noise of a thousandth."""

    noise = 1e-3

    def forward(self, *inputs):
        draw = np.random.default_rng().standard_normal
        return [a + (self.noise * a * draw(a.shape)).astype(np.float32) for a in self.run(inputs)]


class LastBit(Random):
    """Is right, and differs in the last bit from call to call."""

    noise = 2e-7


class Swapped(Honest):
    """Exchanges H and W of images."""

    def put(self, arrays):
        return tuple(np.ascontiguousarray(a.swapaxes(-1, -2)) if a.ndim == 4 else a.copy() for a in arrays)


class DropoutOn(Honest):
    """Leaves dropout on in evaluation."""

    file = "model.onnx"


def is_timed():
    """Whether this call comes from a block: after the proof, the audit and the warm-up."""
    frame = sys._getframe()
    while frame.f_back:
        frame = frame.f_back
        if frame.f_code.co_name == "block":
            return True
    return False


class TwoOfThree(ByValue):
    """Answers two of three calls from memory."""

    def forward(self, *inputs):
        self.calls += 1
        return super().forward(*inputs) if self.calls % 3 else self.run(inputs)


class LateByValue(ByValue):
    """Remembers the answer to each value, once it is timed."""

    def forward(self, *inputs):
        return super().forward(*inputs) if is_timed() else self.run(inputs)


class LateLazy(Honest):
    """Computes when the result is fetched, once it is timed."""

    def forward(self, *inputs):
        return ("later", inputs) if is_timed() else self.run(inputs)

    def get(self, outputs):
        return self.run(outputs[1]) if isinstance(outputs, tuple) else list(outputs)


class LateEarly(Early):
    """Answers before it is done, once it is timed."""

    def forward(self, *inputs):
        made = super().forward(*inputs)
        if not is_timed():
            made.result()
        return made


class LateBfloat16(Bfloat16):
    """Keeps the upper half of every number it is given, once it is timed."""

    def forward(self, *inputs):
        return super().forward(*inputs) if is_timed() else self.run(inputs)


class WrongNow(Honest):
    """Is wrong once in fifty calls, when it is timed."""

    def forward(self, *inputs):
        self.calls += is_timed()
        made = self.run(inputs)
        return [array + 1 for array in made] if self.calls % 50 == 49 else made


class LastInputs(Honest):
    """Repeats the last answer at every other call, when it is timed."""

    def forward(self, *inputs):
        self.calls += 1
        if not is_timed() or self.calls % 2:
            self.last = self.run(inputs)
        return self.last


# The check of `xbench plugin test` that catches each, and its name for the fault.
EXPECTED = {
    Early: ("complete", "complete"),
    Lazy: ("complete", "complete"),
    Ahead: ("begins", "begins"),
    ByIdentity: ("fresh", "fresh"),
    ByValue: ("fresh", "fresh"),
    ByPlace: ("fresh", "fresh"),
    FirstOnly: ("result", "missing_output"),
    ThroughHost: ("resident", "copies_inputs"),
    Elsewhere: ("placement", "placement"),
    Bfloat16: ("precision", "precision"),
    Tf32: ("precision", "precision"),
    Greedy: ("threads", "threads"),
    Spinning: ("idle", "idle"),
    Slowing: ("steady", "slows_down"),
    NotFinite: ("result", "not_finite"),
    Random: ("result", "random"),
    LastBit: ("deterministic", "deterministic"),
    Swapped: ("result", "image_transposed"),
    DropoutOn: ("result", "dropout_on"),
    TwoOfThree: ("fresh", "fresh"),
    LateByValue: ("fresh", "fresh"),
    LateLazy: ("complete", "complete"),
    LateEarly: ("complete", "complete"),
    LateBfloat16: ("timed", "timed"),
    WrongNow: ("timed", "timed"),
    LastInputs: ("timed", "timed"),
}
CHEATS = {f"cheat_{kind.__name__.lower()}": kind for kind in (Honest, *EXPECTED)}
for _name, _class in CHEATS.items():
    _vain = {"bf16": Lower("a switch that none of them heeds")}
    globals()[_name] = Row(f"xbench_cheats:{_class.__name__}", ("xbench-faults",), "faults", hidden=True, lower=_vain)
