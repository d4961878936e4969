"""The command line that measures a cell again, and the version of xbench, as stored in records."""

from xbench.case import TUNE_BUDGET, Case
from xbench.converters.printable import shell

VERSION = "0.1.0"


def command(case: Case, how: str = "") -> str:
    """The command line that measures this cell again; `how` holds further options, added as they are."""
    options = f"--runtime {shell(case.runtime)} --mode {case.mode} --batch {case.batch} --threads {case.threads}"
    rest = "".join(
        f" --{name} {value}"
        for name, value, usual in (
            ("device", case.device, "cpu"),
            ("layout", case.layout, "nchw"),
            ("precision", case.precision, "fp32"),
            ("tune", case.tune, "default"),
            ("tune-budget", f"{case.tune_budget:g}", f"{TUNE_BUDGET if case.tune == 'max' else 0:g}"),
            ("plane", case.plane, "resident"),
            ("data", case.data if case.own is None else "synthetic", "synthetic"),
            ("inputs", shell(case.own or ""), shell("")),
        )
        if value != usual
    )
    return f"xbench time {shell(case.model)} {options}{rest}{how} --rerun"
