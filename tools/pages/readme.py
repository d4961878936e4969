"""Writes the results of `make run` into README.md (one network) and docs/default-suite.md (all): `make readme`."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
STORE = Path("xbench-results")
START, END = "<!-- table: make readme -->", "<!-- /table -->"
MODEL = "mobilenet_v2"


def shown(xbench: str, *options: str) -> str:
    return subprocess.run([xbench, "show", "--markdown", *options], capture_output=True, text=True, check=True).stdout


def machine() -> str:
    """The machine and the versions of the last record."""
    records = [json.loads(line) for line in (STORE / "results.jsonl").read_text().splitlines()]
    versions = {name: version for record in records for name, version in record["versions"].items()}
    about = records[-1]["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    return f"{about['cpu']}, {about['cpus']} CPUs, shared with other machines; {packages}."


def main(xbench: str) -> None:
    facts = machine()
    parts = [f"# The default suite\n\nPrinted by `make run` and `make readme`. {facts}\n\n{shown(xbench).strip()}\n"]
    for title, option in (("What a cell costs beside time", "--cost"), ("Under the machine's roofline", "--roofline")):
        parts.append(f"## {title}\n\n`xbench show {option}`\n\n{shown(xbench, option).strip()}\n")
    (ROOT / "docs" / "default-suite.md").write_text("\n".join(parts))
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text().partition(START)
    _, _, after = rest.partition(END)
    table = shown(xbench, "--model", MODEL).strip()
    readme.write_text(f"{before}{START}\n{table}\n\n{facts}\n{END}{after}")


if __name__ == "__main__":
    main(sys.argv[1])
