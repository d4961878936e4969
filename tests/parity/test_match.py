"""The mistakes of five studies, repeated: each port is distinguished from the network of its name, with a reason."""

import os
from pathlib import Path

import fault_kit
import ports
import pytest

from xbench import models
from xbench.models._published import READINGS, reading
from xbench.workers.prepare import Exporter

HERE = Path(ports.__file__).parent
# factory of tests/support/ports.py, the network it should be, words of the reason
PORTS = [
    ("MiswiredAlexNet", "alexnet_s", "are dead, no output depends on them: conv4.weight, conv4.bias, conv5.weight"),
    ("ExecutedAlexNet", "alexnet_s", "11,135,720 parameters instead of 62,378,344: study 1's MXNet: conv5 and pool5"),
    ("SameAlexNet", "alexnet_s", "76,009,832 parameters instead of 62,378,344: padding SAME"),
    ("SwappedFCN5", "fcn5_mnist", "13,714,442 parameters instead of 14,205,962: the hidden layers 4096, 2048, 1024"),
    ("ReversedFCN5", "fcn5_mnist", "layers are in another order: (10, 1024) comes where fcn5_mnist has (2048, 784)"),
    ("CeilAlexNet", "alexnet_cifar", "89,578 parameters instead of 85,098: pooling that rounds up"),
    ("torch_resnet56", "resnet56_cifar", "855,050 parameters instead of 853,018: convolutions with a bias"),
    ("MXNetResNet56", "resnet56_cifar", "855,053 parameters instead of 853,018: convolutions with a bias and a norm"),
    ("CaffeResNet56", "resnet56_cifar", "863,242 parameters instead of 853,018: biases, also of projections"),
    ("ProjectedResNet56", "resnet56_cifar", "853,210 parameters instead of 853,018: projections instead of padded"),
    ("NoReluBehindSums", "resnet56_cifar", "Relu is missing behind every residual sum"),
    ("relu_on_logits", "alexnet_cifar", "a ReLU is behind the last layer: no logit is negative"),
    ("softmax_at_the_end", "lenet", "the network ends in a Softmax, which belongs to the loss"),
    ("log_softmax_at_the_end", "lenet", "the network ends in a LogSoftmax, which belongs to the loss"),
    ("Transposed", "lenet", "height and width of the images are exchanged"),
    ("Reversed", "alexnet_cifar", "the channels of the images are in reverse order"),
]


@pytest.fixture(scope="module")
def exporter(tmp_path_factory):
    """One whose worker finds the ports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
        own = Exporter(tmp_path_factory.mktemp("exporter"))
        yield own
        own.close()


def word(factory, name):
    inputs = (f"{i.name}:{i.dtype}:{','.join(map(str, i.shape))}" for i in models.find(name).inputs)
    return f"ports:{factory}@{';'.join(inputs)}"


@pytest.mark.parametrize(("factory", "name", "says"), PORTS, ids=[each[0] for each in PORTS])
def test_a_port_that_is_another_network_is_rejected_with_the_reason(exporter, factory, name, says):
    result = exporter.matched(word(factory, name), exporter.artifact(name), 2)
    assert not result["same"]
    assert any(says in line for line in result["differences"]), result["differences"]


@pytest.mark.parametrize(("factory", "same"), [("BranchesTurned", True), ("BranchesSwapped", False)])
def test_which_branch_is_written_first_does_not_matter(exporter, factory, same):
    options = "x:float32:batch,3,8,8"
    reference = exporter.artifact(f"ports:Branches@{options}")
    result = exporter.matched(f"ports:{factory}@{options}", reference, 2)
    assert result["same"] == same, result


def test_a_faithful_port_is_the_network(shell):
    done = shell.run("match", "ports:Faithful", "lenet", PYTHONPATH=shell.python_path(HERE))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "ports:Faithful is lenet: 431,080 parameters, 2,293,000 multiply-accumulates, outputs"
    )


def test_a_network_of_the_zoo_is_told_from_its_relative(shell):
    done = shell.run("match", "alexnet_cifar", "lenet")
    assert done.returncode == 1
    assert "alexnet_cifar is not lenet:" in done.stdout
    assert "85,098 parameters instead of 431,080" in done.stdout


@pytest.mark.parametrize("word", ["lenett", "no/such.onnx", "ports:Nothing"])
def test_bad_words_are_one_line(shell, word):
    words = ("ports:Faithful", word) if word == "lenett" else (word, "lenet")
    done = shell.run("match", *words, PYTHONPATH=shell.python_path(HERE))
    assert done.returncode == 2
    assert fault_kit.only_line(done.stderr)


def test_v1_is_told_from_v1_5_by_its_work():
    v1, v15 = models.find("resnet50_v1"), models.find("resnet50")
    assert v1.parameters == v15.parameters
    assert "this is resnet50_v1" in str(reading("resnet50", v1.macs, v15.parameters))
    assert "this is resnet50" in str(reading("resnet50_v1", v15.macs, v1.parameters))


@pytest.mark.parametrize("width", [2, 4, 8])
def test_bytes_are_no_parameters(width):
    count = models.find("fcn5_mnist").parameters
    assert reading("fcn5_mnist", width * count, count) == f"bytes, {width} a parameter, not parameters"


def test_every_reading_is_of_a_network_and_of_another_count():
    for name, known in READINGS.items():
        spec = models.find(name)
        assert not {spec.parameters, spec.macs} & set(known), name
        for count, words in known.items():
            other = words.rpartition("this is ")[2] if "this is " in words else None
            if other:
                assert count in (models.find(other).parameters, models.find(other).macs), (name, count)
