"""Marks: what a worker sends in the midst of a job, for its parent to note by its own clock when it came. Two of them
around some steps bound what these took, whatever became of the worker's clock."""

import os

LINE = b'{"mark": 1}\n'
OUT: list[int] = []  # where a worker answers; nothing in a process that is none
os.register_at_fork(after_in_child=OUT.clear)  # what a runtime forks goes on with the job, and ends it later


def mark() -> None:
    for file in OUT:
        os.write(file, LINE)
