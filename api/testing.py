"""For test suites: assert that a network is the same on every runtime, or that a file is the network it came from.

from xbench.testing import assert_same_network

def test_converts(net, images):
    assert_same_network(net, images, runtimes=["onnxruntime"])

def test_our_export(net, images, tmp_path):
    export(net, tmp_path / "net.onnx")
    assert_same_network(net, images, converted=tmp_path / "net.onnx")
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xbench.proof.file_parity import Parting
    from xbench.records import Records

__all__ = ["assert_same_network"]

ALLOWED = 64  # noise floors: parity.verdict.LIMITS["fp32"], repeated to avoid the import


def assert_same_network(
    module: Any,
    inputs: Any,
    runtimes: Sequence[str] | None = None,
    modes: Sequence[str] = ("forward",),
    *,
    converted: str | os.PathLike[str] | None = None,
    shapes: Sequence[str] | None = None,
    optimizer: str | None = None,
    threads: int | None = None,
    device: str = "cpu",
    timeout: float = 900,
    allow_unsupported: bool = False,
) -> Records:
    """Assert that runtimes compute what a module computes in float64, within float32's rounding error.

    The module is passed to other processes with its current weights; it keeps its state, mode and device. It is
    compared in evaluation, for modes `gradient` and `step` in training with dropout off. Nothing is cached but what
    workers import, which later assertions of the process use again.

    Args:
        module: A `torch.nn.Module` in float32, whose `forward` takes tensors and returns a tensor or a tuple of them.
        inputs: Arrays or tensors whose values are compared on, the first axis of each the batch; one, a sequence in
            the order of the arguments of `forward`, or a mapping by their names. The module must take any batch.
        runtimes: Runtimes, with options after a colon; default: all installed ones that have the operators.
        modes: `forward`, `gradient` (loss and gradients of all parameters) or `step` (weights after two updates). The
            last two need a module that returns logits: the loss is their mean cross entropy with drawn labels.
        converted: An ONNX file that you made from this module: the runtimes run it instead of xbench's own export, and
            are compared with the module. Forward only; inputs are matched by name, or else by order.
        shapes: Sizes of the file's dynamic axes other than the batch, such as `["sequence=128"]`.
        optimizer: Update rule of mode `step`, such as `"adamw,lr=0.001"`.
        threads: CPU threads, default: all.
        device: `cpu` or `cuda`.
        timeout: Seconds that one job of a worker may take.
        allow_unsupported: Let a named runtime pass that lacks an operator.

    Returns:
        The rows of all cells, as for `xbench.check`.

    Raises:
        AssertionError: A runtime computes something else, fails, or lacks an operator; or none could be run. It names
            each such runtime, the first wrong ONNX tensor, and the error in noise floors.
        XBenchError: The module cannot be exported or pickled, or the inputs do not fit it; a name is unknown.
    """
    __tracebackhide__ = True
    from xbench import _cells, records

    options = {"models": module, "inputs": inputs, "runtimes": runtimes, "modes": modes, "optimizer": optimizer}
    options |= {"threads": threads, "device": device, "timeout": timeout, "layout": "nchw", "precision": "fp32"}
    options |= {"batch": None, "steps": 2, "explain": False, "progress": None}
    file = None if converted is None else Path(converted)
    _share_imports()
    rows, parting, name = _cells.compared(options, file, shapes)
    checked = records.checked(rows)
    skipped = allow_unsupported or runtimes is None
    wrong = [row for row in checked if row["status"] != "PASS" and not (skipped and row["status"] == "UNSUPPORTED")]
    if not wrong and any(row["status"] == "PASS" for row in checked):
        return checked
    raise AssertionError(_message(name, checked, wrong or checked, parting, file))


@functools.cache
def _share_imports() -> None:
    """Lets the assertions of a process share what their workers import: from the second on they take a part of the
    time. It ends with the process."""
    from xbench.workers import template

    kept = contextlib.ExitStack()
    kept.enter_context(template.kept())
    atexit.register(kept.close)


def _message(
    name: str, rows: Sequence[Any], wrong: Sequence[Any], parting: Parting | None, converted: Path | None
) -> str:
    """What pytest shows: a summary line, one line for each wrong cell, and the next step."""
    cells = "1 comparison" if len(rows) == 1 else f"{len(rows)} comparisons"
    if not rows:
        return f"{name}: nothing was compared: no installed runtime has these modes"
    what = f"{converted} is not the same network as {name}" if converted else f"{name} is not the same network"
    lines = [f"{what}: {len(wrong)} of {cells} failed", *(f"  {_line(row)}" for row in wrong)]
    if parting:
        lines.append(f"the file is wrong itself: {_parted(parting)}")
    if hint := _hint(wrong, parting, converted):
        lines.append(hint)
    return "\n".join(lines)


def _line(row: Any) -> str:
    words = [f"{row['runtime']} {row['mode']}: {row['status']}"]
    if row["first_wrong"]:
        words.append(f"first wrong tensor {row['first_wrong']}")
    if row["ratio"] is not None:
        words.append(f"{row['worst_tensor']} is off by {row['ratio']:,.0f} float32 noise floors, {ALLOWED} are allowed")
    elif row["message"]:
        words.append(row["message"])
    return ", ".join(words)


def _parted(parting: Parting) -> str:
    words = f"its {parting.tensor} ({parting.op_type}) is the first tensor that the module does not compute"
    if parting.expected and parting.ratio is not None and parting.ratio != float("inf"):
        words += f"; compared with {parting.expected} of the module it is off by {parting.ratio:,.0f} noise floors"
    elif parting.expected:
        words += f"; the module has {parting.expected} there, of another size"
    return words


def _hint(wrong: Sequence[Any], parting: Parting | None, converted: Path | None) -> str | None:
    """The command for the next step."""
    from xbench.converters.printable import shell

    failed = [row for row in wrong if row["status"] in ("FAIL", "CRASH")]
    if not failed or parting:
        return None
    model = shell(converted) if converted else "MODULE:FACTORY --input NAME:float32:batch,SIZES"
    words = shell("--runtime", failed[0]["runtime"], "--mode", failed[0]["mode"])
    return f"to cut out the smallest part that shows it: xbench bisect {model} {words}"
