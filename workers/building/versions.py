"""The environment of another version of a runtime: its name, and its recipe."""

import contextlib
import sys
from importlib import metadata

from xbench.converters.printable import visible
from xbench.errors import XBenchError
from xbench.runtimes import RUNTIMES, _configuration, is_ours, parse
from xbench.runtimes._environments import Recipe
from xbench.workers import own_code

PYTHONS = ("3.11", "3.12", "3.13", "3.14")  # that run a worker


def environment_of(word: str) -> str:
    """The name of the environment of the version in a runtime's word.

    Raises:
        XBenchError: it cannot have one.
    """
    if not is_ours(word):
        raise XBenchError(f"{word}: a plug-in has the version that is installed")
    if "python" in parse(word)[1]:
        raise XBenchError(f"{word}: a version has an environment of its own; write it, or python=")
    try:
        name = str(_configuration.own_environment(word))
    except _configuration.Misconfigured as error:
        raise XBenchError(str(error)) from error
    pinned(*name.split("==", 1))
    return name


def pinned(name: str, version: str) -> Recipe:
    """The recipe of another version of a runtime, with what a worker needs besides it."""
    row = RUNTIMES.get(name)
    if row is None or row.environment or row.hidden:
        raise XBenchError(f"{visible(name)} has no versions to choose from: there are {', '.join(with_versions())}")
    if not _configuration.VERSION.fullmatch(version):
        raise XBenchError(f"{name}=={visible(version)}: that is no version, such as {name}==1.2.3")
    package = next((each for each in row.packages if _is_installed(each)), row.packages[0])
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    needs = (*own_code.NEEDS, *(each.partition(".")[0] for each in row.ours if each not in own_code.NEEDS))
    return Recipe(
        f"{name} {version}",
        tuple(dict.fromkeys((own, *PYTHONS))),
        ((f"{package}=={version}", *needs),),
        package,
        f"import {_configuration.framework(name)}, {', '.join(own_code.NEEDS)}",
        otherwise=("numpy<2",),  # which packages made for NumPy 1 do not always ask for
    )


def _is_installed(package: str) -> bool:
    with contextlib.suppress(metadata.PackageNotFoundError):
        return bool(metadata.version(package))
    return False


def with_versions() -> list[str]:
    return [name for name, row in RUNTIMES.items() if not (row.environment or row.hidden)]
