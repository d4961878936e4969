"""How long a piece of work of this thread took, less what it waited for a CPU that another process had."""

from xbench.host import machine
from xbench.host.clock import now, used
from xbench.host.process_tree import kept_waiting


class Stopwatch:
    """Runs from when it is made. On a machine that others use, a copy of some bytes may have to wait for a CPU for
    longer than a step takes; who computes meanwhile does not wait."""

    def __init__(self) -> None:
        self._waited, self._used = kept_waiting(), used()
        self._begin = now()

    def seconds(self) -> float:
        """By the wall clock."""
        return now() - self._begin

    def worked(self) -> float:
        """Less what the thread waited for a CPU; at least what the process has computed, spread over all its CPUs: its
        own threads may have been what this one waited for."""
        wall = self.seconds()
        computed, waited = used() - self._used, kept_waiting() - self._waited
        return min(wall, max(wall - waited, computed / len(machine.allowed()), 0.0))
