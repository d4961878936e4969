"""A fault planted in an adapter fails only its cell: unranked, exit code 1, the first wrong tensor named."""

import json
import os
import subprocess
import sys

import planted
import pytest

NORMED = "planted_net:make@x:float32:batch,3,12,16"

# fault: model, mode, honest runtime next to it, first wrong tensor by its name in the ONNX graph
FAULTS = {
    "stride": ("alexnet_cifar", "forward", "onnxruntime", "conv2d_1"),
    "swapped": ("alexnet_cifar", "forward", "onnxruntime", "conv2d"),
    "no_relu": ("alexnet_cifar", "forward", "onnxruntime", "relu_2"),
    "softmax": ("alexnet_cifar", "forward", "onnxruntime", "linear"),
    "ort_stride": ("alexnet_cifar", "forward", "onnxruntime", "conv2d_2"),
    "no_gradient": ("alexnet_cifar", "gradient", "torch", "gradient/conv2.weight"),
    "no_norm": (NORMED, "forward", "onnxruntime", "getitem_5"),
    "momentum": (NORMED, "step", "torch", "weight/norm1.running_mean"),
}
GROUPS = sorted({place[:3] for place in FAULTS.values()})


@pytest.fixture(scope="module")
def timed(tmp_path_factory):
    """Exit code and rows by runtime of one `xbench time`, with all faults of a group and the honest runtime."""
    installed, made = planted.install(tmp_path_factory.mktemp("planted")), {}

    def time(group):
        if group not in made:
            model, mode, honest = group
            faults = [f"planted_{fault}" for fault, place in FAULTS.items() if place[:3] == group]
            command = [
                sys.executable,
                "-c",
                "from xbench.cli import main; main()",
                "time",
                model,
                "--mode",
                mode,
                "--batch",
                "2",
                "--json",
            ]
            command += ["--budget", "0.2", "--out", str(tmp_path_factory.mktemp("results"))]
            for runtime in (*faults, honest):
                command += ["--runtime", runtime]
            paths = os.pathsep.join([str(installed), *filter(None, [os.environ.get("PYTHONPATH")])])
            answer = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True)
            assert answer.stdout, answer.stderr
            made[group] = answer.returncode, {row["runtime"]: row for row in json.loads(answer.stdout)}
        return made[group]

    return time


def test_every_planted_fault_is_tried():
    assert set(FAULTS) == set(planted.ROWS) - set(planted.TRAINED)  # test_train.py has those


@pytest.mark.parametrize("group", GROUPS, ids="-".join)
def test_the_exit_code_is_one_and_the_honest_runtime_is_ranked(timed, group):
    code, rows = timed(group)
    assert code == 1
    honest = rows[group[2]]
    assert (honest["status"], honest["ratio"]) == ("PASS", 1.0), honest["message"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_unranked_and_its_first_wrong_tensor_is_named(timed, fault):
    *group, tensor = FAULTS[fault]
    row = timed(tuple(group))[1][f"planted_{fault}"]
    assert row["status"] == ("CRASH" if fault == "ort_stride" else "FAIL")
    assert (row["ratio"], row["median_s"]) == (None, None)
    assert row["message"].split("; first wrong tensor: ")[1] == tensor
