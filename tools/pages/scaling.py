"""Several workers, measured and predicted, as Markdown: `make scaling` writes docs/scaling-figures.md and its pictures.

Every engine by 1, 2 and 4 workers of one thread: weak scaling, with the batch a worker that the table names, and strong
scaling of LeNet. To be run while the machine does nothing else: on one that is busy a message of a few kilobytes waits
for a turn of the scheduler, and the all-reduce is told to cost what that does. `--model` and `--runtime` choose.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from xbench.experiments.scaling.run import Scale
from xbench.host import machine
from xbench.reports.scaling import to_markdown
from xbench.reports.speedups import draw

PLANS = [("lenet", "weak", 64), ("fcn5_mnist", "weak", 64), ("alexnet_cifar", "weak", 32), ("lenet", "strong", 64)]
RUNTIMES = ["torch", "tensorflow", "jax"]


def scaled(model: str, kind: str, batch: int, options: argparse.Namespace, out: Path) -> list[dict[str, Any]]:
    """The rows of one `xbench scale`, including failures."""
    words = ["--scaling", kind, "--batch", str(batch), "--workers", options.workers, "--budget", str(options.budget)]
    words += [word for runtime in options.runtime or RUNTIMES for word in ("--runtime", runtime)]
    command = [sys.executable, "-P", "-c", "from xbench.cli import main; main()", "scale", model, *words]
    answer = subprocess.run([*command, "--json", "--out", str(out)], stdout=subprocess.PIPE, text=True)
    if answer.returncode not in (0, 1):
        sys.exit(answer.returncode)
    rows: list[dict[str, Any]] = json.loads(answer.stdout)
    return rows


def facts(out: Path) -> str:
    """The machine, its load at the first record, and the versions of all records."""
    records = [json.loads(line) for line in (out / Scale.file).read_text().splitlines()]
    versions = {name: version for record in records for name, version in record["versions"].items()}
    about = records[0]["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    return f"{about['cpu']}, {about['cpus']} CPUs, load {about['load'][0]:.1f} when the first record began; {packages}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help="of those in PLANS; default: all")
    parser.add_argument("--runtime", action="append", default=[])
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--budget", type=float, default=12.0, help="seconds of timing for each number of workers")
    parser.add_argument("--pictures", type=Path, help="folder for the pictures")
    options = parser.parse_args()
    if os.getloadavg()[0] > 0.5 * machine.cpus():
        print(f"warning: {os.getloadavg()[0]:.1f} processes want a CPU already", file=sys.stderr)
    parts = []
    with tempfile.TemporaryDirectory() as folder:
        for model, kind, batch in PLANS:
            if options.model and model not in options.model:
                continue
            rows = scaled(model, kind, batch, options, Path(folder))
            parts.append(to_markdown(rows).strip())
            if options.pictures and any(row["speed_up"] for row in rows):
                png, _ = draw(rows, options.pictures / f"scaling-{model}-{kind}")
                parts.append(f"![Speed-up of {model} against workers, measured and predicted]({png.name})")
        about = facts(Path(folder))
    print(f"# Several workers, measured and predicted\n\nPrinted by `make scaling`: {about}\n")
    print("How it is measured, and what the columns are: [scaling](scaling.md).\n")
    print("\n\n".join(parts))


if __name__ == "__main__":
    main()
