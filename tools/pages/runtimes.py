"""What every runtime is and takes, as Markdown: `tools/pages/runtimes.py > docs/runtimes.md`, or `make runtimes`.

All that are installed, those that are run by name alone, too: their packages, which networks they compute (`xbench
check`), and one ranked table of MobileNetV2 (`xbench time`) by one thread, as tract has no more.
"""

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from tuning import xbench

from xbench.runtimes import RUNTIMES, version

MODELS = ("lenet", "mobilenet_v2", "resnet50", "imdb_gru", "lstm_ptb", "vit_s16")
TIMED = ("mobilenet_v2", "--mode", "forward", "--batch", "1", "--threads", "1")
LICENCE = "License :: OSI Approved :: "
Row = Mapping[str, Any]


def installed() -> list[str]:
    return [name for name, row in RUNTIMES.items() if not (row.hidden or row.environment) and version(row)]


def package(name: str) -> str:
    """The cells of a runtime's package: its name and version, the megabytes of its files, its licence."""
    for each in RUNTIMES[name].packages:
        try:
            found = metadata.distribution(each)
        except metadata.PackageNotFoundError:
            continue
        size = sum(file.size or 0 for file in found.files or ()) / 1e6
        return f"{each}=={found.version} | {size:.0f} | {licence(found.metadata)}"
    raise SystemExit(f"{name} is not installed")


def licence(facts: Any) -> str:
    """As its metadata says; many have it in one of three places."""
    short = facts.get("License-Expression") or next(iter((facts.get("License") or "").splitlines()), "")
    kinds = [line.removeprefix(LICENCE) for line in facts.get_all("Classifier") or () if line.startswith(LICENCE)]
    return short if 0 < len(short) < 40 else ", ".join(kinds) or "not said"


def takes(rows: Sequence[Row], name: str, models: Sequence[str]) -> str:
    """The cells of a runtime in the table of networks."""
    by_model = {row["model"]: row for row in rows if row["runtime"] == name}
    return " | ".join(by_model[model]["status"] if model in by_model else "-" for model in models)


def notes(rows: Sequence[Row]) -> list[str]:
    failed = [row for row in rows if row["status"] not in ("PASS", "SKIPPED")]
    return [f"- {row['runtime']}, {row['model']}: {(row['message'] or '').splitlines()[0]}" for row in failed]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help=f"a network to check; default: {', '.join(MODELS)}")
    parser.add_argument("--runtime", action="append", help="default: all that are installed")
    parser.add_argument("--budget", default="5", help="seconds of sampling of each cell")
    options = parser.parse_args()
    names, models = options.runtime or installed(), options.model or list(MODELS)
    chosen = [word for name in names for word in ("--runtime", name)]
    with tempfile.TemporaryDirectory() as out:
        xbench("time", *TIMED, *chosen, "--budget", options.budget, "--out", out)
        with open(f"{out}/results.jsonl") as store:
            about = json.loads(store.readline())["machine"]
        table = xbench("show", "--out", out, "--markdown")
        rows = json.loads(xbench("check", *models, "--mode", "forward", *chosen, "--out", out, "--json"))
    print("# Every runtime\n\nPrinted by `make runtimes`: all that are installed by `make env`. "
          f"{about['cpu']}, {about['cpus']} CPUs, shared.\n")  # fmt: skip
    print("| runtime | package | MB on disk | licence | trains | below float32 | on request |")
    print("| --- | --- | --: | --- | --- | --- | --- |")
    for name in names:
        row = RUNTIMES[name]
        cells = (row.autodiff or "no", ", ".join(row.lower) or "-", "yes" if row.named else "no")
        print(f"| {name} | {package(name)} | {' | '.join(cells)} |")
    print(f"\n## Networks that they compute\n\n| runtime | {' | '.join(models)} |\n| --- |{' --- |' * len(models)}")
    print("\n".join(f"| {name} | {takes(rows, name, models)} |" for name in names))
    print("\n" + "\n".join(notes(rows)) + f"\n\n## Times\n\n{table.strip()}")


if __name__ == "__main__":
    main()
