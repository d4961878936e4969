"""Builds the environments of `runtimes/_environments.py`: an old Python that is on this machine, pinned requirements.

An environment is built in its final place, and counts only when its `ready.json` is written, which happens last. So an
interrupted build is no environment; the next one starts again. Nothing downloads a Python.
"""

import contextlib
import difflib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from xbench.converters import temporary
from xbench.errors import XBenchError
from xbench.runtimes._environments import READY, RECIPES, Environment, Library, Recipe, find, root
from xbench.workers.building import installation, versions

Say = Callable[[str], None]


def recipe(name: str) -> Recipe:
    """The recipe of a name.

    Raises:
        XBenchError: there is none.
    """
    if name in RECIPES:
        return RECIPES[name]
    if "==" in name:
        return versions.pinned(*name.split("==", 1))
    if name in versions.with_versions():
        made = ", ".join(path.name for path in root().glob(f"{name}==*"))
        raise XBenchError(f"which version of {name}? Write {name}==1.2.3{f'; there is {made}' if made else ''}")
    near = difflib.get_close_matches(name, RECIPES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(RECIPES)}"
    raise XBenchError(f"no recipe for an environment {name!r}: {hint}")


def ensure(name: str) -> None:
    """Makes the environment of a version if there is none, and says so on stderr: it may take minutes.

    Raises:
        XBenchError: as `create`.
    """
    recipe(name)
    if find(name):
        return
    sys.stderr.write(f"xbench: making the environment {name} in {root()}; `xbench env remove {name}` deletes it\n")
    create(name, None, lambda words: None, lambda words: None, patient=True)


def steps(name: str) -> int:
    """How many steps `create` reports."""
    spec = recipe(name)
    return 3 + len(spec.installs) + (spec.library is not None)


def create(name: str, python: str | None, say: Say, done: Say, patient: bool = False) -> Environment:
    """Makes an environment, or returns the existing one. `say` gets progress, `done` each finished step. One that is
    `patient` waits for another process that is making it.

    Raises:
        XBenchError: there is no such recipe or interpreter, or a step failed; one line.
    """
    spec, folder = recipe(name), root() / name
    with _locked(name, patient), contextlib.ExitStack() as stack:
        if made := find(name):
            return made
        path = interpreter(spec, python)
        for program in spec.programs:
            if not shutil.which(program):
                raise XBenchError(f"{spec.framework} needs {program}, which is not on the PATH")
        _cleared(folder)
        if "==" in name:
            stack.callback(_cleared_unless_ready, folder)
        installation.run(
            [path, "-m", "venv", str(folder)], f"{spec.framework}: cannot make an environment with {path}", say
        )
        done(f"made with {path}")
        own = str(folder / "bin" / "python")
        for arguments in spec.installs:
            words = " ".join(word for word in arguments if "==" in word)
            installation.install(own, arguments, f"{spec.framework}: cannot install {words}", say)
            done(f"installed {words}")
        variables = _library(spec.library, folder, say) if spec.library else {}
        if spec.library:
            done(f"found {', '.join(spec.library.names.values())}")
        installation.check(own, spec, say, variables)
        done(f"checked: {spec.check}")
        record = {"versions": installation.versions(own), "variables": variables, "python": path}
        _settle(folder / READY, record)
    made = find(name)
    assert made is not None
    done("ready")
    return made


def _cleared_unless_ready(folder: Path) -> None:
    if not (folder / READY).exists():
        _cleared(folder)


def remove(name: str) -> Path:
    """Deletes an environment, or an unfinished one.

    Raises:
        XBenchError: there is none.
    """
    recipe(name)
    folder = root() / name
    if not folder.exists():
        raise XBenchError(f"there is no environment {name} in {root()}")
    with _locked(name):
        _cleared(folder)
    (root() / f".{name}.lock").unlink(missing_ok=True)
    return folder


def listed() -> list[dict[str, Any]]:
    """Every recipe, with the place, state and versions of its environment."""
    rows = []
    pins = sorted(path.name for path in root().glob("*==*") if path.is_dir()) if root().is_dir() else []
    for name, spec in {**RECIPES, **{pin: recipe(pin) for pin in pins if _is_recipe(pin)}}.items():
        made, folder = find(name), root() / name
        state = "ready" if made else "half-built" if folder.exists() else "missing"
        versions = dict(made.versions) if made else {}
        row = {"name": name, "framework": spec.framework, "state": state, "versions": versions}
        row |= {"folder": str(folder), "pythons": list(spec.pythons), "remark": spec.remark}
        rows.append(row | {"bytes": _size(folder) if folder.exists() else 0})
    return rows


def _is_recipe(name: str) -> bool:
    try:
        return bool(recipe(name))
    except XBenchError:
        return False


def _size(folder: Path) -> int:
    """The bytes on disk of a folder."""
    files = (Path(place, name) for place, _, names in os.walk(folder) for name in names)
    return sum(path.lstat().st_blocks * 512 for path in files)


