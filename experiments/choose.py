"""Parses a user's words: models, runtimes, modes, devices. For an unknown word it suggests the nearest one."""

import difflib
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xbench.case import LAYOUTS, MODES, PLANES, PRECISIONS, SYNTHETIC, TUNES, Case
from xbench.errors import XBenchError

if TYPE_CHECKING:
    from xbench.runtimes import Row

ALL = "all"


def split(words: Iterable[str] | None) -> list[str]:
    """Words given by repeating an option or between commas; commas after a colon belong to a runtime's options."""
    result: list[str] = []
    for word in words or ():
        parts = [part for part in word.split(",") if part]
        for part in parts:
            if "=" in part.replace("==", "") and ":" not in part and result:
                result[-1] += f",{part}"
            else:
                result.append(part)
    return list(dict.fromkeys(result))


def choose_models(
    words: Sequence[str] | None,
    default: Sequence[str],
    shapes: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    optimizer: str | None = None,
    ranges: Sequence[str] | None = None,
    weights: str | None = None,
    shape_file: Path | None = None,
    loss: str | None = None,
) -> list[str]:
    """The words for models, each with the options of `--shape`, `--input`, `--optimizer`, `--range`, `--weights`,
    `--loss`; `all` means the entire zoo. A word with several sizes of an axis is several (`converters/sweep.py`).

    Raises:
        XBenchError: an unknown word, or an option that cannot be parsed.
    """
    from xbench import models
    from xbench.converters.source import AUTO, parse, with_options
    from xbench.converters.sweep import read_shapes, swept

    typed = [f"./{word}" if word.startswith("-") else word for word in words or default]  # a file, not an option
    chosen = [name for word in typed for name in (models.MODELS if word == ALL else [word])]
    if (shapes or shape_file) and all(name.partition("@")[0] in models.MODELS for name in chosen):
        raise XBenchError(f"{chosen[0]} has shapes of its own: --shape is for files with dynamic axes, and for modules")
    if wrong := next((each for each in shapes or () if "=" not in each and each != AUTO), None):
        raise XBenchError(f"--shape {wrong}: write name=128, x=batch,3,224,224 or {AUTO}")
    rows = [each.options for each in read_shapes(shape_file)] if shape_file else [[]]
    given = (list(inputs or ()) if words else [], optimizer, ranges or (), weights, loss)
    sizes = [[*(shapes or ()), *row] if words else [] for row in rows]
    chosen = [with_options(name, each, *given) for name in dict.fromkeys(chosen) for each in sizes]
    chosen = list(dict.fromkeys(each for word in chosen for each in swept(word)))
    for name in chosen:
        try:
            parse(name)
        except models.UnknownModel as error:
            raise XBenchError(str(error)) from error
    return chosen


def choose_model(command: str, word: str, **options: Any) -> str:
    """The model of a command that takes only one; `options` are those of `choose_models`.

    Raises:
        XBenchError: as `choose_models`; a word that means several.
    """
    names = choose_models([word], (), **options)
    if len(names) > 1:
        raise XBenchError(f"{command} takes one network at a time, of one shape: `time` sweeps over several")
    return names[0]


def choose_runtimes(words: Sequence[str] | None) -> list[str]:
    """Runtimes by name, all installed ones when none is given.

    Raises:
        XBenchError: unknown, or not installed; the message says how to install it.
    """
    from xbench import runtimes
    from xbench.runtimes import _configuration
    from xbench.workers import environment
    from xbench.workers.building import versions

    if not words:
        rows, here = runtimes.table(), installed_versions()
        installed = [name for name, row in rows.items() if not (row.hidden or row.named) and here[name]]
        if not installed:
            raise XBenchError("no runtime is installed: pip install 'xbench[cpu]'")
        return installed
    wanted = list[str]()
    for word in split(words):
        name, row = known_runtime(word)
        if _configuration.pinned(word) is not None:
            wanted.append(versions.environment_of(word))
        elif "python" not in runtimes.parse(word)[1] and not installed_version(row, name):
            raise XBenchError(f"{name} is not installed: {install(name)}")
    for each in wanted:  # which may take minutes: after every word has been looked at
        environment.ensure(each)
    return split(words)


def known_runtime(word: str) -> tuple[str, "Row"]:
    """The name and the row of a runtime's word, installed or not.

    Raises:
        XBenchError: unknown, or an option that it does not have.
    """
    from xbench import runtimes

    name, options = runtimes.parse(word)
    if not shutil.which(python := options.get("python", sys.executable)):
        raise XBenchError(f"{word}: there is no Python at {python}")
    if (row := runtimes.find_row(name)) is None:
        rows = runtimes.table()
        begun = [known for known in rows if name and known.startswith(name)]
        near = begun or difflib.get_close_matches(name, rows, n=1, cutoff=0.5)
        known = ", ".join(known for known, row in rows.items() if not row.hidden)
        hint = f"did you mean {near[0]}?" if near else f"the runtimes are {known}"
        raise XBenchError(f"unknown runtime {name!r}: {hint}")
    _need_options(word, name, row, options)
    return name, row


