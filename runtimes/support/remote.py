"""A framework in an environment of its own: its process runs `originals/host.py`, and this side of it is a runtime like
all others.

The process is one of the worker's (`host/process_tree.py`): it is stopped and ended with it, has its CPUs and its
thread settings, and is counted with it (`workers/jobs/audit.py`, `host/memory.py`). It reports the seconds of its own
clock, so that times exclude the pipe: `clock`. The pipe's delay is reported, too, so that the clock can be checked:
`round_trip`.
"""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from xbench.converters import UnsupportedOps
from xbench.converters.artifact import Artifact
from xbench.runtimes import Killed, Options, Runtime, Trainer, Unavailable
from xbench.runtimes._configuration import interpreter
from xbench.runtimes._environments import find

HOST = Path(__file__).parents[1] / "originals" / "host.py"


class RemoteArray:
    """An array in the other process; its number is freed with the last reference."""

    def __init__(self, number: int, freed: list[int]) -> None:
        self.number, self._freed = number, freed

    def __del__(self) -> None:
        self._freed.append(self.number)


class Host:
    """The process of a framework, and the protocol with it."""

    def __init__(self, framework: str, python: str, variables: Mapping[str, str]) -> None:
        requests, asking = os.pipe()
        answering, answers = os.pipe()
        self.framework, self.freed, self.clock = framework, list[int](), 0.0
        arguments = [framework, str(requests), str(answers), str(os.getpid())]
        try:
            self.process = subprocess.Popen(
                [python, "-I", str(HOST), *arguments],
                stdin=subprocess.DEVNULL,
                pass_fds=(requests, answers),
                env={**os.environ, **variables},
            )
        except OSError as error:
            raise Unavailable(f"{framework}: {python} cannot be started: {error.strerror}") from error
        os.close(requests)
        os.close(answers)
        self._requests: BinaryIO = os.fdopen(asking, "wb", 1 << 20)
        self._answers: BinaryIO = os.fdopen(answering, "rb", 1 << 20)

    def ask(self, what: str, arrays: Sequence[np.ndarray] = (), **more: Any) -> tuple[dict[str, Any], list[np.ndarray]]:
        """Sends one request and returns the answer and its arrays.

        Raises:
            NotImplementedError: the framework cannot do it.
            MemoryError, RuntimeError: it failed, or its process ended.
            Killed: its process ended by SIGKILL.
        """
        freed = [self.freed.pop() for _ in range(len(self.freed))]
        arrays = [np.ascontiguousarray(array).reshape(np.shape(array)) for array in arrays]
        shapes = [[array.dtype.str, array.shape] for array in arrays]
        try:
            line = json.dumps({"do": what, "free": freed, "arrays": shapes, **more})
            self._requests.write(line.encode() + b"\n")
            for array in arrays:
                self._requests.write(array.reshape(-1).view(np.uint8).data)
            self._requests.flush()
            answer = json.loads(self._answers.readline() or "null")
            if answer is None:
                raise EOFError
            results = [self._array(*each) for each in answer["arrays"]]
        except (BrokenPipeError, EOFError):
            raise self._death() from None
        if "error" in answer:
            kinds = {"unsupported": NotImplementedError, "memory": MemoryError}
            raise kinds.get(answer["kind"], RuntimeError)(answer["error"])
        self.clock += answer.get("seconds", 0.0)
        return answer, results

    def _array(self, dtype: str, shape: Sequence[int]) -> np.ndarray:
        array = np.empty(shape, dtype)
        view, done = array.reshape(-1).view(np.uint8).data, 0
        while done < len(view):
            count = self._answers.readinto(view[done:])  # type: ignore[attr-defined]
            if not count:
                raise EOFError
            done += count
        return array

    def _death(self) -> Exception:
        code = self.process.wait(10)
        if code == -9:
            return Killed(f"the process of {self.framework}")
        return RuntimeError(
            f"the process of {self.framework} ended with {'signal' if code < 0 else 'code'} {abs(code)}"
        )

    def keep(self, numbers: Sequence[int]) -> tuple[RemoteArray, ...]:
        return tuple(RemoteArray(number, self.freed) for number in numbers)

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            self.process.kill()
            self.process.wait()


