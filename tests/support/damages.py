"""Kinds of damage to a converted model in the cache, each a change of its folder."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

SIZE = 520  # 1.1 MB of weights: more than each quick check reads
CANARY = "XBENCH_TEST_CANARY"
Damage = Callable[[Path, Path], object]  # arguments: the folder of a model, and that of another


def write_model(path: Path) -> Path:
    """y = -x @ w, so that every weight counts. Another name gives other weights."""
    seed = list(path.name.encode())
    weights = np.random.default_rng(seed).normal(size=(SIZE, SIZE)).astype(np.float32)
    shape = ["batch", SIZE]
    nodes = [helper.make_node("Neg", ["x"], ["r"]), helper.make_node("MatMul", ["r", "w"], ["y"])]
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)] for name in "xy"]
    graph = helper.make_graph(nodes, "g", *ends, [onnx.numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


def quietly(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Change a file but not its size and time, as a failing disk would."""
    before, content = path.stat(), path.read_bytes()
    changed = change(content)
    assert changed != content
    path.write_bytes(changed)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def flipped(content: bytes) -> bytes:
    """One bit of the exponent of a float in the middle."""
    place = len(content) // 8 * 4 + 3
    return content[:place] + bytes([content[place] ^ 0x40]) + content[place + 1 :]


def flip(name: str) -> Damage:
    return lambda folder, other: quietly(one(folder, name), flipped)


def one(folder: Path, name: str) -> Path:
    (match,) = (path for path in folder.glob(name))
    return match


def replaced(name: str, make: Callable[[Path], object]) -> Damage:
    """A file is replaced by something else."""

    def damage(folder: Path, other: Path) -> None:
        path = one(folder, name)
        path.unlink()
        make(path)

    return damage


def swapped(name: str) -> Damage:
    """Another model's file in place of this one's, with the old file's time."""
    return lambda folder, other: shutil.copy2(one(other, name), one(folder, name))


