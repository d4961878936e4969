"""Runtimes with a planted truth, for told_apart.py: real ones slowed down by a known share, and a clock that drifts.

`install` registers them as plug-ins (by the entry-point group), in their own folder.
"""

import dataclasses
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from xbench.runtimes import Row, Runtime, load


class Slowed:
    """`slowed:of=torch,share=0.05`: another runtime, with each forward pass longer by a share of itself. `name`
    distinguishes equal ones."""

    def __init__(self, artifact: Any, options: Any) -> None:
        extra = dict(options.extra)
        self.share, self.name = float(extra.pop("share", "0")), extra.pop("name", "")
        self.inner: Runtime = load(extra.pop("of"), artifact, dataclasses.replace(options, extra={}))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def forward(self, *inputs: Any) -> Any:
        start = time.perf_counter()
        result = self.inner.forward(*inputs)
        self.inner.wait(result)
        end = time.perf_counter() + self.share * (time.perf_counter() - start)
        while time.perf_counter() < end:
            pass
        return result


class Drifting(Slowed):
    """`drifting:seconds=0.002,share=0.2,begin=T,length=S`: takes the given time, which grows by the share within S
    seconds, starting at time T of the system clock. ONNX Runtime computes meanwhile."""

    def __init__(self, artifact: Any, options: Any) -> None:
        extra = {"of": "onnxruntime", "share": options.extra["share"]}
        super().__init__(artifact, dataclasses.replace(options, extra=extra))
        self.seconds, self.begin, self.length = (float(options.extra[name]) for name in ("seconds", "begin", "length"))

    def forward(self, *inputs: Any) -> Any:
        start, grown = time.perf_counter(), min(max((time.time() - self.begin) / self.length, 0.0), 1.0)
        result = self.inner.forward(*inputs)
        end = start + self.seconds * (1 + self.share * grown)
        while time.perf_counter() < end:
            pass
        return result


slowed = Row("xbench_plants:Slowed", ("onnx",), "torch")
drifting = Row("xbench_plants:Drifting", ("onnx",), "torch", hidden=True)


def install(folder: Path) -> None:
    """Write the distribution `xbench-plants` as pip would, where this process and its workers find it."""
    shutil.copy(__file__, folder / "xbench_plants.py")
    facts = folder / "xbench_plants-0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: xbench-plants\nVersion: 0\n")
    rows = "slowed = xbench_plants:slowed\ndrifting = xbench_plants:drifting\n"
    (facts / "entry_points.txt").write_text(f"[xbench.runtimes]\n{rows}")
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
