"""How the default suite does under load, as Markdown: `python tools/pages/load_table.py > docs/load.md`.

Every network of the suite on every installed runtime, in every scenario of `xbench load`, with one thread less than
there are CPUs, which is left to LoadGen. Each network has one bound for all its servers, so that they can be compared:
what `--latency-ms` says, else 10 times the median of the single stream of its fastest runtime, or 4 times its p99 where
that is more. Takes hours on slow runtimes; `--model` and `--runtime` choose.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from xbench import models
from xbench.experiments import load
from xbench.host import machine
from xbench.reports.load import to_markdown

MEDIANS, TAILS = 10, 4  # of the fastest single stream: the bound of all servers of a network


def loaded(model: str, words: list[str], out: Path) -> list[dict[str, Any]]:
    """The rows of one `xbench load`, including failures."""
    command = [sys.executable, "-P", "-c", "from xbench.cli import main; main()", "load", model, *words]
    answer = subprocess.run([*command, "--json", "--out", str(out)], stdout=subprocess.PIPE, text=True)
    if answer.returncode not in (0, 1):
        sys.exit(answer.returncode)
    rows: list[dict[str, Any]] = json.loads(answer.stdout)
    return rows


def suite(model: str, words: list[str], latency_ms: float | None, out: Path) -> list[dict[str, Any]]:
    """The rows of all scenarios of a network, the server scenario with one bound."""
    alone = [word for name in load.SCENARIOS if name != "server" for word in ("--scenario", name)]
    rows = loaded(model, [*words, *alone], out)
    streams = [row["latency_s"] for row in rows if row["scenario"] == "single-stream" and row["latency_s"]]
    if not streams and latency_ms is None:
        return rows
    bound = latency_ms or 1e3 * max(MEDIANS * streams[0]["50"], TAILS * streams[0]["99"])  # the best is first
    return rows + loaded(model, [*words, "--scenario", "server", "--latency-ms", f"{bound:.2g}"], out)


def facts(out: Path) -> str:
    """The machine and the versions of all records."""
    records = [json.loads(line) for line in (out / load.Load.file).read_text().splitlines()]
    versions = {name: version for record in records for name, version in record["versions"].items()}
    about = records[-1]["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    return f"{about['cpu']}, {about['cpus']} CPUs, shared with other machines; {packages}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help="default: those of the default suite")
    parser.add_argument("--runtime", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=5.0, help="of a run")
    parser.add_argument("--threads", type=int, default=max(1, machine.cpus() - 1))
    parser.add_argument("--latency-ms", type=float)
    options = parser.parse_args()
    words = ["--seconds", str(options.seconds), "--threads", str(options.threads)]
    words += [word for runtime in options.runtime for word in ("--runtime", runtime)]
    with tempfile.TemporaryDirectory() as folder:
        chosen = options.model or models.DEFAULT_SUITE
        rows = [row for model in chosen for row in suite(model, words, options.latency_ms, Path(folder))]
        about = facts(Path(folder))
    print(f"# Under load\n\nPrinted by `tools/pages/load_table.py`: {options.seconds:g} s a run. {about}\n")
    print(to_markdown(rows).strip())


if __name__ == "__main__":
    main()
