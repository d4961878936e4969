"""What tuning gives, as Markdown: `python tools/pages/tuning.py > docs/tuning.md`, or `make tuning`.

lenet and cifar_vgg, forward, on every installed runtime, as its makers deliver it (`--tune default`, TVM untuned) and
with the fastest of its own settings (`--tune max`). `--seconds` is what TVM's MetaSchedule gets for each network. The
times of one table were taken in one interleaved run; the two tables of a network, one after the other.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

MODELS = ("lenet", "cifar_vgg")


def xbench(*words: str) -> str:
    command = [sys.executable, "-P", "-c", "from xbench.cli import main; main()", *words]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if answer.returncode not in (0, 1):  # 1: a cell failed, which the table shows
        sys.exit(answer.returncode)
    return answer.stdout


def tried(record: dict) -> str:
    """One line on the settings tried for a cell."""
    case, tuning = record["case"], record["tuning"]
    if not tuning["tried"]:
        return f"| {case['model']} | {case['runtime']} | nothing to try | |"
    steps = ", ".join(
        f"{word or 'as it is'} {'failed' if seconds is None else f'{seconds * 1e3:.3g} ms'}"
        for word, seconds in tuning["tried"].items()
    )
    return f"| {case['model']} | {case['runtime']} | {steps} | {tuning['seconds']:.0f} s |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=240)
    parser.add_argument("--model", action="append", help=f"default: {' and '.join(MODELS)}")
    parser.add_argument("--runtime", action="append", default=[], help="default: all that are installed")
    options = parser.parse_args()
    chosen = [word for runtime in options.runtime for word in ("--runtime", runtime)]
    with tempfile.TemporaryDirectory() as out:
        for tune in (("--tune", "max", "--tune-budget", str(options.seconds)), ("--tune", "default")):
            xbench("time", *(options.model or MODELS), "--mode", "forward", *chosen, *tune, "--out", out)
        records = [json.loads(line) for line in (Path(out) / "results.jsonl").read_text().splitlines()]
        table = xbench("show", "--out", out, "--markdown")
    about = records[-1]["machine"]
    print("# Tuned and untuned\n")
    by = f"Printed by `{' '.join(['tools/pages/tuning.py', *sys.argv[1:]])}`."
    print(f"{by} {about['cpu']}, {about['cpus']} CPUs, shared with")
    print(f"other machines.\n\n{table.strip()}\n\n## What was tried\n")
    print("Medians of a race: each setting in a process of its own, in seven turns. The last column is what the search")
    print("took, with TVM's import of its tuner.\n")
    print("| model | runtime | tried | search |\n|---|---|---|---|")
    print("\n".join(tried(record) for record in records if record["tuning"]))


if __name__ == "__main__":
    main()
