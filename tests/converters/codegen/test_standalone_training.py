"""Standalone files train: ten steps without xbench give PyTorch's loss curve."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from xbench import models
from xbench.converters.artifact import Artifact
from xbench.converters.build import export_module, export_zoo
from xbench.converters.codegen import standalone
from xbench.converters.source import parse
from xbench.parity.candidate import sample

STEPS, RATE = 10, 0.01
NORMED = "planted_net:make"  # with BatchNormalization, whose running statistics change

HEAD = """
import json, sys
sys.modules["xbench"] = None
sys.path.insert(0, {folder!r})
import numpy as np
import net
given = np.load({data!r})
params, state = net.load()
losses = []
"""
LOOPS = {
    "jax": """
import jax
@jax.jit
def step(params, state, x, labels):
    def loss(params):
        outputs, changed = net.apply(params, state, x, training=True)
        return net.loss(outputs, labels), changed
    (value, changed), grads = jax.value_and_grad(loss, has_aux=True)(params)
    return value, jax.tree.map(lambda p, g: p - RATE * g, params, grads), {**state, **changed}
for _ in range(STEPS):
    value, params, state = step(params, state, given["x"], given["labels"])
    losses.append(float(value))
""",
    "tensorflow": """
import tensorflow as tf
optimizer = tf.keras.optimizers.SGD(RATE)
optimizer.build(list(params.values()))
@tf.function(autograph=False)
def step(x, labels):
    with tf.GradientTape() as tape:
        outputs, changed = net.apply(params, state, x, training=True)
        value = net.loss(outputs, labels)
    optimizer.apply_gradients(zip(tape.gradient(value, list(params.values())), params.values()))
    for name, new in changed.items():
        state[name].assign(new)
    return value
for _ in range(STEPS):
    losses.append(float(step(given["x"], given["labels"])))
""",
    "torch": """
import torch
x, labels = torch.from_numpy(given["x"]), torch.from_numpy(given["labels"])
optimizer = torch.optim.SGD(params.values(), RATE)
for _ in range(STEPS):
    optimizer.zero_grad()
    outputs, changed = net.apply(params, state, x, training=True)
    value = net.loss(outputs, labels)
    value.backward()
    optimizer.step()
    state |= {name: new.detach() for name, new in changed.items()}
    losses.append(float(value.detach()))
""",
}


def pytorch_losses(name: str, x: np.ndarray, labels: np.ndarray) -> list[float]:
    import torch

    network = models.make(NORMED).train() if name == NORMED else models.build(models.find(name), 0).train()
    for layer in network.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0
    optimizer, losses = torch.optim.SGD(network.parameters(), RATE), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        value = torch.nn.functional.cross_entropy(network(torch.from_numpy(x)), torch.from_numpy(labels))
        value.backward()
        optimizer.step()
        losses.append(float(value.detach()))
    return losses


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A network's artifact, made once."""
    made: dict[str, Artifact] = {}

    def export(name: str) -> Artifact:
        if name not in made:
            folder = tmp_path_factory.mktemp("model")
            if name == NORMED:
                export_module(parse(f"{NORMED}@x:float32:batch,3,12,16"), folder)
            else:
                export_zoo(name, 0, folder)
            made[name] = Artifact.read(folder)
        return made[name]

    return export


@pytest.mark.parametrize("name", ["lenet", NORMED])
@pytest.mark.parametrize("framework", LOOPS)
def test_a_standalone_file_trains_as_pytorch_does(framework: str, name: str, exported, tmp_path: Path) -> None:
    pytest.importorskip(framework)
    standalone.write(exported(name).program(), framework, "net", tmp_path, exported(name).info["loss"])
    (x,), labels = sample(exported(name), 16, 0)
    np.savez(tmp_path / "data.npz", x=x, labels=labels)
    head = HEAD.format(folder=str(tmp_path), data=str(tmp_path / "data.npz"))
    loop = LOOPS[framework].replace("RATE", str(RATE)).replace("STEPS", str(STEPS))
    script = f"{head}{loop}\nprint(json.dumps(losses))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    losses, right = json.loads(done.stdout.splitlines()[-1]), pytorch_losses(name, x, labels)
    assert right[-1] < right[0]
    np.testing.assert_allclose(losses, right, rtol=2e-3)
    np.testing.assert_allclose(losses[0], right[0], rtol=1e-5)


def test_a_file_refers_to_nothing_of_ours(exported, tmp_path: Path) -> None:
    standalone.write(exported("lenet").program(), "jax", "net", tmp_path, exported("lenet").info["loss"])
    code = (tmp_path / "net.py").read_text().split('"""', 2)[2]
    assert "xbench" not in code
