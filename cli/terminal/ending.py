"""How a command ends before its time: Ctrl-C, SIGTERM and the end of its terminal are all one to it.

Each raises KeyboardInterrupt where the command is, so that workers are ended and temporary folders removed on the way
out; the exit code says which it was, as a shell would (128 and the number of the signal).
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
    """The signals that end a command, from now until it is `over`. What whoever started it has had it ignore, as nohup
    does, it goes on to ignore."""

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
        """From here on nothing is left to be done: Python's own ways of ending write a traceback."""
        for number in self._caught:
            signal.signal(number, signal.SIG_DFL)
