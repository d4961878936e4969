"""The five comparisons that xbench succeeds, as plain data: what each measured, and what it published. Imports nothing.

`lineage.py` says what became of their tools. Every other file is a study, named by its word; `STUDIES` is the table. A
study is its tables (`Part`), each with its cells for every `--scale` (`SCALES`): `full` is what the study did, as far
as possible; the others leave out and shrink, and report what they leave out (`omitted`).
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

SCALES = ("tiny", "small", "full")
COMMUNICATION = "communication"  # the second table of several workers, as a quotation's `mode`
ALL = 0  # threads: one per CPU


@dataclass(frozen=True)
class Vary:
    """A network of a table, and what is varied, in all combinations. `threads` 0 means all CPUs."""

    network: str
    batches: tuple[int, ...]
    modes: tuple[str, ...] = ("step",)
    threads: tuple[int, ...] = (ALL,)


@dataclass(frozen=True)
class Quote:
    """Published figures, shown next to the measured ones. `rows` are named as the rows of the table, and have seconds
    (or the table's unit) by tool; `network` and `mode` name their table in a part that has several. `about` is the
    machine and other differences, `source` where they were published."""

    rows: Mapping[str, Mapping[str, float]]
    about: str
    source: str
    network: str = ""
    mode: str = ""


@dataclass(frozen=True)
class Part:
    """One table of a study.

    `kind` says what is measured and how it is shown: `times` (a row per network, mode and batch), `tools` (a row per
    runtime, a column per machine), `threads` and `batches` (a table per network and mode, a row per number of them),
    `costs` (memory and energy), `phases`, `layers`, `scaling`, `training`. `samples` scales times of a step to that
    number of samples; `of` names them. `settings` are a kind's own. Rows of `sums` add others: name -> names.
    """

    name: str
    title: str
    kind: str
    varied: Mapping[str, tuple[Vary, ...]]
    quotes: tuple[Quote, ...] = ()
    plane: str = "resident"
    samples: Mapping[str, int] = field(default_factory=dict)
    of: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    sums: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study:
    """A comparison: its name, what it was, where it was published, its tables, and what no scale can repeat here."""

    name: str
    about: str
    source: str
    parts: tuple[Part, ...]
    never: tuple[str, ...] = ()


FILES = {
    "dlbench": "dlbench",
    "s-sgd": "s_sgd",
    "minibatch": "minibatch",
    "rosetta": "rosetta",
    "bahrampour": "bahrampour",
}
STUDIES = tuple(FILES)
# Default runtimes of a scale, of those that are installed.
RUNTIMES = {
    "tiny": ("torch", "onnxruntime", "openvino", "tensorflow", "jax"),
    "small": ("torch", "torch_compile", "onnxruntime", "openvino", "tensorflow", "jax"),
    "full": ("torch", "torch_compile", "onnxruntime", "openvino", "tensorflow", "jax", "tvm"),
}


def find(name: str) -> Study:
    """
    Raises:
        KeyError: there is none of that name.
    """
    study: Study = importlib.import_module(f"xbench.studies.{FILES[name]}").STUDY
    return study


def spread(part: Part, scale: str) -> list[Vary]:
    """The cells of a table at a scale, each with one batch, mode and number of threads, in the order of its rows.

    >>> part = Part("t", "", "times", {"full": (Vary("lenet", (1, 2), ("forward", "step")),)})
    >>> [(each.batches, each.modes) for each in spread(part, "full")]
    [((1,), ('forward',)), ((1,), ('step',)), ((2,), ('forward',)), ((2,), ('step',))]
    >>> spread(part, "tiny")
    []
    """
    return [
        replace(vary, batches=(batch,), modes=(mode,), threads=(threads,))
        for vary in part.varied.get(scale, ())
        for batch in vary.batches
        for mode in vary.modes
        for threads in vary.threads
    ]


def omitted(study: Study, scale: str, cpus: int, runtimes: tuple[str, ...] = RUNTIMES["full"]) -> list[str]:
    """What a scale leaves out of the study, one per line; last is what no scale can do."""
    named = {word.partition(":")[0] for word in runtimes}
    absent = [name for name in RUNTIMES["full"] if name not in named]
    lines = [f"runtimes: {', '.join(absent)} (--runtime names any)"] if absent else []
    for part in study.parts:
        complete, here = spread(part, "full"), [each for each in spread(part, scale) if each.threads[0] <= cpus]
        networks = list(dict.fromkeys(each.network for each in complete))
        missing = [name for name in networks if name not in {each.network for each in here}]
        if len(missing) == len(networks):
            lines.append(f"{part.name}: the whole table ({', '.join(networks)})")
            continue
        lines += [f"{part.name}: {', '.join(missing)}"] if missing else []
        for name in networks:
            if name not in missing:
                lines += _smaller(part.name, name, complete, here)
        lines += _shorter(part, scale)
    return [*lines, *study.never]


def _smaller(part: str, network: str, complete: list[Vary], here: list[Vary]) -> list[str]:
    """What is left out of one network, and what replaces it."""
    lines = []
    for what in ("batches", "modes", "threads"):
        published = list(dict.fromkeys(getattr(each, what)[0] for each in complete if each.network == network))
        measured = list(dict.fromkeys(getattr(each, what)[0] for each in here if each.network == network))
        if gone := [each for each in published if each not in measured]:
            word = {"batches": "batch", "modes": "mode", "threads": "threads"}[what]
            instead = ", ".join(map(_word, measured))
            lines.append(f"{part}: {network}, {word} {', '.join(map(_word, gone))} (here {instead})")
    return lines


def _shorter(part: Part, scale: str) -> list[str]:
    """Which numbers of workers or epochs are left out."""
    what = {"scaling": "workers", "training": "epochs"}.get(part.kind)
    if not what or part.settings["full"] == part.settings[scale]:
        return []
    here = part.settings[scale].split()
    gone = [each for each in part.settings["full"].split() if each not in here]
    return [f"{part.name}: {', '.join(gone)} {what} (here {', '.join(here)})"] if gone else []


def _word(value: object) -> str:
    return "all" if value == ALL else str(value)
