"""xbench from Python: is it the same network on every runtime, and if so, which runs it best?

    import xbench

    xbench.convert("lenet", runtimes=["onnxruntime"])
    xbench.check("lenet", runtimes=["onnxruntime"], modes=["forward"])
    xbench.time("lenet", runtimes=["onnxruntime", "jax"], modes=["forward"], budget=0.5)
    xbench.evaluate("lenet", samples="digits", runtimes=["onnxruntime"])
    xbench.read("xbench-results")

Each function does what the command of the same name does, with the same option names; repeatable options are lists
here. Each returns `Records`: a list of plain dictionaries, the rows that the command prints with `--json`, shown as a
table in a notebook. A failed cell raises nothing: its `status` reports it. An error that the caller can fix raises
`XBenchError`, with the command's message.

Networks are named as on the command line: a name in the zoo, a file, `module:factory`. `check` and `time` also accept
a `torch.nn.Module`, with its current weights, and arrays as its inputs. `xbench.testing` has the same for
test suites. Importing this module imports nothing else.
"""

from __future__ import annotations

TYPE_CHECKING = False  # stands in for typing.TYPE_CHECKING, whose import takes longer than this file
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Any

    from xbench.errors import XBenchError
    from xbench.evaluation import evaluate
    from xbench.records import Records

__all__ = ["Records", "XBenchError", "check", "convert", "evaluate", "read", "time"]


def __getattr__(name: str) -> Any:
    if name == "XBenchError":
        from xbench.errors import XBenchError

        return XBenchError
    if name == "Records":
        from xbench.records import Records

        return Records
    if name == "evaluate":
        from xbench.evaluation import evaluate

        return evaluate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def check(
    models: Any = None,
    *,
    runtimes: Sequence[str] | None = None,
    modes: Sequence[str] | None = None,
    batch: int | None = None,
    threads: int | None = None,
    device: str = "cpu",
    layout: str = "nchw",
    precision: str = "fp32",
    shapes: Sequence[str] | None = None,
    shape_file: str | Path | None = None,
    inputs: Any = None,
    samples: str | None = None,
    ranges: Sequence[str] | None = None,
    weights: str | None = None,
    loss: str | None = None,
    optimizer: str | None = None,
    steps: int = 2,
    timeout: float = 900,
    explain: bool = False,
    progress: Callable[[str], object] | bool | None = None,
) -> Records:
    """Compare outputs, gradients or trained weights of runtimes with the same network in float64: `xbench check`.

    Args:
        models: A name or a list of names (default: the whole zoo); or a `torch.nn.Module`, which is compared with its
            current weights and not modified.
        runtimes: Runtimes, with options after a colon; default: all installed.
        modes: `forward`, `gradient` or `step`; default: forward, and gradient except on TVM.
        batch: Samples, default 2; forward is also compared on one more. A module uses the batch of its inputs.
        threads: CPU threads, default: all.
        device: `cpu` or `cuda`.
        layout: `nchw`, `nhwc` or `auto`.
        precision: `fp32`, `tf32`, `bf16`, `fp16`, `int8` or `int4`, each judged by its own tolerance.
        shapes: Sizes of the dynamic axes of files and modules, such as `["sequence=128"]`; several sizes of an axis,
            `["sequence=16,64,256"]`, are a network each.
        shape_file: A CSV file of shapes: names of axes, and `weight` if the shapes have weights.
        inputs: For a module: arrays or tensors whose values are compared on, the first axis of each the batch; one, a
            sequence in the order of the arguments of `forward`, or a mapping by their names. For `module:factory`: the
            words of `--input`, such as `["x:float32:batch,3,224,224"]`.
        samples: Your own samples instead of random ones, the word of `--inputs`: a file, a folder, `module:function`.
        ranges: Values of inputs, from the first to below the second, such as `["ids=0:30522"]`; default: taken from
            the operators that read the input.
        loss: Function that gives the loss of a module, `module:function`: it gets what `forward` returns, and the
            inputs that have the names of its other arguments.
        weights: File of the weights of `module:factory`: `.safetensors`, or a `state_dict`, of which no code is run.
        optimizer: Update rule instead of the model's own, such as `"adamw,lr=0.001"`.
        steps: Training steps of mode `step`.
        timeout: Seconds that one job of a worker may take.
        explain: Add likely causes of a failure to a row's `explanations`.
        progress: Called with a line for every finished cell; `True` prints the lines on stderr.

    Returns:
        One row per cell, with `model`, `runtime`, `mode`, `status` (PASS, FAIL, UNVERIFIED, UNSUPPORTED, OOM, TIMEOUT,
        CRASH), `class` (the arithmetic that explains the error), `ratio` (the worst error in float32 noise floors) in
        `worst_tensor`, `first_wrong` (the first wrong ONNX tensor), `certificate` (what the runtime holds), `message`.

    Raises:
        XBenchError: an unknown name, a runtime that is not installed, a model that cannot be exported.
    """
    arguments = locals()
    from xbench import _cells, records

    return records.checked(_cells.check(arguments))


