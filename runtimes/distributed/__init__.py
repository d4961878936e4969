"""The contract of a runtime's own engine for several workers, and the launchers of each kind. Imports no framework.

An engine is a `Trainer` that is one of several: the same model in every process, each with its shard of a batch, the
gradients averaged over all of them by the framework's own collectives, never xbench's. A runtime's row names its class
(`Row.engine`), a third party's as well. Every other file of the folder is one engine, named as its runtime.
"""

import dataclasses
import importlib
import json
import os
import socket
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

from xbench.converters.artifact import Artifact
from xbench.runtimes import Options, Trainer, _configuration, parse, row_of

# Why a runtime has no engine.
MISSING = {
    "torch_compile": "DistributedDataParallel around a compiled step is not built here: --runtime torch has an engine",
    "onnxruntime": "its package has no collective; that of its training build was PyTorch's (ORTModule)",
    "openvino": "it has no collective and no training of its own",
    "tvm": "its Disco sessions shard inference; it has no averaging of gradients in training",
}


class Engine(Trainer):
    """A trainer that is one of several workers, made in all of them at once; `RANK` and `WORLD_SIZE` in the environment
    give its number and the total. `gradients` and `step` take a shard of the batch and average the gradients over all
    workers; the loss they return may be the shard's. Every call that communicates must be made by all."""

    early = False  # whether a message can be sent while the backward pass is at work

    @staticmethod
    def place() -> tuple[int, int]:
        """This worker's number, and the number of workers."""
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

    @abstractmethod
    def apart(self, active: bool) -> None:
        """Sets whether `gradients` and `step` skip the averaging: the same work on the same arrays, alone."""

    @abstractmethod
    def messages(self) -> list[int]:
        """The bytes of each collective of a step, in the order in which they can be sent. Called after a step."""

    @abstractmethod
    def reduction(self) -> Callable[[], object]:
        """The averaging of all gradients by itself, in the same messages, complete on return. After a step."""

    @abstractmethod
    def exchange(self, count: int) -> Callable[[], object]:
        """The averaging of one array of `count` float32 numbers, complete on return."""


class Launch(NamedTuple):
    """A process to start, and its additional environment."""

    command: list[str]
    environment: dict[str, str]


def missing(word: str) -> str | None:
    """Why a runtime cannot be trained by several workers; None if it has an engine."""
    name, extra = parse(word)
    if refused := sorted(set(extra) - {"python"}):
        return f"the engine of {name} for several workers takes no options: {', '.join(refused)}"
    if row_of(name).engine:
        return None
    return f"{name} has no engine for several workers: {MISSING.get(name, 'its row names none')}"


def load(word: str, artifact: Artifact, options: Options) -> Engine:
    """Imports an engine, joins its workers, and loads a converted model."""
    name, extra = parse(word)
    row = row_of(name)
    assert row.engine is not None, f"{name} has no engine"
    module, _, attribute = row.engine.entry.partition(":")
    made = getattr(importlib.import_module(module), attribute)(artifact, dataclasses.replace(options, extra=extra))
    assert isinstance(made, Engine)
    return made


def words_of(word: str) -> str:
    """The engine in its makers' words."""
    engine = row_of(word).engine
    return engine.words if engine else ""


def launches(word: str, ports: Sequence[int], program: list[str]) -> list[Launch]:
    """How the framework starts a program in one worker per port, all on this machine."""
    engine = row_of(word).engine
    assert engine is not None, f"{word} has no engine"
    return LAUNCHERS[engine.launcher](ports, [_configuration.worker(word), "-P", "-m"], program)


def reserved(count: int) -> list[socket.socket]:
    """`count` free ports of this machine, reserved by sockets that do not listen: programs that share them by
    SO_REUSEPORT, as gRPC's servers do, can bind them, and no other program gets them meanwhile."""
    sockets = []
    for _ in range(count):
        sockets.append(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        sockets[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sockets[-1].bind(("127.0.0.1", 0))
    return sockets


def _torchrun(ports: Sequence[int], python: list[str], program: list[str]) -> list[Launch]:
    """One process, which starts all workers; it chooses a port itself."""
    options = ["--standalone", "--local-addr=127.0.0.1", f"--nproc-per-node={len(ports)}", "--max-restarts=0"]
    run = [*python, "torch.distributed.run", *options, "-m", *program]
    return [Launch(run, {"PYTHONSAFEPATH": "1", "GLOO_SOCKET_IFNAME": "lo"})]


def _tf_config(ports: Sequence[int], python: list[str], program: list[str]) -> list[Launch]:
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    configs = [{"cluster": cluster, "task": {"type": "worker", "index": rank}} for rank in range(len(ports))]
    return [_ranked([*python, *program], rank, ports, TF_CONFIG=json.dumps(each)) for rank, each in enumerate(configs)]


def _coordinator(ports: Sequence[int], python: list[str], program: list[str]) -> list[Launch]:
    address = f"127.0.0.1:{ports[0]}"
    variables = {"JAX_COORDINATOR_ADDRESS": address, "JAX_COORDINATOR_BIND_ADDRESS": address}
    return [_ranked([*python, *program], rank, ports, **variables) for rank in range(len(ports))]


def _ranked(command: list[str], rank: int, ports: Sequence[int], **variables: str) -> Launch:
    place = {"RANK": str(rank), "WORLD_SIZE": str(len(ports)), "TF_GRPC_REUSE_PORT": "1"}
    return Launch(command, place | variables)


LAUNCHERS = {"torchrun": _torchrun, "tf_config": _tf_config, "coordinator": _coordinator}
