"""xbench from Python: is it the same network everywhere, and if it is, where does it run best?

    import xbench

    xbench.convert("lenet", runtimes=["onnxruntime"])
    xbench.check("lenet", runtimes=["onnxruntime"], modes=["forward"])
    xbench.time("lenet", runtimes=["onnxruntime", "jax"], modes=["forward"], budget=0.5)
    xbench.read("xbench-results")

Each function does what the command of its name does, with the same words; options that a command takes several times
are lists here. Each returns `Records`: plain dictionaries in a list, the rows that the command prints with `--json`,
which show as a table in a notebook. A cell that fails raises nothing, its `status` says so; what the caller can mend
raises `XBenchError`, with the command's sentence.

Networks are named by words, as on the command line: one of the zoo, a file, `module:factory`. `check` and `time` also
take a `torch.nn.Module` as it is, with its present weights, and arrays as its inputs. `xbench.testing` has the same for
test suites. Importing this module imports nothing else.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing's, whose import takes longer than this file
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Any

    from xbench.errors import XBenchError
    from xbench.records import Records

__all__ = ["Records", "XBenchError", "check", "convert", "read", "time"]


def __getattr__(name: str) -> Any:
    if name == "XBenchError":
        from xbench.errors import XBenchError

        return XBenchError
    if name == "Records":
        from xbench.records import Records

        return Records
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
    inputs: Any = None,
    ranges: Sequence[str] | None = None,
    optimizer: str | None = None,
    steps: int = 2,
    timeout: float = 900,
    explain: bool = False,
    progress: Callable[[str], object] | bool | None = None,
) -> Records:
    """Compare outputs, gradients or trained weights of runtimes with the same network in float64: `xbench check`.

    Args:
        models: A word or a list of words, the whole zoo where there is none; or a `torch.nn.Module`, which is compared
            with its present weights and left as it is.
        runtimes: Runtimes, with options after a colon; all installed where there are none.
        modes: `forward`, `gradient` or `step`; forward, and gradient but on TVM, where there are none.
        batch: Samples, 2 where it is not given; forward is also compared on one more. A module's is that of its inputs.
        threads: CPU threads, all where it is not given.
        device: `cpu` or `cuda`.
        layout: `nchw`, `nhwc` or `auto`.
        precision: `fp32`, `tf32`, `bf16`, `fp16` or `int8`, each judged by its own tolerance.
        shapes: Sizes of the dynamic axes of files, such as `["sequence=128"]`.
        inputs: For a module: arrays or tensors whose values are compared on, the first axis of each the batch; one, a
            sequence in the order of the arguments of `forward`, or a mapping by their names. For `module:factory`: the
            words of `--input`, such as `["x:float32:batch,3,224,224"]`.
        ranges: Values of inputs, from the first to below the second, such as `["ids=0:30522"]`; where there are none,
            what reads an input says what it may be.
        optimizer: Update rule instead of the model's own, such as `"adamw,lr=0.001"`.
        steps: Training steps of mode `step`.
        timeout: Seconds that one job of a worker may take.
        explain: Say what a failure looks like, in a row's `explanations`.
        progress: Called with a line for every cell that is done; `True` prints them on stderr.

    Returns:
        One row a cell, with `model`, `runtime`, `mode`, `status` (PASS, FAIL, UNVERIFIED, UNSUPPORTED, OOM, TIMEOUT,
        CRASH), `class` (the arithmetic that explains the error), `ratio` (the worst error in float32 noise floors) in
        `worst_tensor`, `first_wrong` (the first wrong ONNX tensor), `certificate` (what the runtime holds), `message`.

    Raises:
        XBenchError: a word that means nothing, a runtime that is not installed, a model that cannot be exported.
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
    inputs: Any = None,
    ranges: Sequence[str] | None = None,
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
    """Prove that it is the same network on every runtime, then time what passed: `xbench time`.

    Cells that differ in the runtime alone are timed together, in interleaved blocks, which compares them fairly. Every
    cell is stored as soon as it is final, and not measured again by the next call; a module's are not stored, as nobody
    could measure them again by their name.

    Args:
        models: As of `check`; the default suite where there are none.
        runtimes: As of `check`.
        modes: `forward`, `gradient` or `step`; forward, and step but on TVM, where there are none.
        batches: Batch sizes, each model's own where there are none. A module's is that of its inputs.
        threads: CPU threads of every runtime, all where it is not given.
        device: `cpu` or `cuda`.
        layout: `nchw`, `nhwc` or `auto`.
        precision: As of `check`.
        plane: Where the clock starts and stops: `resident`, `host` or `device`.
        data: `synthetic`, or `digits` for lenet.
        tune: Effort for speed: `off`, `default` or `max`.
        tune_budget: Seconds that a search may take for each cell where `tune` is `max`.
        shapes: As of `check`.
        inputs: As of `check`.
        ranges: As of `check`.
        optimizer: As of `check`.
        budget: Seconds of sampling for each cell, and at most as many of warm-up.
        target_ci: Stop early when half the width of the 95 % interval is this share of the median.
        processes: Processes of each cell, one after the other.
        timeout: Seconds that one job of a worker may take.
        out: Folder of the results, `xbench-results` where it is not given.
        rerun: Time again what is stored already.
        retry: Time again what is stored as failed.
        progress: As of `check`.

    Returns:
        One row a cell, with the columns of docs/results.md, "Rows"; times are in seconds, and None unless `status` is
        PASS.

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
    inputs: Sequence[str] | None = None,
    ranges: Sequence[str] | None = None,
    optimizer: str | None = None,
    oracle: bool = False,
    compile: bool = False,
    progress: Callable[[str], object] | bool | None = None,
) -> Records:
    """Export networks to ONNX and make runtimes accept them: `xbench convert`. What was made is kept in the cache.

    Args:
        models: A word or a list of words, the default suite where there are none.
        runtimes: As of `check`; those of `to` where there are none but those.
        to: Runtimes in whose own form the model is also written, to be used without xbench.
        output: Folder for `to`: `<output>/<model>/<runtime>/`.
        batch: Batch size of forms that fix it (TVM).
        device: `cpu` or `cuda`.
        layout: `nchw`, `nhwc` or `auto`.
        shapes: As of `check`.
        inputs: The words of `--input`, for `module:factory`.
        ranges: As of `check`.
        optimizer: As of `check`.
        oracle: Compute in float64, too, what `time` proves forward and step against.
        compile: Make the kernels that torch_compile keeps.
        progress: As of `check`.

    Returns:
        One row a model and runtime, with `model`, `runtime`, `status` (CONVERTED, UNSUPPORTED, CRASH, TIMEOUT, OOM),
        `operators` (those that the runtime lacks, and how often they occur), `message`, `seconds`, `folder`, and with
        `to` the `files`.

    Raises:
        XBenchError: as `check`.
    """
    arguments = locals()
    from xbench import _cells, records

    return records.converted(_cells.convert(arguments))


def read(out: str | Path = "xbench-results") -> Records:
    """The results that a folder holds: `xbench show`. Lines that are damaged are left out, with a warning.

    Args:
        out: Folder of the results.

    Returns:
        One row a cell, as of `time`.

    Raises:
        XBenchError: there are none, or the file cannot be read.
    """
    import warnings
    from pathlib import Path

    from xbench import records, reports
    from xbench.store import results

    stored, problems = results.salvage(Path(out) / results.FILE)
    for problem in problems:
        warnings.warn(f"skipped {problem}", stacklevel=2)
    return records.timed(reports.rows(stored))
