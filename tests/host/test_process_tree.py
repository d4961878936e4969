"""The tree of a worker's processes, while they start and end."""

import os
import subprocess
import threading

from xbench.host import health, process_tree


def test_processes_that_end_meanwhile_are_no_error():
    ended = threading.Event()

    def run_processes():
        while not ended.is_set():
            subprocess.run(["true"], check=True)

    runners = [threading.Thread(target=run_processes) for _ in range(3)]
    for each in runners:
        each.start()
    try:
        for _ in range(500):
            assert os.getpid() in process_tree.members()
            assert process_tree.threads() and process_tree.scheduled()
            assert health._waited(health.ROOT) is not None
    finally:
        ended.set()
        for each in runners:
            each.join()


def test_a_process_that_has_ended_has_no_entries():
    process = subprocess.Popen(["true"])
    process.wait()
    assert process_tree.entries(process.pid, "task") == []
    assert process_tree.members(process.pid) == [process.pid]
    assert process_tree.entries(os.getpid(), "task")
