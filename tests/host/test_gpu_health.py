"""Readings of a GPU's driver, and which are a disturbance. The driver is a fake: these tests need no GPU."""

import os
from types import SimpleNamespace

import pytest

from xbench.host import gpu, health, machine, usage


class Refused(Exception):
    pass


class Driver:
    """NVML with its `nvml*` functions, for one GPU; functions without an answer raise an error."""

    NVMLError = Refused
    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0

    def __init__(self, **answers):
        self.answers, self.requested = answers, None

    def __getattr__(self, name):
        def call(*_):
            if name not in self.answers:
                raise Refused
            return self.answers[name]

        return call

    def nvmlDeviceGetHandleByIndex(self, index):
        self.requested = index

    def nvmlDeviceGetHandleByUUID(self, name):
        self.requested = name


def on_it(*pids):
    return [SimpleNamespace(pid=pid) for pid in pids]


def used(**shares):
    return [SimpleNamespace(pid=int(pid[1:]), smUtil=share) for pid, share in shares.items()]


def test_without_a_driver_nothing_is_told(monkeypatch):
    monkeypatch.setattr(gpu, "_nvml", lambda: None)
    assert gpu.look() is None
    assert gpu.between(None, None) is None
    assert gpu.disturbance(None) is None


def test_all_that_the_driver_tells_is_read():
    answers = {"nvmlDeviceGetClockInfo": 1980, "nvmlDeviceGetTemperature": 61}
    answers |= {"nvmlDeviceGetTotalEnergyConsumption": 5_000_000, "nvmlDeviceGetCurrentClocksThrottleReasons": 0x44}
    answers["nvmlDeviceGetComputeRunningProcesses"] = on_it(os.getpid(), os.getppid(), 1)
    answers["nvmlDeviceGetProcessUtilization"] = used(**{"p1": 30, f"p{os.getpid()}": 60})
    answers["nvmlDeviceGetMemoryInfo"] = SimpleNamespace(used=3 << 30)
    assert gpu.look(Driver(**answers), ours=os.getppid()) == gpu.Reading(1.98e9, 61.0, "heat", 1, 0.3, 5000.0, 3 << 30)


def test_what_the_driver_refuses_is_null():
    assert gpu.look(Driver()) == gpu.Reading()


def test_processes_of_another_numbering_are_not_called_strangers():
    reading = gpu.look(Driver(nvmlDeviceGetComputeRunningProcesses=on_it(1, 2)))
    assert (reading.others, reading.busy) == (None, None)


def test_a_process_that_has_not_computed_lately_is_there_all_the_same():
    reading = gpu.look(Driver(nvmlDeviceGetComputeRunningProcesses=on_it(os.getpid(), 1)))
    assert (reading.others, reading.busy) == (1, 0.0)


@pytest.mark.parametrize(("visible", "asked"), [("", 0), ("2,0", 2), ("GPU-5e,GPU-6f", "GPU-5e"), ("MIG-1", "MIG-1")])
def test_the_gpu_is_the_first_that_is_visible(visible, asked, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    driver = Driver()
    gpu.look(driver)
    assert driver.requested == asked


def test_a_block_takes_the_energy_between_two_looks():
    before, after = gpu.Reading(joules=100.0), gpu.Reading(clock_hz=1e9, joules=112.5)
    assert gpu.between(before, after)["joules"] == 12.5
    assert gpu.between(gpu.Reading(), after)["joules"] is None


def test_energy_of_less_than_a_second_is_not_told():
    """A GPU's counter is updated ten times a second: in shorter blocks it has energy used before."""

    def block(seconds):
        change = gpu.between(gpu.Reading(joules=1.0, at=5.0), gpu.Reading(joules=15.0, at=5.0 + seconds))
        return {"steps": 7, "joules": change["joules"], "peak_bytes": 1, "of_steps": True, "gpu": change}

    assert usage.total([block(2.0), block(1.5)])["energy_j"] == 2.0
    assert usage.total([block(2.0), block(0.03)])["energy_j"] is None


def test_the_gpu_is_named():
    answers = {"nvmlDeviceGetName": "NVIDIA H100", "nvmlSystemGetDriverVersion": b"580.1"}
    facts = gpu.facts(Driver(**answers, nvmlDeviceGetMemoryInfo=SimpleNamespace(total=80 << 30)))
    assert facts == {"name": "NVIDIA H100", "driver": "580.1", "memory_bytes": 80 << 30}
    assert gpu.facts(Driver()) == dict.fromkeys(facts)


def test_without_nvml_the_gpu_is_named_by_the_files_of_its_driver(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu, "_nvml", lambda: None)
    assert gpu.facts(driver=tmp_path) == dict.fromkeys(("name", "driver", "memory_bytes"))
    (tmp_path / "gpus" / "0000:00:06.0").mkdir(parents=True)
    (tmp_path / "gpus" / "0000:00:06.0" / "information").write_text("Model: \t\t NVIDIA H100\nIRQ:   45\n")
    (tmp_path / "version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Mon Jan 1\n")
    facts = gpu.facts(driver=tmp_path)
    assert facts == {"name": "NVIDIA H100", "driver": "580.159.04", "memory_bytes": None}


def test_a_number_of_another_gpu_is_another_measurement(monkeypatch):
    names = []
    for name in ("NVIDIA H100", "NVIDIA H200", None):
        monkeypatch.setattr(gpu, "facts", lambda name=name: {"name": name})
        names.append(machine.label(machine.facts("cuda")))
        assert machine.processor("cuda").startswith(f"{name or 'unknown GPU'}, ")
    assert len({*names, machine.label(machine.describe())}) == 4
    assert "gpu" not in machine.facts("cpu")


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"busy": 0.3, "others": 1}, "other processes used 30% of its GPU"),
        ({"busy": 0.01, "others": 3}, None),
        ({"throttled": "heat"}, "its GPU was throttled by heat"),
        ({}, None),
    ],
)
def test_what_is_called_a_disturbance(told, says):
    quiet = {"wall_s": 1.0, **dict.fromkeys(("steal", "others", "waited", "throttled"))}
    change = gpu.between(gpu.Reading(), gpu.Reading(**told))
    assert health.disturbance(quiet | {"gpu": change}) == says


def test_a_gpu_that_was_throttled_when_the_block_began_is_told():
    assert gpu.between(gpu.Reading(throttled="heat"), gpu.Reading())["throttled"] == "heat"
