"""Which interpreter runs a runtime: set by its word, by a file of settings, or by an environment that xbench made.

    # xbench.toml in the working folder, else ~/.config/xbench/config.toml
    [runtimes.torch]
    python = "old/bin/python"    # from the file's folder

The first file that exists is used, entirely.
"""

import os
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

from xbench.converters.printable import one_line

LOCAL = "xbench.toml"
VERSION = re.compile(r"[0-9][0-9A-Za-z.!+-]{0,50}", re.ASCII)  # of a runtime, in its word


class Misconfigured(Exception):
    """An invalid file of settings; one line that names the file."""


def file() -> Path | None:
    """The file of settings in use."""
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "xbench" / "config.toml"
    return next((path for path in (Path(LOCAL), home) if path.is_file()), None)


def pythons() -> dict[str, str]:
    """The interpreters that the settings name, by runtime.

    Raises:
        Misconfigured: the file is no TOML, has unknown settings, or names an interpreter that does not exist.
    """
    path = file()
    if path is None:
        return {}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Misconfigured(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    if unknown := sorted(document.keys() - {"runtimes"}):
        raise Misconfigured(f"{path}: unknown table {unknown[0]!r}: there is [runtimes.NAME]")
    runtimes = document.get("runtimes", {})
    if not isinstance(runtimes, dict):
        raise Misconfigured(f"{path}: runtimes is no table: write [runtimes.NAME]")
    return {name: _python(path, name, settings) for name, settings in runtimes.items()}


def _python(path: Path, name: str, settings: Any) -> str:
    from xbench.runtimes import find_row

    if not isinstance(settings, dict) or not isinstance(settings.get("python"), str):
        raise Misconfigured(f'{path}: [runtimes.{name}] must say python = "PATH"')
    if unknown := sorted(settings.keys() - {"python"}):
        raise Misconfigured(f"{path}: [runtimes.{name}] has no setting {unknown[0]!r}: it has python")
    if not find_row(name):
        raise Misconfigured(f"{path}: [runtimes.{name}]: there is no such runtime")
    place = os.path.expanduser(settings["python"])
    executable = shutil.which(place if os.sep not in place else str(path.parent.absolute() / place))
    if executable is None:
        raise Misconfigured(f"{path}: [runtimes.{name}]: there is no Python at {settings['python']}")
    return executable


def pinned(word: str) -> str | None:
    """The version in a runtime's word; None if the installed one is meant."""
    _, equals, version = word.partition(":")[0].partition("==")
    return version if equals else None


def own_environment(word: str) -> str | None:
    """The name of the environment of the version in a word, which runtimes of one framework share; None without one."""
    from xbench.runtimes import find_row, parse

    version = pinned(word)
    if version is None:
        return None
    if not VERSION.fullmatch(version):  # it becomes the name of a folder
        raise Misconfigured(f"{one_line(word, 100)}: that is no version, such as {parse(word)[0]}==1.2.3")
    name = parse(word)[0]
    module = framework(name)
    return f"{module if find_row(module) else name}=={version}"  # OpenCV's module has another name than its runtime


def framework(name: str) -> str:
    """The module that a runtime imports first."""
    from xbench.runtimes import find_row

    row = find_row(name)
    return row.preload[0] if row and row.preload else name


def interpreter(word: str) -> str | None:
    """The interpreter that a runtime's word means, if it is not this one: that of the environment of its version,
    `python=` in the word, else the settings, else the environment that its row names; None if there is none.

    Raises:
        Misconfigured: see `pythons`; there is no environment of that version.
    """
    from xbench.runtimes import _environments, find_row, parse

    name, options = parse(word)
    if own := own_environment(word):
        if ready := _environments.find(own):
            return str(ready.python)
        raise Misconfigured(f"there is no environment {own}: xbench env create {own}")
    if python := options.get("python") or pythons().get(name):
        return shutil.which(python) or python
    row = find_row(name)
    environment = row.environment if row else None
    made = _environments.find(environment) if environment else None
    return str(made.python) if made else None


def worker(word: str) -> str:
    """The interpreter of a runtime's worker: for a framework with an environment of its own it is this one, which hands
    the work to that (`_remote.py`)."""
    from xbench.runtimes import find_row

    row = find_row(word)
    return (None if row and row.environment else interpreter(word)) or sys.executable
