"""The process that holds an old framework: `python -I host.py FRAMEWORK REQUESTS ANSWERS PARENT`.

It is asked by one line of JSON a request, and the bytes of the arrays behind it; it answers in the same form. What it
is asked for is complete when it answers, and the seconds that took are told by its own clock: neither the pipe nor the
other process is in them. It ends when its parent does.
"""

import ctypes
import importlib
import json
import os
import signal
import sys
import time
import traceback
import types

import numpy as np

PR_SET_PDEATHSIG = 1
PACKAGES = ("xbench", "xbench.runtimes", "xbench.runtimes.originals")


def die_with(parent):
    """Asks Linux to kill this process when its parent dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def load(framework):
    """The file of a framework beside this one. Nothing else of xbench is in reach, nor do the files of this folder hide
    the frameworks whose names they have."""
    for name in PACKAGES:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    sys.modules[PACKAGES[-1]].__path__ = [os.path.dirname(os.path.abspath(__file__))]
    return importlib.import_module(PACKAGES[-1] + "." + framework)


def read_arrays(file, kinds):
    """The arrays that follow a line; they may be written to."""
    arrays = []
    for dtype, shape in kinds:
        array = np.empty(shape, dtype)
        view = memoryview(array.reshape(-1).view(np.uint8))
        done = 0
        while done < len(view):
            count = file.readinto(view[done:])
            if not count:
                raise EOFError
            done += count
        arrays.append(array)
    return arrays


def write(file, answer, arrays):
    arrays = [np.ascontiguousarray(array).reshape(np.shape(array)) for array in arrays]
    answer["arrays"] = [[array.dtype.str, list(array.shape)] for array in arrays]
    file.write(json.dumps(answer).encode() + b"\n")
    for array in arrays:
        file.write(array.reshape(-1).view(np.uint8).data)
    file.flush()


def weights(folder):
    """The groups of a converted model's arrays, each copied (`converters/artifact.py`)."""
    with open(os.path.join(folder, "weights.json")) as file:
        index = json.load(file)
    found = {}
    with open(os.path.join(folder, "weights.bin"), "rb") as file:
        for kind in ("params", "state"):
            found[kind] = {}
            for name, (dtype, shape, offset) in index[kind].items():
                file.seek(offset)
                array = np.empty(shape, dtype)
                file.readinto(memoryview(array.reshape(-1).view(np.uint8)))
                found[kind][name] = array
    return found["params"], found["state"]


class Host:
    """The model that is held, and the arrays of the framework that the other process knows by a number."""

    def __init__(self, framework):
        self.framework, self.model = framework, None
        self.values, self.count = {}, 0

    def keep(self, values):
        numbers = []
        for value in values:
            self.count += 1
            self.values[self.count] = value
            numbers.append(self.count)
        return numbers

    def timed(self, call, *arguments):
        start = time.perf_counter()
        result = call(*arguments)
        self.seconds = time.perf_counter() - start
        return result

    def answer(self, asked, arrays):
        """The header and the arrays of the answer."""
        for number in asked.get("free", ()):
            self.values.pop(number, None)
        self.seconds = 0.0
        header, given = getattr(self, "do_" + asked["do"])(asked, arrays)
        return dict(header, seconds=self.seconds), given

    def do_open(self, asked, arrays):
        """Loads a converted model, or tells which of its operators the framework's table lacks."""
        module = load(self.framework)
        missing = {n: count for n, count in asked["operators"].items() if n not in module.TABLE}
        if missing:
            return {"missing": missing}, []
        text = asked["text"]
        params, state = weights(asked["folder"])
        namespace = dict(module.TABLE)
        exec(compile(text, "<xbench program>", "exec"), namespace)
        self.model = module.Model(namespace["apply"], params, state, asked["settings"])
        return {"versions": dict(module.VERSIONS, python=sys.version.split()[0], numpy=np.__version__)}, []

    def do_prepare(self, asked, arrays):
        return {"compiled": bool(self.model.prepare(arrays[:-1], arrays[-1], asked["dropout"]))}, []

    def do_put(self, asked, arrays):
        return {"kept": self.keep(self.timed(self.model.put, arrays))}, []

    def do_forward(self, asked, arrays):
        return {"kept": self.keep(self.timed(self.model.forward, self.known(asked)))}, []

    def do_gradients(self, asked, arrays):
        loss, grads = self.timed(self.model.gradients, *self.split(asked))
        names = sorted(grads)
        return {"kept": self.keep([loss] + [grads[name] for name in names]), "names": names}, []

    def do_step(self, asked, arrays):
        return {"kept": self.keep([self.timed(self.model.step, *self.split(asked))])}, []

    def do_get(self, asked, arrays):
        return {}, self.timed(lambda: [np.asarray(self.model.get(value)) for value in self.known(asked)])

    def do_weights(self, asked, arrays):
        return self.named(self.model.weights())

    def do_memory(self, asked, arrays):
        found = self.model.memory()
        return ({"none": True}, []) if found is None else self.named(found)

    def do_recalled(self, asked, arrays):
        return {"recalled": bool(getattr(self.model, "recalled", bool)())}, []

    def do_reset(self, asked, arrays):
        self.model.reset()
        return {}, []

    def known(self, asked):
        return [self.values[number] for number in asked["values"]]

    def split(self, asked):
        values = self.known(asked)
        return values[:-1], values[-1]

    @staticmethod
    def named(arrays):
        names = sorted(arrays)
        return {"names": names}, [arrays[name] for name in names]


def serve(framework, requests, answers):
    host = Host(framework)
    with os.fdopen(requests, "rb", 1 << 20) as asking, os.fdopen(answers, "wb", 1 << 20) as answering:
        for line in iter(asking.readline, b""):
            asked = json.loads(line.decode())
            arrays = read_arrays(asking, asked.get("arrays", ()))
            try:
                header, given = host.answer(asked, arrays)
            except MemoryError as error:
                header, given = {"error": str(error) or "MemoryError", "kind": "memory"}, []
            except Exception as error:
                traceback.print_exc()
                lines = [each.strip() for each in str(error).splitlines() if each.strip()] or [""]
                header, given = {"error": "%s: %s" % (type(error).__name__, lines[0]), "kind": "failed"}, []
                if type(error).__name__ == "Unsupported":
                    header.update(error=lines[0], kind="unsupported")
            write(answering, header, given)


if __name__ == "__main__":
    die_with(int(sys.argv[4]))
    serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
