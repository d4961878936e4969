"""The lines between a worker and its parent, one JSON object each way, read without trust.

A request has a number that nobody can guess, and its answer has the same. An adapter runs in the worker's process and
can write to every file that is open there; its output is then rejected as an answer, and only its cell is lost. That
is no defence against one that reads the number from the worker's memory: it could replace the worker's clock, too.
"""

import json
import secrets
import time
from typing import Any

from xbench.converters.printable import one_line
from xbench.workers import marks
from xbench.workers.answers import ANSWERS, OPERATORS, problem, too_deep

MOST = 2**27  # bytes of an answer
STATUSES = ("FAIL", "UNSUPPORTED", "OOM", "CRASH", "ERROR")
FOREIGN = "what its worker sent is no answer of ours: something else wrote to its pipe"


class WorkerFailure(Exception):
    """The failure of a job: a status of the store and one line."""

    def __init__(self, status: str, message: str, operators: dict[str, int] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.operators = status, message, operators


class Reply:
    """The request of a job, and its answer as it arrives: `marks` are the times of its marks, by this
    process's clock."""

    def __init__(self, job: str, arguments: dict[str, Any], before: bytes = b"") -> None:
        self.job, self.number, self._bytes = job, secrets.token_hex(8), bytearray(before)
        self.marks: list[float] = []
        self.request = json.dumps({"job": job, "number": self.number, "arguments": arguments}).encode() + b"\n"

    def add(self, data: bytes) -> bool:
        """Adds received data; returns whether the line is complete.

        Raises:
            WorkerFailure: it is too long.
        """
        self._bytes += data
        while self._bytes.startswith(marks.LINE):
            del self._bytes[: len(marks.LINE)]
            self.marks.append(time.monotonic())
        if len(self._bytes) > MOST:
            raise WorkerFailure("CRASH", f"the answer to {self.job} is longer than {MOST >> 20} MiB")
        return b"\n" in self._bytes

    def result(self) -> Any:
        """The result of the job.

        Raises:
            WorkerFailure: it failed, or the data is no answer to this request.
        """
        line, _, rest = self._bytes.partition(b"\n")
        answer = _parsed(bytes(line))
        if rest or answer.get("number") != self.number:
            raise WorkerFailure("CRASH", FOREIGN)
        if "error" in answer:
            raise _failure(answer)
        value = answer.get("result")
        wrong = problem(ANSWERS[self.job], value) if self.job in ANSWERS else None
        if wrong:
            raise WorkerFailure("CRASH", one_line(f"the answer to {self.job} is none: {wrong}"))
        return value


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        answer = None
    return answer if isinstance(answer, dict) and not too_deep(answer) else {}


def _failure(answer: dict[str, Any]) -> WorkerFailure:
    """The failure that an answer reports."""
    status, operators = answer.get("status"), answer.get("operators")
    kept = operators if problem(OPERATORS, operators) is None else None
    return WorkerFailure(status if status in STATUSES else "CRASH", one_line(answer["error"]), kept)


def encoded(number: str, answer: dict[str, Any]) -> bytes:
    """The line of an answer; if it is no JSON, a line that reports it."""
    try:
        line = json.dumps({"number": number, **answer})
    except (TypeError, ValueError, RecursionError) as error:
        line = json.dumps({"number": number, "status": "CRASH", "error": f"no answer: {one_line(error)}"})
    return line.encode() + b"\n"
