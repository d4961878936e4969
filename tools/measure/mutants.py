"""Do the tests notice a fault? Plants one fault after the other into a copy of the repository and runs a tier there.

    python tools/measure/mutants.py [FAULT ...] [--tier fast|all] [--near] --json FILE

A fault is a changed line of the product (mutants.toml). It is caught if a test of the tier fails, and the first such
test is printed. The tests near each fault run first; then, unless `--near`, the entire tier on each fault that those
have not caught. FILE is written after each fault, and what is in it is not run again. The copy is of the last commit.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TIERS = {"fast": ["-m", "not slow"], "all": []}
PYTEST = ["-P", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--numprocesses", "2"]
NO_TESTS = 5  # pytest's exit code if every test of these files is slow
SPREAD = ["--dist", "loadfile", "--no-loadscope-reorder"]

FAULTS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())


@contextmanager
def copied() -> Iterator[Path]:
    """The last commit in a separate folder, with the links through which it is imported."""
    with tempfile.TemporaryDirectory(prefix="xbench-mutants-") as place:
        copy = Path(place) / "xbench"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", copy], check=True)
        try:
            subprocess.run(["make", "--silent", "types"], cwd=copy, check=True)
            yield copy
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", copy], check=True)


def plant(copy: Path, file: str, line: str, fault: str) -> None:
    path = copy / file
    text = path.read_text()
    if text.count(line) != 1:
        raise SystemExit(f"{file} has {text.count(line)} of {line!r}")
    path.write_text(text.replace(line, fault))


def caught(copy: Path, tier: str, near: list[str]) -> str | None:
    """The first test that fails: of the files in `near`, or of the entire tier if there are none."""
    environment = {**os.environ, "PYTHONPATH": str(copy / ".types")}
    files = [str(path) for name in near for path in (copy / "tests").rglob(f"test_{name}.py")]
    words = [sys.executable, *PYTEST, *SPREAD, *TIERS[tier], *files]
    ended = subprocess.run(words, cwd=copy, env=environment, capture_output=True, text=True)
    lines = [each for each in ended.stdout.splitlines() if each.startswith(("FAILED", "ERROR"))]
    if not lines and ended.returncode not in (0, NO_TESTS):
        raise SystemExit(ended.stdout[-2000:] + ended.stderr[-2000:])
    return lines[0].partition(" - ")[0] if lines else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("faults", nargs="*", metavar="FAULT", default=[*FAULTS])
    parser.add_argument("--tier", choices=TIERS, default="fast")
    parser.add_argument("--near", action="store_true", help="only the tests near each fault")
    parser.add_argument("--json", type=Path, required=True, help="a file for the outcomes, and to go on from")
    options = parser.parse_args()
    known = json.loads(options.json.read_text()) if options.json.exists() else {}
    keys = {name: f"{options.tier}: {name}" for name in options.faults}
    with copied() as copy:
        for everything in (False,) if options.near else (False, True):
            for name in (name for name, key in keys.items() if key not in known):
                subprocess.run(["git", "checkout", "--quiet", "."], cwd=copy, check=True)
                fault = FAULTS[name]
                plant(copy, fault["file"], fault["line"], fault["fault"])
                noticed = caught(copy, options.tier, [] if everything else fault["near"])
                if noticed or everything:
                    known[keys[name]] = noticed
                    options.json.write_text(json.dumps(known, indent=1))
                print(f"{name:36} {noticed or 'NOT CAUGHT' + (' near it' if not everything else '')}", flush=True)
    noticed = [known.get(key) is not None for key in keys.values()]
    print(f"{sum(noticed)} of {len(noticed)} faults are caught by the {options.tier} tier")
    return int(not all(noticed))


if __name__ == "__main__":
    sys.exit(main())
