"""The text of `run.py` in a deployment folder: the runtime loads and runs its own format (`runtimes/scripts/`) with
the settings it was measured with."""

from collections.abc import Mapping, Sequence
from string import Template

from xbench.case import Case
from xbench.converters.printable import docstring, file_name, python
from xbench.errors import XBenchError
from xbench.runtimes import parse
from xbench.runtimes.scripts import Form, deployment

SCRIPT = '''"""$title. Needs no xbench."""
import os
import sys
from pathlib import Path

os.environ |= $environment
hasattr(os, "sched_setaffinity") and os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:$threads])
import numpy as np
$imports

HERE, DATA, ALLOWED = Path(__file__).parent, np.load(Path(__file__).parent / "expected.npz"), $allowed
inputs, expected = ([DATA[f"{n}.npy"] for n in DATA.files if n.startswith(kind)] for kind in ("input/", "output/"))
$lines
pairs = [(np.asarray(y), w) for y, w in zip(outputs, expected, strict=True)]
off = [np.linalg.norm(np.float64(y) - w) / np.linalg.norm(w) if y.shape == w.shape else np.inf for y, w in pairs]
print("outputs", [y.shape for y, _ in pairs], "relative errors", [float(f"{e:.2g}") for e in off], "allowed", ALLOWED)
${more}sys.exit(not all(error <= most for error, most in zip(off, ALLOWED, strict=True)))
'''


def form(case: Case) -> Form:
    """How a cell is run; `case.runtime` has every setting that it was opened with.

    Raises:
        XBenchError: it has no script.
    """
    if "python" in parse(case.runtime)[1]:
        raise XBenchError(f"{case.runtime} is not deployed: its form would be written by this Python, not by that one")
    how = deployment(case.runtime)
    known = ["fp32", *how.lower]
    if (case.mode, case.device) != ("forward", "cpu") or case.precision not in known:
        own = f"the script is one of forward on the cpu in {' or '.join(known)}"
        words = f"mode {case.mode} on {case.device} in {case.precision}"
        raise XBenchError(f"{case.runtime} is not deployed: {own}, not {words}")
    return how._replace(words={**how.words, **how.lower.get(case.precision, {})})


def script(
    case: Case,
    how: Form,
    title: str,
    name: str,
    names: Mapping[str, list[str]],
    allowed: Sequence[float],
    more: str = "",
) -> str:
    """The text of `run.py`. `name` is the name of the model's files, `names` those of its `inputs` and `outputs`,
    `allowed` the relative error that each output may have, `more` lines after these are printed, which may call
    `answer(inputs)`."""
    threads = {"OMP_NUM_THREADS": str(case.threads)}
    lists = {word: python(list(each)) for word, each in names.items()}
    fields = {"threads": python(case.threads), "name": file_name(name), **lists}
    text = Template(how.lines).substitute(fields, **how.words)
    return Template(SCRIPT).substitute(
        fields,
        title=docstring(title),
        environment=python(threads | dict(how.environment)),
        imports=how.imports,
        allowed=python(tuple(float(f"{each:.2e}") for each in allowed)),
        lines=_as_function(text, how.each) if more else text,
        more=f"{more}\n" if more else "",
    )


def _as_function(text: str, each: int) -> str:
    """The lines, of which the last ones (all if there are 0) are those of a function, which is called."""
    lines = text.splitlines()
    loading, running = lines[: len(lines) - each if each else 0], lines[-each:]
    function = ["def answer(inputs):", *(f"    {line}" if line else "" for line in running), "    return outputs"]
    return "\n".join([*loading, "", "", *function, "", "", "outputs = answer(inputs)"])
