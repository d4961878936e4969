"""The releases of a runtime's package, as the package index lists them for an interpreter, and a range of them."""

import re
import subprocess
import sys
from collections.abc import Sequence

from xbench.converters.printable import visible
from xbench.errors import XBenchError
from xbench.runtimes._environments import Recipe
from xbench.workers.building.installation import nearest, numbers

FINAL = re.compile(r"\d+(\.\d+)*(\.post\d+)?", re.ASCII)
PATIENCE = 120  # seconds that the index may take
LISTED = re.compile(r"^Available versions: (.+)$", re.MULTILINE)


def released(recipe: Recipe, interpreter: str) -> list[str]:
    """The final releases of the recipe's package that have a wheel for one of the two interpreters, the oldest first:
    this one's if it has pip, else those of the one that the recipe is made with.

    Raises:
        XBenchError: the index does not answer, or does not have the package.
    """
    said = "no interpreter has pip"
    for python in dict.fromkeys((sys.executable, interpreter)):
        command = [python, "-m", "pip", "--disable-pip-version-check", "index", "versions", recipe.package]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            said = str(error)
            continue
        if match := LISTED.search(answer.stdout):
            return sorted(filter(FINAL.fullmatch, match[1].split(", ")), key=numbers)
        said = next(reversed(answer.stderr.splitlines()), said)
    raise XBenchError(
        f"the package index lists no releases of {recipe.package}: {visible(said)[:200]}; name them with --versions"
    )


def between(releases: Sequence[str], first: str, last: str | None) -> list[str]:
    """The releases from `first` to `last`, by default to the newest. Either may be the beginning of a version: `1.20`
    is then the first release of 1.20, or as the end the last.

    Raises:
        XBenchError: one is not final, there is no such release, or the one is not after the other.
    """
    if (wrong := next((each for each in releases if not FINAL.fullmatch(each)), None)) is not None:
        raise XBenchError(f"{wrong!r} is no final release, such as 1.20.1")
    begin = _places(releases, first)[0]
    end = _places(releases, last)[-1] if last is not None else len(releases) - 1
    if begin >= end:
        raise XBenchError(f"{visible(first)} is not before {releases[end]}: there is nothing between them")
    return [*releases[begin : end + 1]]


def _places(releases: Sequence[str], version: str) -> list[int]:
    """Where the releases are that a version, or its beginning, means."""
    same = [place for place, each in enumerate(releases) if each == version]
    if found := same or [place for place, each in enumerate(releases) if each.startswith(f"{version}.")]:
        return found
    raise XBenchError(f"there is no release {visible(version)}: {nearest(version, releases)}")
