"""What a reader crosses from a command to the first step that is timed: the modules, in the order of the calls.

    python tools/measure/walk.py [--runtime torch]

Runs `xbench time lenet` and prints the call stack when the command requests the first timed block from its worker, and,
in the worker, when the runtime makes the first step of it. Exit code 1 if a module occurs twice, or calls upwards in
the order of ARCHITECTURE.md ("Who may import whom").
"""

import argparse
import os
import sys
import tempfile
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
ORDER = (
    *("cli", "api", "reports", "recommend", "experiments", "proof", "workers", "parity", "runtimes", "store"),
    *("converters", "host", "metrics", "stats", "models", "data", "studies"),
)
FILE = "XBENCH_WALK"  # the environment variable that names the file for the worker's calls
WORKER = """
import os, sys
sys.path.insert(0, os.environ["XBENCH_WALK_FOLDER"])
import walk
walk.watch_worker(os.environ["XBENCH_WALK"])
"""


def calls(frame: FrameType | None) -> list[str]:
    """The modules of xbench on the stack, from the outermost."""
    files = []
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(ROOT) and path.parts[len(ROOT.parts)] in ORDER and frame.f_code.co_name != "<module>":
            files.append(path.relative_to(ROOT).as_posix())
        frame = frame.f_back
    return [file for file, _ in groupby(reversed(files))]


def watch(file: Path, is_it: Any) -> None:
    """Write the stack of the first call for which `is_it` is true to a file."""

    def seen(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and is_it(frame):
            sys.setprofile(None)
            file.write_text("\n".join(calls(frame)))

    sys.setprofile(seen)


def watch_worker(file: str) -> None:
    def is_it(frame: FrameType) -> bool:
        name = frame.f_code.co_filename
        return frame.f_code.co_name == "forward" and "/runtimes/" in name and "workers/jobs/block.py" in calls(frame)

    watch(Path(file), is_it)


def asks_for_a_block(frame: FrameType) -> bool:
    code = frame.f_code
    return (
        code.co_name == "call" and code.co_filename.endswith("workers/worker.py") and frame.f_locals["job"] == "block"
    )


def problems(walk: list[str]) -> list[str]:
    """Modules that occur twice, and those that call upwards."""
    twice = sorted({f"{file} is crossed twice" for file in walk if walk.count(file) > 1})
    places = [ORDER.index(file.partition("/")[0]) for file in walk]
    pairs = zip(walk, walk[1:], places, places[1:], strict=False)
    return twice + [f"{a} calls {b}, which is above it" for a, b, here, there in pairs if there < here]


def walked(runtime: str, folder: Path) -> list[list[str]]:
    """The modules of the command and those of its worker."""
    (folder / "sitecustomize.py").write_text(WORKER)
    files = [folder / "command", folder / "worker"]
    os.environ |= {"PYTHONPATH": str(folder), FILE: str(files[1]), f"{FILE}_FOLDER": str(Path(__file__).parent)}
    from xbench.cli import main as command

    sys.argv = ["xbench", "time", "lenet", "--runtime", runtime, "--mode", "forward", "--batch", "1"]
    sys.argv += ["--budget", "0.1", "--out", str(folder / "store")]
    watch(files[0], asks_for_a_block)
    try:
        command()
    except SystemExit as end:
        if end.code:
            raise
    return [file.read_text().splitlines() for file in files]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runtime", default="torch")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        walks = walked(options.runtime, Path(folder))
    for title, walk in zip(("the command", "its worker"), walks, strict=True):
        print(f"{title}: {len(walk)} modules")
        print(*(f"  {file}" for file in walk), sep="\n")
    wrong = [problem for walk in walks for problem in problems(walk)]
    print(*(wrong or [f"{sum(map(len, walks))} modules, each once, never upwards"]), sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