def time(
    models: Any = None,
    *,
    runtimes: Sequence[str] | None = None,
    modes: Sequence[str] | None = None,
    batches: Sequence[int] | None = None,
    threads: int | None = None,
    device: str = "cpu",
    layout: str = "nchw",
    precision: str = "fp32",
    plane: str = "resident",
    data: str = "synthetic",
    tune: str = "default",
    tune_budget: float = 120.0,
    shapes: Sequence[str] | None = None,
    shape_file: str | Path | None = None,
    inputs: Any = None,
    samples: str | None = None,
    ranges: Sequence[str] | None = None,
    weights: str | None = None,
    loss: str | None = None,
    optimizer: str | None = None,
    budget: float = 2.0,
    target_ci: float = 0.02,
    processes: int = 1,
    timeout: float = 600,
    out: str | Path | None = None,
    rerun: bool = False,
    retry: bool = False,
    progress: Callable[[str], object] | bool | None = None,
) -> Records:
    """Prove that every runtime runs the same network, then time what passed: `xbench time`.

    Cells that differ only in the runtime are timed together, in interleaved blocks, for a fair comparison. Every cell
    is stored as soon as it is final, and the next call does not measure it again; cells of a module are not stored,
    since they could not be measured again by name.

    Args:
        models: As for `check`; default: the default suite.
        runtimes: As for `check`.
        modes: `forward`, `gradient` or `step`; default: forward, and step except on TVM.
        batches: Batch sizes, default: each model's own. A module uses the batch of its inputs.
        threads: CPU threads of every runtime, default: all.
        device: `cpu` or `cuda`.
        layout: `nchw`, `nhwc` or `auto`.
        precision: As for `check`.
        plane: Where the clock starts and stops: `resident`, `host` or `device`.
        data: `synthetic`, or `digits` for lenet.
        tune: Effort for speed: `off`, `default` or `max`.
        tune_budget: Seconds that the search for each cell may take if `tune` is `max`.
        shapes: As for `check`.
        shape_file: As for `check`.
        inputs: As for `check`.
        samples: As for `check`.
        ranges: As for `check`.
        weights: As for `check`.
        loss: As for `check`.
        optimizer: As for `check`.
        budget: Seconds of sampling for each cell, and at most the same for warm-up.
        target_ci: Stop early when half the width of the 95 % interval is this share of the median.
        processes: Processes of each cell, one after the other.
        timeout: Seconds that one job of a worker may take.
        out: Folder of the results, default `xbench-results`.
        rerun: Time cells again that are already stored.
        retry: Time cells again that are stored as failed.
        progress: As for `check`.

    Returns:
        One row per cell, with the columns of docs/results.md, "Rows"; times in seconds, None unless `status` is PASS.

    Raises:
        XBenchError: as `check`; a folder that cannot be written; `out` for a module.
    """
    arguments = locals()
    from xbench import _cells, records

    return records.timed(_cells.time(arguments))


def convert(
    models: str | Sequence[str] | None = None,
    *,
    runtimes: Sequence[str] | None = None,
    to: Sequence[str] | None = None,
    output: str | Path = "xbench-models",
    batch: int = 1,
    device: str = "cpu",
    layout: str = "nchw",
    shapes: Sequence[str] | None = None,
    shape_file: str | Path | None = None,
    inputs: Sequence[str] | None = None,
    ranges: Sequence[str] | None = None,
    weights: str | None = None,
    loss: str | None = None,
    optimizer: str | None = None,
    oracle: bool = False,
    compile: bool = False,
    progress: Callable[[str], object] | bool | None = None,
) -> Records:
    """Export networks to ONNX and convert them for runtimes: `xbench convert`. The results are kept in the cache.

    Args:
        models: A name or a list of names; default: the default suite.
        runtimes: As for `check`; if only `to` is given, its runtimes.
        to: Runtimes in whose own format the model is also written, for use without xbench.
        output: Folder for `to`: `<output>/<model>/<runtime>/`.
        batch: Batch size of formats that fix it (TVM).
        device: `cpu` or `cuda`.
        layout: `nchw`, `nhwc` or `auto`.
        shapes: As for `check`.
        shape_file: As for `check`.
        inputs: The values of `--input`, for `module:factory`.
        ranges: As for `check`.
        weights: As for `check`.
        loss: As for `check`.
        optimizer: As for `check`.
        oracle: Also compute the float64 reference that `time` proves forward and step against.
        compile: Make the kernels that torch_compile caches.
        progress: As for `check`.

    Returns:
        One row per model and runtime: `model`, `runtime`, `status` (CONVERTED, UNSUPPORTED, CRASH, TIMEOUT, OOM),
        `operators` (those that the runtime lacks, and how often they occur), `message`, `seconds`, `folder`, and with
        `to` the `files`.

    Raises:
        XBenchError: as `check`.
    """
    arguments = locals()
    from xbench import _cells, records

    return records.converted(_cells.convert(arguments))


def read(out: str | Path = "xbench-results") -> Records:
    """Read the results in a folder: `xbench show`. Damaged lines are skipped, with a warning.

    Args:
        out: Folder of the results.

    Returns:
        One row per cell, as for `time`.

    Raises:
        XBenchError: there are no results, or the file cannot be read.
    """
    import warnings
    from pathlib import Path

    from xbench import records, reports
    from xbench.store import results

    stored, problems = results.salvage(Path(out) / results.FILE)
    for problem in problems:
        warnings.warn(f"skipped {problem}", stacklevel=2)
    return records.timed(reports.rows(stored))