class Remote(Runtime):
    """A converted model in a framework's own process; inference only."""

    remote = True

    def __init__(
        self, framework: str, artifact: Artifact, options: Options, variables: Mapping[str, str] | None = None
    ) -> None:
        if options.device != "cpu":
            raise Unavailable(f"{framework} runs on the CPU here")
        word = f"{framework}:python={options.extra['python']}" if "python" in options.extra else framework
        python, made = interpreter(word), find(framework)
        if python is None:
            raise Unavailable(f"{framework} has no environment: xbench env create {framework}")
        known = made.variables if made and str(made.python) == python else {}
        self.artifact, self.options = artifact, options
        self.host = Host(framework, python, {**known, **(variables or {})})
        rule, loss = artifact.info["optimizer"], artifact.info["loss"]
        settings = {"mode": options.mode, "threads": options.threads, "rule": rule, "loss": loss}
        settings |= {"inputs": [[item["name"], item["dtype"]] for item in artifact.info["inputs"]]}
        folder, text = str(artifact.folder), artifact.source()
        answer, _ = self.host.ask("open", folder=folder, text=text, operators=artifact.operators, settings=settings)
        if "missing" in answer:
            raise UnsupportedOps(answer["missing"])
        self.framework_versions = answer["versions"]

    def clock(self) -> float:
        return self.host.clock

    def round_trip(self) -> float:
        start = time.perf_counter()
        self.host.ask("recalled")
        return time.perf_counter() - start

    def versions(self) -> dict[str, str]:
        return dict(self.framework_versions)

    def recalled(self) -> bool:
        return bool(self.host.ask("recalled")[0]["recalled"])

    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        return bool(self.host.ask("prepare", [*inputs, labels], dropout=bool(dropout))[0]["compiled"])

    def put(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        return self.host.keep(self.host.ask("put", arrays)[0]["kept"])

    def forward(self, *inputs: Any) -> Any:
        return self.host.keep(self.host.ask("forward", values=[array.number for array in inputs])[0]["kept"])

    def wait(self, result: Any) -> None:
        """Nothing: answers are complete."""

    def get(self, outputs: Any) -> list[np.ndarray]:
        return self.host.ask("get", values=[array.number for array in outputs])[1]

    def held(self) -> dict[str, np.ndarray]:
        answer, arrays = self.host.ask("weights")
        return dict(zip(answer["names"], arrays, strict=True))


class RemoteTrainer(Remote, Trainer):
    """The same with training."""

    def gradients(self, inputs: Sequence[Any], labels: Any) -> tuple[Any, Any]:
        answer, _ = self.host.ask("gradients", values=[array.number for array in (*inputs, labels)])
        loss, *grads = self.host.keep(answer["kept"])
        return loss, dict(zip(answer["names"], grads, strict=True))

    def step(self, inputs: Sequence[Any], labels: Any) -> Any:
        return self.host.keep(self.host.ask("step", values=[array.number for array in (*inputs, labels)])[0]["kept"])

    def fetch(self, result: Any) -> tuple[float, dict[str, np.ndarray]]:
        loss, grads = result
        first, *arrays = self.get([loss, *grads.values()])
        return float(first.reshape(())), dict(zip(grads, arrays, strict=True))

    def weights(self) -> dict[str, np.ndarray]:
        return Remote.held(self)

    def held(self) -> dict[str, np.ndarray]:
        return Remote.held(self)

    def optimizer_state(self) -> dict[str, np.ndarray] | None:
        answer, arrays = self.host.ask("memory")
        return None if "none" in answer else dict(zip(answer["names"], arrays, strict=True))

    def reset(self) -> None:
        self.host.ask("reset")