def _need_options(word: str, name: str, row: "Row", options: Mapping[str, str]) -> None:
    """
    Raises:
        XBenchError: an option that the runtime does not have, and would ignore.
    """
    for key, value in options.items():
        if key == "python" or row.options is None:
            continue
        if key not in row.options:
            known = ", ".join((*row.options, "python"))
            raise XBenchError(f"{word}: {name} has no option {key!r}; its options are {known}")
        if (allowed := row.options[key]) and value not in allowed:
            words = " or ".join(key if allowed == ("1",) else f"{key}={each}" for each in allowed)
            raise XBenchError(f"{word}: write {words}")


def installed_versions() -> dict[str, str | None]:
    """The version of every runtime that is not hidden, in its own environment; None if it is not installed.

    Raises:
        XBenchError: the file of settings is invalid.
    """
    from xbench import runtimes

    return {name: installed_version(row, name) for name, row in runtimes.table().items()}


def installed_version(row: "Row", name: str) -> str | None:
    """As `installed_versions`, for one runtime."""
    from xbench import runtimes
    from xbench.runtimes._configuration import Misconfigured

    try:
        return runtimes.version(row, name)
    except Misconfigured as error:
        raise XBenchError(str(error)) from error


def install(runtime: str) -> str:
    from xbench import runtimes

    if own := runtimes.row_of(runtime).environment:
        return f"xbench env create {own}"
    return f"pip install 'xbench[{runtimes.row_of(runtime).extra}]'"


def choose_modes(words: Sequence[str] | None, default: Sequence[str]) -> list[str]:
    for word in split(words):
        if word not in MODES:
            near = difflib.get_close_matches(word, MODES, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the modes are {', '.join(MODES)}"
            raise XBenchError(f"unknown mode {word!r}: {hint}")
    return split(words) or list(default)


def choose_device(word: str) -> str:
    from xbench.host import machine

    if word not in ("cpu", "cuda"):
        raise XBenchError(f"unknown device {word!r}: the devices are cpu, cuda")
    if word == "cuda" and not machine.has_cuda():
        raise XBenchError("--device cuda: this machine has no NVIDIA GPU (no /dev/nvidia0)")
    return word


def choose_layout(word: str) -> str:
    if word not in LAYOUTS:
        raise XBenchError(f"unknown layout {word!r}: the layouts are {', '.join(LAYOUTS)}")
    return word


def choose_precision(word: str, explain: bool = False) -> str:
    if word not in PRECISIONS:
        raise XBenchError(f"unknown precision {word!r}: it is one of {', '.join(PRECISIONS)}")
    if explain and word != "fp32":
        raise XBenchError("--explain needs --precision fp32: of less every tensor is off")
    return word


def choose_threads(given: int | None) -> int:
    """The number of threads; every CPU this process may use when none is given.

    Raises:
        XBenchError: fewer than one.
    """
    from xbench.host import machine

    if given is None:
        return machine.cpus()
    if given < 1:
        raise XBenchError("--threads must be at least 1")
    return given


def too_many_threads(threads: int) -> str | None:
    """A warning about more threads than CPUs that this process may use."""
    from xbench.host import machine

    usable = machine.cpus()
    return f"{threads} threads on {usable} CPUs will be slow and noisy" if threads > usable else None


def choose_batches(words: Sequence[str] | None) -> list[int]:
    """Batch sizes; an empty list means each model's own.

    Raises:
        XBenchError: not a positive whole number.
    """
    for word in split(words):
        if not word.isdecimal() or int(word) < 1:
            raise XBenchError(f"--batch must be a whole number of at least 1, not {word}")
    return [int(word) for word in split(words)]


def choose_words(plane: str, data: str, tune: str) -> dict[str, str]:
    """Options that take one word of a few.

    Raises:
        XBenchError: it is none of them.
    """
    known = {"plane": (plane, PLANES), "data": (data, (SYNTHETIC, "digits")), "tune": (tune, TUNES)}
    for option, (word, words) in known.items():
        if word not in words:
            raise XBenchError(f"--{option} must be one of {', '.join(words)}, not {word!r}")
    return {option: word for option, (word, _) in known.items()}


def again(rerun: bool, retry: bool = False) -> str:
    """Which stored records are measured again (`experiments/experiment.py`)."""
    return "all" if rerun else "failed" if retry else "none"


def cells(
    models: Sequence[str],
    runtimes: Sequence[str],
    modes: Sequence[str],
    batches: Sequence[int],
    fields: Mapping[str, Any],
) -> list[Case]:
    """Every combination, group by group; without batch sizes each model's own. `fields` are set on every case."""
    return [
        Case(model, runtime, mode, batch, **fields)
        for model in models
        for batch in batches or [batch_of(model, 1)]
        for mode in modes
        for runtime in runtimes
    ]


def batch_of(model: str, otherwise: int) -> int:
    """The default batch size of a network of the zoo."""
    from xbench.models import MODELS

    name = model.partition("@")[0]
    return MODELS[name].batch if name in MODELS else otherwise


def need_torch() -> None:
    """The exporter and the oracle are PyTorch, whatever is measured."""
    from xbench import runtimes

    if not runtimes.version(runtimes.RUNTIMES["torch"]):
        raise XBenchError("exporting and checking need PyTorch: pip install 'xbench[torch]'")
