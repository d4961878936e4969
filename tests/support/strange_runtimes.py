"""ONNX Runtime's own adapter, spoiled in one method each: it returns a value of an unexpected type, raises what is
not usually caught, or writes where only the worker may. `fault_kit` installs a copy as the module `xbench_strange`.

A row of `STRANGE` is what is done to the adapter, the status that its cell must get in mode forward, and words of the
message; of `HELD` and the tables after it the same of what another command asks.
"""

import functools
import os
import sys
import time

import numpy as np

from xbench.runtimes import Layer, Row, onnxruntime


class Text(str):
    """A text that is not what it appears to be."""

    def __str__(self):
        raise ValueError("no text")

    __format__ = __repr__ = __iter__ = __len__ = splitlines = strip = __str__


class Mute(Exception):
    def __str__(self):
        raise SystemExit("I do not say what is wrong")


class Loud(Exception):
    def __str__(self):
        return "\x1b[2J\u202e\ud800 " + 10**8 * "x"


class Liar(np.ndarray):
    """An array that is equal to everything."""

    def __array_ufunc__(self, ufunc, method, *inputs, **more):
        return np.zeros(self.shape)


def says(method, value):
    """The method returns a value, whatever it is asked."""
    return lambda ready: setattr(ready, method, lambda *_, **__: value)


def throws(method, make, calls=0):
    """The method raises from its call of that number on."""

    def spoil(ready):
        plain, count = getattr(ready, method, None), iter(range(10**9))

        def call(*given, **more):
            if next(count) >= calls:
                raise make()
            return plain(*given, **more)

        setattr(ready, method, call)

    return spoil


def turned(method, change):
    """The method returns its result changed; an adapter without this method stays as it is."""

    def spoil(ready):
        plain = getattr(ready, method, None)
        if plain is None:
            return
        setattr(ready, method, lambda *given, **more: change(plain(*given, **more)))

    return spoil


def deep(ready):
    ready.forward = lambda *inputs: deep_call(ready)


def deep_call(ready):
    return deep_call(ready)


def nested():
    value = []
    for _ in range(10**5):
        value = [value]
    return value


def each(change):
    """The result of `get`, each array changed."""
    return turned("get", lambda arrays: [change(array) for array in arrays])


def named(method, change):
    """The method's results by name, each array changed."""
    return turned(method, lambda arrays: {name: change(arrays[name]) for name in arrays})


def gradients(change):
    return turned("fetch", lambda answer: (answer[0], {name: change(array) for name, array in answer[1].items()}))


def doubled(array):
    return array.astype(np.float64)


def listed(array):
    return array.tolist()


