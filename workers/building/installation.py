"""The steps of a build: programs that are run line by line, packages by uv or pip, and the proof of an import."""

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xbench.errors import XBenchError
from xbench.runtimes._environments import Recipe

Say = Callable[[str], None]
INSTALLED = """
import json, platform
try:
    from importlib import metadata
    packages = {each.metadata["Name"].lower(): each.version for each in metadata.distributions()}
except ImportError:  # Python 3.7 and before
    import pkg_resources
    packages = {each.project_name.lower(): each.version for each in pkg_resources.working_set}
print(json.dumps([platform.python_version(), packages]))
"""
OFFERED = r"\(from versions: ([^()]+)\)"  # pip, of a version that does not exist
TAIL = 200  # characters of the last output of a failed command


class StepFailed(XBenchError):
    """A step of a build failed; `lines` is what it printed."""

    def __init__(self, message: str, lines: Sequence[str]) -> None:
        super().__init__(message)
        self.lines = lines


def run(command: Sequence[str], otherwise: str, say: Say, variables: Mapping[str, str] | None = None) -> None:
    """Runs a step, and reports each line.

    Raises:
        XBenchError: it failed; `otherwise`, and its last output.
    """
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    lines: list[str] = []
    piped: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    with subprocess.Popen(command, env={**kept, **(variables or {})}, **piped) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if words := "".join(c for c in line.strip() if c.isprintable()):
                    lines.append(words)
                    say(words[:100])
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        errors = [line for line in lines if re.match(r"(ERROR|\w*Error)\b", line)] or lines
        raise StepFailed(f"{otherwise}: {errors[-1][:TAIL] if errors else f'exit code {process.returncode}'}", lines)


def install(python: str, packages: Sequence[str], otherwise: str, say: Say) -> None:
    """Installs packages, by uv if it is there.

    Raises:
        XBenchError: they cannot be installed; if there is no such version, the message names its neighbours.
    """
    if (uv := shutil.which("uv")) and not any(each.startswith("-") for each in packages):
        with contextlib.suppress(XBenchError):  # it does not read pip's settings, such as other indexes
            return run([uv, "pip", "install", "--python", python, *packages], otherwise, say)
    try:
        run([python, "-m", "pip", "install", *packages], otherwise, say)
    except StepFailed as error:
        known = next((m[1].split(", ") for line in error.lines if (m := re.search(OFFERED, line))), [])
        if not known:
            raise
        raise XBenchError(
            f"there is no {packages[0]} for this Python and machine: {_neighbours(packages[0], known)}"
        ) from None


def _neighbours(package: str, known: Sequence[str]) -> str:
    return nearest(package.partition("==")[2], known)


def nearest(version: str, known: Sequence[str]) -> str:
    """The versions around one that does not exist, in words; `known` are in order."""
    below = [each for each in known if numbers(each) < numbers(version)][-1:]
    above = [each for each in known if numbers(each) > numbers(version)][:1]
    return f"the nearest is {' or '.join(below + above)}"


def numbers(version: str) -> tuple[int, ...]:
    """What versions are ordered by."""
    return tuple(map(int, re.findall(r"\d+", version)))


def check(python: str, spec: Recipe, say: Say, variables: Mapping[str, str]) -> None:
    """Proves the import, if need be after what the recipe has for that case.

    Raises:
        XBenchError: it fails.
    """
    command, otherwise = [python, "-I", "-c", spec.check], f"{spec.framework} cannot be imported"
    try:
        run(command, otherwise, say, variables)
    except XBenchError:
        if not spec.otherwise:
            raise
        install(python, spec.otherwise, otherwise, say)
        run(command, otherwise, say, variables)


def versions(python: str) -> dict[str, str]:
    """The versions of all packages, and of Python."""
    command = [python, "-I", "-W", "ignore", "-c", INSTALLED]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    own, packages = json.loads(answer.stdout)
    return {"python": own, **{n: v for n, v in sorted(packages.items()) if n not in ("pip", "setuptools", "wheel")}}
