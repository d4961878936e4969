"""How a deployed network got a precision below float32: by which tool, and calibrated on which samples."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xbench.case import CALIBRATED, Case
from xbench.converters.printable import one_line
from xbench.errors import XBenchError
from xbench.parity.verdict import ALLOWED, LOWER, QUARTER, ROUNDINGS, SHARES, noise, size_of
from xbench.runtimes import row_of
from xbench.store.record import Record
from xbench.workers.samples import Calibration, OwnSamples


@dataclass(frozen=True)
class Lowered:
    """The `precision`, the `tool` of the runtime's makers with its `package` and `version`, and the samples that it was
    calibrated on, if it was. In fp32 nothing was done."""

    precision: str = "fp32"
    tool: str = ""
    package: str = ""
    version: str = ""
    calibration: Calibration | None = None

    def rows(self) -> list[tuple[str, str]]:
        """Rows of the README's table."""
        if self.precision == "fp32":
            return []
        made = [("precision", self.precision), ("made by", f"{self.tool}, {self.package} {self.version}")]
        return made + ([("calibrated on", self._samples(self.calibration))] if self.calibration else [])

    def comment(self) -> str:
        """A line of requirements.txt, which says what is not needed to run it."""
        if self.precision == "fp32":
            return ""
        on = f", calibrated on {self._samples(self.calibration)}" if self.calibration else ""
        return one_line(f"# {self.precision} by {self.tool} of {self.package}=={self.version}{on}", 1000) + "\n"

    def changed(self, record: Record) -> list[str]:
        """A note if another version of the tool made what was measured."""
        measured = (record.get("versions") or {}).get(self.package, self.version)
        words = f"{self.package} {measured} made what was measured, {self.version} made this folder"
        return [words] if measured != self.version else []

    def certify(self, path: Path) -> None:
        """Adds it to a certificate."""
        if self.precision == "fp32":
            return
        facts: dict[str, Any] = {"precision": self.precision, "tool": self.tool}
        facts |= {"package": self.package, "version": self.version, "calibration": None}
        if each := self.calibration:
            facts["calibration"] = {"inputs": each.word, "samples": each.samples, "content": each.content}
        path.write_text(json.dumps(json.loads(path.read_text()) | facts, indent=1))

    def _samples(self, calibration: Calibration) -> str:
        return f"{calibration.samples:,} samples of {calibration.word}, digest {calibration.content}"


def lowered(case: Case, own: OwnSamples | None, versions: Mapping[str, str]) -> Lowered:
    """How a cell gets its precision; `own` are samples with some for calibration, `versions` those of packages.

    Raises:
        XBenchError: it would be calibrated on random inputs.
    """
    if case.precision == "fp32":
        return Lowered()
    calibration = own.calibration if own else None
    if case.precision in CALIBRATED and calibration is None:
        words = f"{case.runtime} is not deployed in {case.precision}: its ranges would be those of random inputs"
        raise XBenchError(f"{words}; give samples of yours: --max-drop 1% --inputs SAMPLES --measure")
    row = row_of(case.runtime)
    names = row.lower[case.precision].tool or row.packages
    package = next((name for name in names if name in versions), names[0])
    return Lowered(case.precision, row.lower[case.precision].switch, package, versions.get(package, "?"), calibration)


def packages(case: Case) -> tuple[str, ...]:
    """The packages of the tool that gives a cell its precision, or of its runtime."""
    lower = row_of(case.runtime).lower.get(case.precision)
    return (lower.tool if lower else ()) or row_of(case.runtime).packages


def most_off(reference: Mapping[str, np.ndarray], name: str, precision: str) -> float:
    """The relative error (L2 norm) that an output may have in a precision, as in the proof."""
    size = size_of(reference[name])[0] or 1.0
    if share := SHARES.get(precision):
        return share
    allowed = ALLOWED[precision] * float(noise(reference, name)[0]) / size
    if LOWER + name not in reference:
        return allowed
    return max(allowed, min(ROUNDINGS * float(reference[LOWER + name][0]) / size, QUARTER))
