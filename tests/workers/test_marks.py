"""Marks are made by the worker itself, not by processes that its runtime forks."""

import subprocess
import sys

CODE = """
import os, sys
from xbench.workers import marks

reading, writing = os.pipe()
marks.OUT.append(writing)
if not (child := os.fork()):
    marks.mark()
    os._exit(0)
os.waitpid(child, 0)
marks.mark()
sys.exit(os.read(reading, 1000) != marks.LINE)
"""


def test_a_forked_process_makes_no_mark():
    assert subprocess.run([sys.executable, "-P", "-c", CODE], check=False).returncode == 0
