"""The text of `README.md` in a deployment folder: what was measured and proved, and what the folder holds."""

from collections.abc import Mapping, Sequence
from typing import Any

from xbench.case import Case
from xbench.converters.printable import command, markdown, markdown_table, visible
from xbench.host import machine
from xbench.metrics import row_of
from xbench.parity.verdict import ALLOWED, SHARES
from xbench.recommend import chance
from xbench.recommend.lower import Lowered
from xbench.recommend.metric_script import Repeated, has_other_digits
from xbench.stats.quantities import of_metric
from xbench.store.record import NOTHING, Record, known
from xbench.workers.variables import MEMORY

NONE = "no command was recorded"


def readme(
    record: Record, case: Case, answers: Sequence[str], lowered: Lowered, told: Repeated | None, why: str
) -> str:
    """The README. `answers` is what `run.py` printed, `told` an evaluation of the cell, `why` the reason why `run.py`
    does not repeat it, empty if it does."""
    times = known(record["times"])
    facts: list[tuple[str, Any]] = [("model", case.model), ("runtime", case.runtime), ("batch", case.batch)]
    facts += [("threads", case.threads), ("layout", case.layout), ("machine", machine.label(record.get("machine")))]
    facts += lowered.rows()
    if times.get("median_s"):
        facts += [("median of a call", _milliseconds(times["median_s"]))]
        facts += [("its 95 % interval", f"{_milliseconds(times.get('low_s'))} to {_milliseconds(times.get('high_s'))}")]
    facts += [("load, compile, first call", f"{chance.start(times):.3g} s")]
    peak = (record.get("cost") or NOTHING).get("peak_memory_bytes")
    facts += [("peak memory", f"{peak / 1e6:.4g} MB")] if peak else []
    facts += _loaded(record.get("load"))
    rows = "\n".join(markdown_table(("measured", ""), ("---", "---"), facts))
    memory = " ".join(f"{name}={value}" for name, value in MEMORY.items())
    note = "" if case.runtime.partition(":")[0] not in ("torch", "torch_compile") else TORCH
    return README.format(
        model=markdown(case.model), rows=rows, error=_error(record, case),
        label=markdown(known(record["parity"])["class"]), answer=visible("; ".join(answers)),
        repeats=_repeats(answers, told, why), holds=LOWER if case.precision != "fp32" else EXACT,
        memory=memory, note=note, command=command(record.get("command"), NONE), time=markdown(record.get("time")),
    )  # fmt: skip


def _error(record: Record, case: Case) -> str:
    """How far off its worst tensor is, in words."""
    parity = known(record["parity"])
    ratio, share = parity.get("ratio"), parity.get("rel_l2")
    most = SHARES.get(case.precision)
    if ratio is None or (most and share is None):
        return "it passed"
    if most:
        return f"its worst tensor is off by {share:.2g} of its size ({most:g} is what {case.precision} may cost)"
    name = "float32" if case.precision == "fp32" else case.precision
    return f"its worst tensor is {ratio:.2g} noise floors off ({ALLOWED[case.precision]:g} are {name}'s)"


def _repeats(answers: Sequence[str], told: Repeated | None, why: str) -> str:
    """What it says of the evaluation."""
    if told is None:
        return ""
    found = told.found
    if why:
        value = found["value"]
        metric = "" if value is None else f" ({of_metric(value, row_of(found['metric']).share)} when it was evaluated)"
        return f"\n\nIt does not repeat the evaluation by {markdown(found['metric'])}{metric}: {markdown(why)}."
    if not any(map(has_other_digits, answers)):
        return REPEATS
    return REPEATS + OTHER_DIGITS.format(size=f"of {told.size}" if told.size else "of another size")


def _loaded(load: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    """What was measured under load, in words."""
    if not load:
        return []
    tails = [(f"{load['scenario']}: p{n}", _milliseconds(s)) for n, s in (load.get("latency_s") or {}).items()]
    return [*tails, (f"{load['scenario']}: samples a second", f"{load['samples_per_s']:.4g}")]


def _milliseconds(value: float | None) -> str:
    return "unknown" if value is None else f"{value * 1e3:.4g} ms"


TORCH = """
For a network of xbench's zoo PyTorch was measured with the module itself; here it is the same network as printed from
its ONNX graph, which may be a little slower or faster.
"""
REPEATS = """

Then it computes the metric of the evaluation on its samples, `samples.npz`, and exits with 1 where it differs by more
than rounding may change: one answer, or 0.01 of F1 and average precision."""
OTHER_DIGITS = """ Here its last digits differ: it was
evaluated in batches {size}, and sums may be in another order."""
EXACT = "`certificate.json` says what the model holds: every parameter by name, shape and digest."
LOWER = """`certificate.json` says what the model was made of, every parameter in float32 by name, shape and digest, and
what made it."""
README = """# {model}

```
pip install -r requirements.txt
python run.py
```

runs the model on the inputs of `expected.npz`, compares what comes out with what float64 computes of them, prints the
relative error of each output and what it may be, and exits with 1 where it is more. It needs no xbench.{repeats}

{rows}

Times are of steps in steady state, {time}, by

    {command}
{note}
Proved equal before it was timed: class {label}, {error}.
{holds} When this folder was written `run.py` printed

    {answer}

`run.py` sets the threads and the options that were measured. Beside that the processes that were timed had glibc keep
what they free: `{memory}`.
"""
