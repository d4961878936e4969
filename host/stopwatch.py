"""How long some work of this thread took, less the time it waited for a CPU that another process used."""

from xbench.host import machine
from xbench.host.clock import now, used
from xbench.host.process_tree import kept_waiting


class Stopwatch:
    """Runs from its creation. On a shared machine, a copy of some bytes may wait for a CPU for longer than a step
    takes; a thread that computes meanwhile does not wait."""

    def __init__(self) -> None:
        self._waited, self._used = kept_waiting(), used()
        self._begin = now()

    def seconds(self) -> float:
        """By the wall clock."""
        return now() - self._begin

    def worked(self) -> float:
        """The time less the thread's waits for a CPU; at least the process's CPU time spread over all its CPUs, as this
        thread may have waited for others of its own process."""
        wall = self.seconds()
        computed, waited = used() - self._used, kept_waiting() - self._waited
        return min(wall, max(wall - waited, computed / len(machine.allowed()), 0.0))
