"""The machine's limits: the affinity mask, and the limits of cgroups of any version and depth."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xbench.host import machine
from xbench.host.machine import _quota, cpus

GROUPS = Path("/sys/fs/cgroup/cpu")


def tree(root: Path, files: dict[str, str], membership: str) -> tuple[Path, Path]:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "membership").write_text(membership)
    return root, root / "membership"


@pytest.mark.parametrize(
    ("files", "membership", "limit"),
    [
        ({"cpu.max": "max 100000\n"}, "0::/\n", None),
        ({"a/b/cpu.max": "150000 100000\n"}, "0::/a/b\n", 1.5),
        ({"a/cpu.max": "100000 100000\n", "a/b/cpu.max": "max 100000\n"}, "0::/a/b\n", 1.0),  # of its parent
        ({"cpu.max": "50000 100000\n"}, "0::/docker/unseen\n", 0.5),  # a container that sees its host's path
        ({"a/cpu.max": "100000 100000\n"}, "0::/other\n", None),  # another group's
        ({"cpu/a/cpu.cfs_quota_us": "200000\n", "cpu/a/cpu.cfs_period_us": "100000\n"}, "4:cpu:/a\n0::/\n", 2.0),
        ({"cpu/a/cpu.cfs_quota_us": "-1\n", "cpu/a/cpu.cfs_period_us": "100000\n"}, "4:cpu:/a\n", None),
        (
            {"cpu,cpuacct/a/cpu.cfs_quota_us": "100000\n", "cpu,cpuacct/a/cpu.cfs_period_us": "50000\n"},
            "4:cpu,cpuacct:/a\n1:memory:/b\n",
            2.0,
        ),
        ({"cpuset/a/cpu.cfs_quota_us": "1\n"}, "3:cpuset:/a\n", None),
        ({}, "", None),
    ],
)
def test_the_limit_of_the_cgroups_that_it_is_in(tmp_path, files, membership, limit):
    assert _quota(*tree(tmp_path, files, membership)) == limit


def in_a_process(prefix: str = "") -> int:
    code = f"{prefix}\nfrom xbench.host.machine import cpus\nprint(cpus())"
    answer = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    return int(answer.stdout)


def test_a_process_bound_to_one_cpu_has_one():
    assert in_a_process("import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])") == 1


def test_a_process_in_a_group_of_one_cpu_has_one():
    group = GROUPS / f"xbench-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "cpu.cfs_quota_us").write_text("100000")
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        assert in_a_process(f"open('{group}/tasks', 'w').write('0')") == 1
        assert cpus() == in_a_process()
    finally:
        group.rmdir()


@pytest.mark.parametrize(
    ("kind", "flags", "size"),
    [
        ("x86_64", "sse2 avx avx2 avx512f", 16),
        ("x86_64", "sse2 avx avx2 avx512_vnni", 8),
        ("x86_64", "sse2", None),
        ("aarch64", "", 16),
    ],
)
def test_channels_are_in_blocks_as_wide_as_a_vector(monkeypatch, kind, flags, size):
    monkeypatch.setattr(machine.platform, "machine", lambda: kind)
    monkeypatch.setattr(machine, "_read", lambda path: f"model name: any\nflags\t\t: fpu {flags} ht\n")
    assert machine.channel_block() == size
