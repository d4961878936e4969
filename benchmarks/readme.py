"""Puts what `xbench show --markdown` prints between the markers of README.md; `make readme` calls it."""

import subprocess
import sys
from pathlib import Path

START, END = "<!-- table: make readme -->", "<!-- /table -->"


def main(xbench: str) -> int:
    shown = subprocess.run([xbench, "show", "--markdown"], capture_output=True, text=True)
    if shown.returncode:
        print(shown.stderr, end="", file=sys.stderr)
        return shown.returncode
    readme = Path(__file__).parent.with_name("README.md")
    before, _, rest = readme.read_text().partition(START)
    _, _, after = rest.partition(END)
    readme.write_text(f"{before}{START}\n{shown.stdout.strip()}\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