def descriptors():
    """All open pipes of the process except its standard streams."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) > 2 and os.readlink(f"/proc/self/fd/{name}").startswith("pipe:"):
                yield int(name)
        except OSError:
            continue


def poured(data, result):
    """The result; on the way the data are written to every pipe that is open."""
    for number in descriptors():
        try:
            os.write(number, data)
        except OSError:
            continue
    return result


def writes(data, timed=False):
    """Writes to every pipe in each forward pass, or in those alone that are timed."""
    return turned("forward", lambda result: result if timed and not is_timed() else poured(data, result))


def closes(result):
    for number in list(descriptors()):
        os.close(number)
    return result


def is_timed():
    frame = sys._getframe()
    while frame := frame.f_back:
        if frame.f_code.co_name in ("block", "load"):
            return True
    return False


def backwards(ready):
    """The clock of its process runs backwards once it is loaded."""
    clock, start = time.perf_counter, time.perf_counter()
    time.perf_counter = lambda: 2 * start - clock()


def forks(result):
    if is_timed():
        os.fork()
    return result


FORGED = b'{"result": {"status": "PASS"}}\n'
CRASH = "CRASH"
PIPE = "what its worker sent is no answer of ours"
STRANGE = {
    "versions_number": (says("versions", 3), CRASH, "its `versions`"),
    "versions_list": (says("versions", ["a"]), CRASH, "its `versions`"),
    "versions_none": (says("versions", None), CRASH, "its `versions`"),
    "versions_pairs": (says("versions", {"a": 1}), CRASH, "its `versions`"),
    "versions_names": (says("versions", {1: "a"}), CRASH, "its `versions`"),
    "versions_set": (says("versions", {"a": {1}}), CRASH, "its `versions`"),
    "versions_long": (says("versions", {"a": "x" * 10**8}), "PASS", None),
    "versions_text": (says("versions", {Text("a"): Text("b")}), "PASS", None),
    "versions_surrogate": (says("versions", {"a\x1b[2J": "\ud800\u202e"}), "PASS", None),
    "versions_itself": (lambda r: setattr(r, "versions", lambda: r), CRASH, "its `versions`"),
    "placed_text": (says("placed", "cpu"), CRASH, "its `placed`"),
    "placed_words": (says("placed", {"cpu": "many"}), CRASH, "its `placed`"),
    "placed_nan": (says("placed", {"cpu": float("nan")}), CRASH, "its `placed`"),
    "placed_names": (says("placed", {3: 1}), CRASH, "its `placed`"),
    "placed_less": (says("placed", {"cpu": -1}), CRASH, "its `placed`"),
    "placed_huge": (says("placed", {"cpu": 10**5000}), CRASH, "its `placed`"),
    "tuned_number": (says("tuned", 5), CRASH, "its `tuned`"),
    "tuned_nan": (says("tuned", float("nan")), CRASH, "its `tuned`"),
    "tuned_nested": (says("tuned", nested()), CRASH, "its `tuned`"),
    "tuned_lines": (says("tuned", "a\x1b[2J\nb\u202e"), "PASS", None),
    "recalled_text": (says("recalled", "yes"), CRASH, "its `recalled`"),
    "recalled_array": (says("recalled", np.ones(3)), CRASH, "its `recalled`"),
    "memory_text": (says("device_memory", "much"), CRASH, "its `device_memory`"),
    "memory_infinite": (says("device_memory", float("inf")), CRASH, "its `device_memory`"),
    "memory_less": (says("device_memory", -5), CRASH, "its `device_memory`"),
    "memory_huge": (says("device_memory", 10**5000), CRASH, "its `device_memory`"),
    "memory_numpy": (says("device_memory", np.int64(5)), "PASS", None),
    "prepare_array": (says("prepare", np.ones(3)), CRASH, "its `prepare`"),
    "prepare_none": (turned("prepare", lambda _: None), "PASS", None),
    "put_none": (says("put", None), CRASH, None),
    "put_numbers": (says("put", 7), CRASH, None),
    "get_none": (says("get", None), "FAIL", "its `get`"),
    "get_number": (says("get", 7), "FAIL", "its `get`"),
    "get_text": (says("get", "x"), "FAIL", "its `get`"),
    "get_names": (turned("get", lambda arrays: dict(enumerate(arrays))), "FAIL", "its `get`"),
    "get_lists": (each(listed), "FAIL", "is a list, not an array"),
    "get_objects": (each(lambda a: a.astype(object)), "FAIL", "is object where the graph says float32"),
    "get_complex": (each(lambda a: a.astype(np.complex64)), "FAIL", "is complex64 where the graph says float32"),
    "get_words": (each(lambda a: a.astype(str)), "FAIL", "where the graph says float32"),
    "get_double": (each(doubled), "FAIL", "is float64 where the graph says float32"),
    "get_half": (each(lambda a: a.astype(np.float16)), "FAIL", "is float16 where the graph says float32"),
    "get_integers": (each(lambda a: a.astype(np.int64)), "FAIL", "is int64 where the graph says float32"),
    "get_longer": (each(lambda a: a[None]), "FAIL", "not finite or of another shape"),
    "get_liar": (each(lambda a: np.zeros_like(a).view(Liar)), "FAIL", "times the float32 noise off"),
    "get_masked": (each(lambda a: np.ma.masked_array(0 * a, True)), "FAIL", "times the float32 noise off"),
    "forward_none": (says("forward", None), "FAIL", "its `get`"),
    "forward_nested": (says("forward", nested()), "FAIL", "is a list, not an array"),
    "raises_exit": (throws("forward", lambda: SystemExit(0)), CRASH, "the worker ended with exit code 0"),
    "raises_late_exit": (
        throws("forward", lambda: SystemExit("\x1b[2J"), 20),
        CRASH,
        "the worker ended with exit code 1",
    ),
    "raises_interrupt": (throws("forward", KeyboardInterrupt), CRASH, "KeyboardInterrupt"),
    "raises_generator": (throws("forward", GeneratorExit), CRASH, "GeneratorExit"),
    "raises_base": (throws("get", lambda: BaseException("\ud800\x1b[2J\u202e")), CRASH, "BaseException"),
    "raises_group": (throws("get", lambda: BaseExceptionGroup("a", [SystemExit()])), CRASH, "BaseExceptionGroup"),
    "raises_deep": (deep, CRASH, "RecursionError"),
    "raises_mute": (throws("forward", Mute), CRASH, "Mute"),
    "raises_loud": (throws("forward", Loud), CRASH, "Loud"),
    "raises_text": (throws("forward", lambda: ValueError(Text("a"))), CRASH, "ValueError"),
    "raises_stop": (throws("get", StopIteration), CRASH, "StopIteration"),
    "raises_placed": (throws("placed", lambda: SystemExit(3)), CRASH, "the worker ended with exit code 3"),
    "raises_versions": (throws("versions", KeyboardInterrupt), CRASH, "KeyboardInterrupt"),
    "raises_tuned": (throws("tuned", NotImplementedError), "UNSUPPORTED", "NotImplementedError"),
    "raises_memory": (throws("device_memory", Mute), CRASH, "Mute"),
    "pipe_byte": (writes(b"x"), CRASH, PIPE),
    "pipe_late_byte": (writes(b"\xff", timed=True), CRASH, PIPE),
    "pipe_line": (writes(b"\n"), CRASH, PIPE),
    "pipe_forged": (writes(FORGED), CRASH, PIPE),
    "pipe_late_forged": (writes(FORGED, timed=True), CRASH, PIPE),
    "pipe_nested": (writes(b"[" * 10**4 + b"\n"), CRASH, PIPE),
    "pipe_closed": (turned("forward", closes), CRASH, None),
    "clock_backwards": (backwards, "PASS", None),  # ours was taken before it was loaded
    "forks": (turned("forward", forks), "PASS", None),
}
HELD = {  # by `check`: it is asked for its parameters
    "held_number": (says("held", 3), CRASH, "its `held`"),
    "held_names": (says("held", {1: np.ones(2)}), CRASH, "its `held`"),
    "held_nothing": (says("held", {}), "FAIL", "8 parameters differ"),
    "held_lists": (
        named("held", listed),
        "FAIL",
        "8 parameters",
    ),
    "held_double": (named("held", doubled), "FAIL", "8 parameters"),
    "held_liar": (named("held", lambda a: np.zeros_like(a).view(Liar)), "FAIL", "8 parameters"),
    "held_mute": (throws("held", Mute), CRASH, "Mute"),
}
GRADIENTS = {  # in mode gradient
    "fetch_number": (says("fetch", 3), "FAIL", "its `fetch`"),
    "fetch_text": (turned("fetch", lambda answer: ("x", answer[1])), "FAIL", "its `fetch`"),
    "fetch_flag": (turned("fetch", lambda answer: (True, answer[1])), "FAIL", "its `fetch`"),
    "fetch_nan": (turned("fetch", lambda answer: (float("nan"), answer[1])), "FAIL", "loss is not finite"),
    "fetch_names": (turned("fetch", lambda answer: (answer[0], {1: 2})), "FAIL", "its `fetch`"),
    "fetch_lists": (gradients(listed), "FAIL", "is a list"),
    "fetch_double": (
        gradients(doubled),
        "FAIL",
        "float64",
    ),
    "fetch_exit": (throws("fetch", KeyboardInterrupt), CRASH, "KeyboardInterrupt"),
}
STEPS = {  # in mode step
    "loss_text": (each(str), "FAIL", "its `get`"),
    "loss_many": (each(lambda a: np.ones(3, np.float32)), "FAIL", "its `get`"),
    "loss_flag": (each(lambda a: np.bool_(True)), "FAIL", "its `get`"),
    "loss_huge": (each(lambda a: 10**5000), "FAIL", "its `get`"),
    "weights_none": (says("weights", None), "FAIL", "its `weights`"),
    "weights_lists": (named("weights", listed), "FAIL", "is a list"),
    "weights_half": (named("weights", lambda a: a.astype(np.float16)), "FAIL", "float16"),
    "state_list": (says("optimizer_state", [1]), "FAIL", "its `optimizer_state`"),
    "state_number": (turned("optimizer_state", lambda s: dict.fromkeys(s, 1.0)), "FAIL", "is a float, not an array"),
    "reset_exit": (throws("reset", lambda: SystemExit(4)), CRASH, "exit code 4"),
    "pipe_steps": (turned("step", lambda result: poured(FORGED, result)), CRASH, PIPE),
}
LAYERS = {  # by `profile`
    "layers_none": (says("layers", None), CRASH, "its `layers`"),
    "layers_text": (says("layers", ["Conv"]), CRASH, "its `layers`"),
    "layers_empty": (says("layers", [Layer("a", "Conv", [])]), CRASH, "its `layers`"),
    "layers_nan": (says("layers", [Layer("a", "Conv", [float("nan")])]), CRASH, "its `layers`"),
    "layers_less": (says("layers", [Layer("a", "Conv", [-1.0])]), CRASH, "its `layers`"),
    "layers_words": (says("layers", [Layer("a\x1b[2J", Text("b"), [1e-3])]), "PASS", None),
}
FORMS = {  # by `convert --to`
    "save_text": (says("save", "model"), CRASH, "its `save`"),
    "save_numbers": (says("save", (1, 2)), CRASH, "its `save`"),
    "save_nowhere": (says("save", ("missing.onnx",)), CRASH, "its `save`"),
    "save_outside": (says("save", ("../..",)), CRASH, "its `save`"),
    "read_exit": (throws("read", KeyboardInterrupt), CRASH, "KeyboardInterrupt"),
    "read_loud": (throws("read", Loud), CRASH, "Loud"),
}
EVERY = {**STRANGE, **HELD, **GRADIENTS, **STEPS, **LAYERS, **FORMS}
HONEST = "strange_honest"


def make(name, artifact, options):
    ready = onnxruntime.make(artifact, options)
    EVERY[name][0](ready)
    return ready


def row(entry):
    return Row(entry, ("xbench-faults",), "faults", "graph", layers="profile", hidden=True)


strange_honest = row("xbench.runtimes.onnxruntime:make")
for _name in EVERY:
    globals()[f"make_{_name}"] = functools.partial(make, _name)
    globals()[f"strange_{_name}"] = row(f"xbench_strange:make_{_name}")
