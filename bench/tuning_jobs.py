"""The race between settings of one runtime, inside a worker that is used for nothing else."""

from xbench.bench import timing
from xbench.bench.cell import Cell
from xbench.bench.jobs import GIVEN, expected_of, made_ready
from xbench.converters.artifact import Artifact
from xbench.runtimes import Options


def race(
    artifact: str,
    mode: str,
    device: str,
    threads: int,
    precision: str,
    references: list[str],
    sides: list[tuple[str, str]],
) -> list[float | None]:
    """The median step of each side, a runtime's word and a layout; null for one that cannot be opened."""
    model, arrays = Artifact.read(artifact), [expected_of(path, GIVEN) for path in references]
    opened: dict[int, Cell] = {}
    for number, (runtime, layout) in enumerate(sides):
        try:
            options = Options(mode, device, threads, layout=layout, precision=precision)
            opened[number], _ = made_ready(model, runtime, options, arrays)
        except Exception:  # such as a module that calls `view` on what is channels last in memory
            if number == len(sides) - 1 and not opened:
                raise
    medians = dict(zip(opened, timing.race([cell.steps for cell in opened.values()]), strict=True))
    return [medians.get(number) for number in range(len(sides))]


JOBS = (race,)
