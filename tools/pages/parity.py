"""Prints docs/parity.md from the output of `xbench check all --json`: python tools/pages/parity.py FILE."""

import json
import sys
from pathlib import Path
from typing import Any

from xbench.host import machine

HEAD = """# Parity of the zoo

Printed by `make parity`: the worst error of any tensor in units of the float32 noise floor, batch 2 and in forward also
batch 3; up to 64 passes as class fp32. Every cell that passes also holds the same parameters, by name and bit by bit.
See [how we measure](method.md)."""


def cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    if row["status"] == "PASS":
        return f"{row['ratio']:.1f}"
    return f"{row['status']}: {row['message'].removeprefix('operators missing: ')}".replace("|", " ")


def table(rows: list[dict[str, Any]]) -> str:
    models, runtimes = (list(dict.fromkeys(row[word] for row in rows)) for word in ("model", "runtime"))
    by_cell = {(row["model"], row["runtime"]): row for row in rows}
    lines = [f"| model | {' | '.join(runtimes)} |", f"| --- | {' | '.join('--:' for _ in runtimes)} |"]
    lines += [f"| {m} | {' | '.join(cell(by_cell.get((m, r))) for r in runtimes)} |" for m in models]
    return "\n".join(lines)


def main() -> None:
    rows = json.loads(Path(sys.argv[1]).read_text())
    print(HEAD)
    for mode in dict.fromkeys(row["mode"] for row in rows):
        print(f"\n## {mode}\n\n{table([row for row in rows if row['mode'] == mode])}")
    facts = machine.describe()
    print(f"\n{facts['cpu']}, {machine.cpus()} CPUs.")


if __name__ == "__main__":
    main()
