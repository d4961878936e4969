"""The text of the script that runs a part of a model without xbench (`reproduce.py`), around one function per runtime
(`runtimes/scripts/`); and the one that times a network in two releases.

A function takes the inputs by name and returns its results by name. Words in capitals are replaced. Everything
inserted is a literal or text of a docstring, by `converters/printable.py`.
"""

SCRIPT = '''"""{title}

Written by xbench, which it does not need; it needs numpy and the runtimes below. Exit code 1 while the difference is
there, else 0.
"""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
INPUTS = {inputs}
OUTPUTS = {outputs}
LIMIT = {limit}  # noise floors; what adds in another order, in the precision of the graph, stays below


def arrays(name):
    with np.load(HERE / name) as file:
        return {{key: file[f"{{key}}.npy"] for key in file.files}}


def measured(call):
    """What a runtime computes."""
    return call()


{functions}

RUNS = [
{rows}]


def errors(found, expected, noise):
    """The largest error, and the worse of the L2 norm and the largest error in noise floors."""
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    if found.size == expected.size == 1:
        found = found.reshape(expected.shape)
    if found.shape != expected.shape:
        return np.inf, np.inf
    with np.errstate(invalid="ignore"):
        off = np.where(found == expected, 0.0, np.abs(found - expected))
    off[~np.isfinite(off)] = np.inf
    sizes = np.linalg.norm(off), off.max(initial=0.0)
    return sizes[1], max(0.0 if not e else np.inf if not n else e / n for e, n in zip(sizes, noise))


def main():
    given, expected = arrays("inputs.npz"), arrays("expected.npz")
    worst = 0.0
    for runtime, run in RUNS:
        try:
            found = run(given)
        except Exception as error:
            print(f"{{runtime}}: {{error!a}}")
            worst = np.inf
            continue
        for name in (name for name in expected if not name.startswith("noise/")):
            value = found.get(name, found.get("gradient." + name, np.zeros_like(expected[name])))
            largest, floors = errors(value, expected[name], expected["noise/" + name])
            of = np.abs(expected[name]).max(initial=0.0)
            shown = ascii(name)[1:-1]
            print(f"{{runtime}} {{shown}}: largest error {{largest:.3g}} of {{of:.3g}}, {{floors:.1f}} noise floors")
            worst = max(worst, floors)
    print(f"{{worst:.1f}} noise floors: " + ("the difference is there" if worst > LIMIT else "no difference"))
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
'''

RECORDED = '''
def recorded_LETTER(given):
    """What WORD gave; it cannot be run from here."""
    return arrays("LETTER.npz")
'''

FAILED = '''
def failed_LETTER(given):
    """What WORD gave is nothing; it cannot be run from here."""
    return {name: np.full(a.shape, np.nan) for name, a in arrays("expected.npz").items()}
'''

REFERENCE = """
def run_reference(given):
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(str(HERE / GRAPH))
    return dict(zip(evaluator.output_names, evaluator.run(None, given)))
"""

TIMES = '''"""{title}

Written by xbench, which it does not need.

    python -m venv good && good/bin/pip install {good}
    python -m venv bad && bad/bin/pip install {bad}
    python reproduce.py good/bin/python bad/bin/python    both in turns, and the ratio of their times
    bad/bin/python reproduce.py                           the time in one of them
"""

import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
INPUTS = {inputs}
OUTPUTS = {outputs}
SECONDS, TURNS = 2.0, 5


def measured(call):
    """What a runtime computes; prints the median time of the call."""
    for _ in range(3):
        found = call()
    seconds, begun = [], time.perf_counter()
    while len(seconds) < 10 or time.perf_counter() - begun < SECONDS:
        start = time.perf_counter()
        found = call()
        seconds.append(time.perf_counter() - start)
    print(f"{{statistics.median(seconds) * 1e3:.4f}} ms, the median of {{len(seconds)}} calls")
    return found


{function}


def in_turns(pythons):
    """The ratio of the times of two interpreters."""
    for python in pythons:
        if not shutil.which(python):
            sys.exit(f"there is no Python at {{python}}")
    times = {{python: [] for python in pythons}}
    for turn in range(TURNS):
        for python in pythons if turn % 2 else pythons[::-1]:
            command = [python, __file__]
            answer = subprocess.run(command, stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
            line = answer.splitlines()[-1]  # a release may print, too
            times[python].append(float(line.split()[0]))
            print(f"{{python}}: {{line}}", flush=True)
    good, bad = (statistics.median(times[python]) for python in pythons)
    print(f"{{bad / good:.3f}} x the time of {{pythons[0]}}")


def main():
    if len(sys.argv) == 3:
        in_turns(sys.argv[1:])
    elif len(sys.argv) > 1:
        sys.exit(f"two interpreters, or none: {{sys.argv[0]}} GOOD BAD")
    else:
        with np.load(HERE / "inputs.npz") as file:
            {name}({{key: file[f"{{key}}.npy"] for key in file.files}})


if __name__ == "__main__":
    main()
'''
