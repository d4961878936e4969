"""Runs a prepared runtime on the inputs of a reference and names its results as the reference does."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from xbench import models
from xbench.converters.artifact import Artifact
from xbench.parity import calls, element_types
from xbench.parity.verdict import OPTIMIZER, Changed, Verdict, judge, loss_by_step, steps_of
from xbench.runtimes import Runtime, Trainer


def inputs_of(reference: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    count = sum(name.startswith("input/") for name in reference)
    return [reference[f"input/{index}"] for index in range(count)]


def sample(artifact: Artifact, batch: int, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Seeded inputs in the order of the graph, and labels; the same on every machine."""
    labels = artifact.info["labels"]
    inputs = [models.draw(models.Input(**each), batch, seed) for each in artifact.info["inputs"]]
    return inputs, np.zeros(batch, np.int64) if labels is None else models.draw(models.Input(**labels), batch, seed)


def redrawn(artifact: Artifact, given: Sequence[np.ndarray], labels: np.ndarray, seed: int) -> list[np.ndarray]:
    """Other inputs of the same shapes, drawn by the artifact's specification."""
    specs = [models.Input(**{**each, "shape": a.shape}) for each, a in zip(artifact.info["inputs"], given, strict=True)]
    firsts = [a.shape[0] for each, a in zip(artifact.info["inputs"], given) if each["shape"][:1] == ["batch"]]
    batch = firsts[0] if firsts else len(labels)
    return [np.asarray(models.draw(each, batch, seed), a.dtype) for each, a in zip(specs, given, strict=True)]


def named(artifact: Artifact, values: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of forward, as references name them.

    Raises:
        Changed: their number differs from the graph's.
    """
    names = artifact.info["outputs"]
    if len(values) != len(names):
        raise Changed(f"gives {len(values)} of {len(names)} outputs")
    return {f"output/{name}": value for name, value in zip(names, values, strict=True)}


def judged(given: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray], asked: str = "fp32") -> Verdict:
    """The verdict on a runtime's results.

    Raises:
        Changed: the type of a tensor differs from the graph's.
    """
    element_types.refuse_others(given, reference, asked)
    return judge(given, reference, asked)


def run(runtime: Runtime, artifact: Artifact, mode: str, reference: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs, or loss and gradients, or the loss of each step of the reference with the weights and optimizer state
    after the last; leaves the runtime as it was."""
    inputs = runtime.put(inputs_of(reference))
    if mode == "forward":
        result = runtime.forward(*inputs)
        runtime.wait(result)
        return named(artifact, calls.outputs(runtime, result))
    assert isinstance(runtime, Trainer)
    (labels,) = runtime.put([reference["labels"]])
    if mode == "gradient":
        result = runtime.gradients(inputs, labels)
        runtime.wait(result)
        loss, grads = calls.fetched(runtime, result)
        return {"loss": np.array([loss]), **{f"gradient/{name}": g for name, g in grads.items()}}
    runtime.reset()
    losses = []
    for _ in range(steps_of(reference)):
        result = runtime.step(inputs, labels)
        runtime.wait(result)
        losses.append(calls.loss(runtime, result))
    tensors = trained(runtime, losses)
    runtime.reset()
    return tensors


def trained(runtime: Trainer, losses: Iterable[float]) -> dict[str, np.ndarray]:
    """The loss of every step, and the current weights and optimizer arrays."""
    weights, kept = calls.weights(runtime), calls.optimizer_state(runtime) or {}
    named = {f"weight/{name}": value for name, value in weights.items()}
    return {**loss_by_step(losses), **named, **{f"{OPTIMIZER}{name}": value for name, value in kept.items()}}
