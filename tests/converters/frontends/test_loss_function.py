"""Losses of the user's own: a function of what `forward` returns and of further inputs, by `--loss module:function`."""

import json

import pytest
import torch
from fault_kit import refused

from xbench.converters.frontends.torch_call import BadCall, flat

NETS = """
import torch
import torch.nn.functional as F

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.last = torch.nn.Linear(8, 6), torch.nn.Linear(6, 3)

    def forward(self, x):
        return {"logits": self.last(torch.relu(self.wide(x)))}

class Coder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.spread, self.back = (torch.nn.Linear(*sizes) for sizes in ((8, 2), (8, 2), (2, 8)))

    def forward(self, x):
        mean, spread = self.mean(x), self.spread(x)
        return self.back(mean), mean, spread

def focal(outputs, label, gamma=2.0):
    entropy = F.cross_entropy(outputs["logits"], label, reduction="none")
    return ((1 - torch.exp(-entropy)) ** gamma * entropy).mean()

def entropy_of_hard_samples(outputs, label):
    entropy = F.cross_entropy(outputs["logits"], label, reduction="none")
    return torch.where(entropy > 1, entropy, 0.5 * entropy).mean()

def likelihood(outputs, label, weight):
    each = F.nll_loss(outputs["logits"].log_softmax(1), label, reduction="none")
    return (each * weight).sum() / weight.sum()

def dice(outputs, target):
    p = torch.sigmoid(outputs["logits"])
    return 1 - (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)

def evidence(outputs, x):
    back, mean, spread = outputs
    return F.mse_loss(back, x) - 0.5 * (1 + spread - mean**2 - spread.exp()).mean()

def of_each_sample(outputs):
    return outputs["logits"].mean(1)

def of_a_number(outputs):
    return 3

def of_a_mask(outputs, mask):
    return outputs["logits"].mean()

CONSTANT = 7
"""
X = ("--input", "x:float32:batch,8")
LABEL, TARGET = ("--input", "label:int64:batch"), ("--input", "target:float32:batch,3", "--range", "target=0:1")
WEIGHTED = (*LABEL, "--input", "weight:float32:batch", "--range", "weight=0.5:2")
RUNTIMES = ("--runtime", "torch", "--runtime", "onnxruntime", "--runtime", "jax")


@pytest.fixture
def nets(shell):
    (shell.folder / "nets.py").write_text(NETS)
    return shell


@pytest.mark.parametrize(
    ("net", "loss", "inputs"),
    [
        ("Net", "focal", LABEL),
        ("Net", "entropy_of_hard_samples", LABEL),
        ("Net", "likelihood", WEIGHTED),
        ("Net", "dice", TARGET),
        ("Coder", "evidence", ()),
    ],
)
def test_a_module_trains_by_a_loss_of_its_users(nets, net, loss, inputs):
    words = (f"nets.py:{net}", *X, *inputs, "--loss", f"nets.py:{loss}")
    answer = nets.run("check", *words, *RUNTIMES, "--mode", "gradient", "--mode", "step", "--json")
    rows = json.loads(answer.stdout)
    assert [(row["runtime"], row["status"]) for row in rows] == [(each, "PASS") for each in RUNTIMES[1::2]] * 2, rows


@pytest.mark.parametrize(
    ("loss", "line"),
    [
        ("of_each_sample", "nets.py:Net has a loss of shape [2]: it must be one number, such as the mean"),
        ("of_a_number", "nets.py:Net has a loss that is a int: it must be one number"),
        ("of_a_mask", "nets.py:Net: the loss of_a_mask also needs mask: give it as an input, such as mask:..."),
        ("nothing", "AttributeError"),
        ("CONSTANT", "nets.py:CONSTANT is a int, not a function"),
    ],
)
def test_a_loss_that_gives_no_number_is_one_line(nets, loss, line):
    assert line in refused(nets, "check", "nets.py:Net", *X, "--loss", f"nets.py:{loss}", "--runtime", "torch")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("lenet", "--loss", "a:b"), "--loss is for modules"),
        (("lenet@loss=a:b",), "--loss is for modules"),
        (("nets.py:Net", *X, "--loss", "dice"), "write module:function or path/to/file.py:function"),
    ],
)
def test_a_loss_that_is_none_is_one_line(nets, words, line):
    answer = nets.inside("check", *words, "--runtime", "torch")
    assert answer.returncode == 2 and line in answer.stderr and answer.stderr.count("\n") == 1


def test_a_loss_sees_the_result_after_hooks_and_its_input_goes_to_nobody_else():
    network = torch.nn.Linear(2, 2)
    network.register_forward_hook(lambda module, given, result: 10 * result)
    seen = []

    def loss(result, target):
        seen.append((result, target))
        return (result - target).mean()

    x, target = torch.ones(3, 2), torch.zeros(3, 2)
    outputs = flat(network, ["x", "target"], loss)(x, target)
    assert outputs[1].shape == (3, 2) and torch.equal(outputs[0], outputs[1].mean())
    assert seen[0][0] is outputs[1] and seen[0][1] is target
    with pytest.raises(BadCall, match="forward of Linear has no argument 'target'"):
        flat(torch.nn.Linear(2, 2), ["input", "target"])