def interpreter(asked: Recipe, given: str | None = None) -> str:
    """A Python that a recipe works with: the given one, or one of its versions on the PATH or of pyenv.

    Raises:
        XBenchError: there is none, or the given one is of another version.
    """
    if given:
        path = shutil.which(given)
        if not path:
            raise XBenchError(f"there is no Python at {given}")
        if (version := _version(path)) not in asked.pythons:
            raise XBenchError(
                f"{asked.framework} needs Python {_or(asked.pythons)}; {given} is {version or 'no Python'}"
            )
        return path
    for version in asked.pythons:
        for place in _places(version):
            if _version(place) == version:  # pyenv's shims exist for versions that are not switched on
                return place
    raise XBenchError(
        f"{asked.framework} needs Python {_or(asked.pythons)}, and none is on the PATH or in pyenv: "
        "install one, or name it with --python PATH"
    )


def _places(version: str) -> Iterator[str]:
    """Possible paths of a Python version."""
    homes = [os.environ.get("PYENV_ROOT"), Path.home() / ".pyenv"]
    for home in dict.fromkeys(str(home) for home in homes if home):
        yield from sorted(map(str, Path(home, "versions").glob(f"{version}.*/bin/python")), reverse=True)
    if path := shutil.which(f"python{version}"):
        yield path


def _version(python: str) -> str | None:
    command = [python, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    return None


def _or(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + (" or " if words[1:] else "") + words[-1]


def _library(wanted: Library, folder: Path, say: Say) -> dict[str, str]:
    """Links to shared libraries under their old names, and the variables by which they are found. If the system does
    not have them, Debian's packages are unpacked next to them, which needs no rights.

    Raises:
        XBenchError: they are nowhere.
    """
    links, unpacked = folder / "libraries", folder / "system"
    links.mkdir()
    known = _system_libraries()
    if not all(now in known for now in wanted.names.values()):
        known = known | _unpacked(wanted, unpacked, say)
    missing = [now for now in wanted.names.values() if now not in known]
    if missing:
        raise XBenchError(f"{', '.join(missing)} is not on this machine: apt-get install {wanted.package}")
    for old, now in wanted.names.items():
        (links / old).symlink_to(known[now])
    places = dict.fromkeys(
        str(Path(known[now]).parent) for now in wanted.names.values() if unpacked in Path(known[now]).parents
    )
    own = {"OPAL_PREFIX": str(unpacked / "usr")} if places else {}
    return {"LD_LIBRARY_PATH": ":".join([str(links), *places]), **own}


def _system_libraries() -> dict[str, str]:
    """The paths of the loader's shared libraries, by name."""
    loader = shutil.which("ldconfig") or "/sbin/ldconfig"
    with contextlib.suppress(OSError):
        listing = subprocess.run([loader, "-p"], capture_output=True, text=True, check=False).stdout
        return {name: path for name, path in re.findall(r"^\s*(\S+) \(.*\) => (\S+)$", listing, re.MULTILINE)}
    return {}


def _unpacked(wanted: Library, folder: Path, say: Say) -> dict[str, str]:
    """Unpacks a system package and its missing dependencies into a folder; returns its libraries by name.
    Nothing if this is no Debian, or its index does not have the package."""
    if not all(map(shutil.which, ("apt-get", "dpkg-deb"))):
        return {}
    simulate = ["apt-get", "install", "--simulate", "--no-install-recommends", wanted.package]
    answer = subprocess.run(simulate, capture_output=True, text=True, check=False)
    packages = re.findall(r"^Inst (\S+)", answer.stdout, re.MULTILINE)
    with temporary.folder() as place:
        for package in packages:
            say(f"fetching {package}")
            subprocess.run(["apt-get", "download", package], cwd=place, capture_output=True, check=False)
        for file in sorted(place.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", str(file), str(folder)], capture_output=True, check=False)
    return {path.name: str(path) for path in folder.glob("usr/lib/*/lib*.so.*")}


def _cleared(folder: Path) -> None:
    """Deletes a folder, its `ready.json` first: a remainder does not count as ready."""
    try:
        (folder / READY).unlink(missing_ok=True)
        if folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        raise XBenchError(f"{folder} cannot be removed: {error.strerror}") from error


def _settle(path: Path, record: dict[str, Any]) -> None:
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(record, indent=1))
    os.replace(temporary, path)


@contextlib.contextmanager
def _locked(name: str, patient: bool = False) -> Iterator[None]:
    """While it is open, no other process makes or removes the environment. One that is `patient` waits for another.

    Raises:
        XBenchError: the folder cannot be written, or another process uses it.
    """
    try:
        root().mkdir(parents=True, exist_ok=True)
        file = (root() / f".{name}.lock").open("w")
    except OSError as error:
        raise XBenchError(f"{root()} cannot be written: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if patient else fcntl.LOCK_NB))
        except OSError as error:
            raise XBenchError(f"another process is at work on the environment {name}") from error
        yield