def truncated(name: str) -> Damage:
    return lambda folder, other: os.truncate(one(folder, name), one(folder, name).stat().st_size // 2)


def linked(folder: Path, other: Path) -> None:
    path = folder / "weights.bin"
    path.rename(folder.with_suffix(".elsewhere"))
    path.symlink_to(folder.with_suffix(".elsewhere"))


def malicious(folder: Path, other: Path) -> None:
    """A program that does something else as well."""
    text = (folder / "program.py").read_text()
    (folder / "program.py").write_text(f"import os\nopen(os.environ['{CANARY}'], 'a').write('ran')\n{text}")


def another_operator(content: bytes) -> bytes:
    """The text has the same number of bytes as before."""
    return content.replace(b"Neg(", b"Abs(", 1)


def edited(name: str, change: Callable[[dict], object]) -> Damage:
    """Other facts in a JSON file that is still well formed."""

    def damage(folder: Path, other: Path) -> None:
        facts = json.loads((folder / name).read_text())
        change(facts)
        (folder / name).write_text(json.dumps(facts, indent=1))

    return damage


def taken_over(folder: Path, other: Path) -> None:
    """Another model under this one's name."""
    shutil.rmtree(folder)
    shutil.copytree(other, folder)


def is_a(make: Callable[[Path], object]) -> Damage:
    def damage(folder: Path, other: Path) -> None:
        shutil.rmtree(folder)
        make(folder)

    return damage


def half_written(folder: Path, other: Path) -> None:
    """As left by a killed process, if folders are not renamed atomically."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in ("program.py", "weights.bin"):
            path.unlink()
    os.truncate(folder / "weights.bin", 4096)


def second_text(folder: Path, other: Path) -> None:
    (folder / "program.nhwc.py").write_text(f"import os\nopen(os.environ['{CANARY}'], 'a').write('ran')\n")


def wrong_reference(folder: Path, other: Path) -> None:
    """A reference that is still readable, with other numbers."""
    path = one(folder, "reference-*s0*.npz")
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    arrays["output/y"] = arrays["output/y"] + 1
    with path.open("wb") as file:
        np.savez(file, **arrays)


def other_seed(folder: Path, other: Path) -> None:
    """The reference of other inputs under this one's name."""
    shutil.copy2(one(folder, "reference-*s1*.npz"), one(folder, "reference-*s0*.npz"))


REFERENCE = "reference-*s0*.npz"


# Kinds that sizes and times do not show: found when a cell is not PASS.
def in_given_file(folder: Path, other: Path) -> None:
    """In the user's file, which ONNX Runtime runs."""
    (file,) = folder.glob("given/*.onnx")
    quietly(file, flipped)


HIDDEN: dict[str, Damage] = {"a bit of the weights": flip("weights.bin"), "a bit of the graph": in_given_file}
OF_TEXTS: dict[str, Damage] = {
    "a program that does more": malicious,
    "a program of the same size": lambda folder, other: quietly(folder / "program.py", another_operator),
    "a bit of the index": edited("weights.json", lambda facts: facts["params"]["w"].__setitem__(2, 4)),
    "a second text": second_text,
}
SEEN: dict[str, Damage] = {
    "weights cut short": truncated("weights.bin"),
    "a graph cut short": truncated("inference.onnx"),
    "an empty graph": lambda folder, other: os.truncate(folder / "inference.onnx", 0),
    "empty weights": lambda folder, other: os.truncate(folder / "weights.bin", 0),
    "a graph that is missing": lambda folder, other: (folder / "inference.onnx").unlink(),
    "weights that are missing": lambda folder, other: (folder / "weights.bin").unlink(),
    "a folder for a graph": replaced("inference.onnx", Path.mkdir),
    "a pipe for weights": replaced("weights.bin", os.mkfifo),
    "a link to the weights": linked,
    "a link to nothing": replaced("inference.onnx", lambda path: path.symlink_to("nowhere")),
    "a graph that nobody may read": lambda folder, other: (folder / "inference.onnx").chmod(0),
    "another model's graph": swapped("inference.onnx"),
    "another model's weights": swapped("weights.bin"),
    "all of another model": taken_over,
    "facts that are no JSON": lambda folder, other: (folder / "model.json").write_bytes(b'{"name": "\xff'),
    "facts that are a list": lambda folder, other: (folder / "model.json").write_text("[]"),
    "other facts": edited("model.json", lambda facts: facts.update(outputs=["z"])),
    "facts of another model": swapped("model.json"),
    "a folder that others may write": lambda folder, other: folder.chmod(0o777),
    "a file for a folder": is_a(Path.touch),
    "a pipe for a folder": is_a(os.mkfifo),
    "half an entry": half_written,
    "an empty folder": is_a(Path.mkdir),
    "a bit of a reference": flip(REFERENCE),
    "a reference cut short": truncated(REFERENCE),
    "an empty reference": lambda folder, other: os.truncate(one(folder, REFERENCE), 0),
    "a reference of other inputs": other_seed,
    "another model's reference": swapped(REFERENCE),
    "a reference with other numbers": wrong_reference,
    "a folder for a reference": replaced(REFERENCE, Path.mkdir),
    "a pipe for a reference": replaced(REFERENCE, os.mkfifo),
    "a link to nothing for a reference": replaced(REFERENCE, lambda path: path.symlink_to("nowhere")),
}
OF_SEALS: dict[str, Damage] = {
    "no seal": lambda folder, other: (folder / "entry.seal").unlink(),
    "a seal that is no JSON": lambda folder, other: (folder / "entry.seal").write_bytes(b"\0" * 100),
    "a seal of nothing": lambda folder, other: (folder / "entry.seal").write_text("{}"),
    "another model's seal": swapped("entry.seal"),
    "a bit of the seal": lambda folder, other: quietly(
        folder / "entry.seal", lambda old: old.replace(b'"size": ', b'"size":1', 1)
    ),
    "no seal of a reference": lambda folder, other: one(folder, REFERENCE + ".seal").unlink(),
}
EVERY = HIDDEN | OF_TEXTS | SEEN | OF_SEALS
HARMLESS = {"a second text", "a graph that nobody may read"}  # the last one if root reads
