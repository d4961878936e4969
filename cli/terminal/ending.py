"""How a command ends early: Ctrl-C, SIGTERM and the end of its terminal are treated alike.

Each raises KeyboardInterrupt, so that workers are ended and temporary folders removed on the way out; the exit code
says which signal it was, as in a shell (128 plus the number of the signal).
"""

import signal
from types import FrameType

WORDS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "ended by SIGTERM",
    signal.SIGHUP: "ended with its terminal",
}
INTERRUPTED = 128 + signal.SIGINT


class Ending:
    """Handlers of the signals that end a command, until it is `over`. Signals that the parent made it ignore, as nohup
    does, stay ignored."""

    def __init__(self) -> None:
        self.received: list[signal.Signals] = []
        self._caught = [number for number in WORDS if signal.getsignal(number) != signal.SIG_IGN]
        for number in self._caught:
            signal.signal(number, self._end)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self.received.append(signal.Signals(number))
        raise KeyboardInterrupt

    @property
    def word(self) -> str:
        return WORDS[self.received[0]] if self.received else WORDS[signal.SIGINT]

    @property
    def code(self) -> int:
        return 128 + self.received[0] if self.received else INTERRUPTED

    def over(self) -> None:
        """Restore the signals' default actions: nothing is left to do, and Python's handlers write a traceback."""
        for number in self._caught:
            signal.signal(number, signal.SIG_DFL)
