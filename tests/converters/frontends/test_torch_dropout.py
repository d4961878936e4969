"""Compiled PyTorch follows a dropout switch, and layers are not compiled again for it."""

import json
import subprocess
import sys

import pytest

BODY = """
import json
import sys
if sys.argv[1] == "before":
    import torch._dynamo
import torch
from torch import nn

from xbench.converters.ops import torch_dropout
from torch._dynamo.utils import counters

layers = {"layer": nn.Dropout(0.5), "in place": nn.Dropout(0.5, inplace=True), "channels": nn.Dropout2d(0.5)}
layers |= {"alpha": nn.AlphaDropout(0.5)}
functions = {name: layer.train() for name, layer in layers.items()}
functions["function"] = lambda x: nn.functional.dropout(x, 0.5)
functions["attention"] = lambda x: nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
x, found = torch.rand(4, 64, 8, 8), {}
for name, function in functions.items():
    torch.compiler.reset()
    counters.clear()
    torch_dropout.switch(False)
    whole = function(x + 0)
    compiled = torch.compile(lambda x: function(x + 0), dynamic=False, backend="aot_eager")
    dropped = []
    for active in (False, True, False, True):
        torch_dropout.switch(active)
        dropped.append(not torch.allclose(compiled(x), whole, atol=1e-5))
    found[name] = dropped, counters["stats"]["unique_graphs"]
layer, function = layers["layer"], torch.compile(layers["layer"], dynamic=False, backend="aot_eager")
some = function(torch.ones(100_000))
found["share"], found["mean"] = float((some == 0).double().mean()), float(some.mean())
print(json.dumps(found))
"""


@pytest.fixture(scope="module", params=["before", "after"])
def found(request):
    """Dynamo is imported before PyTorch is patched, or after."""
    answer = subprocess.run([sys.executable, "-c", BODY, request.param], capture_output=True, text=True, timeout=300)
    assert answer.returncode == 0, answer.stderr[-2000:]
    return json.loads(answer.stdout.splitlines()[-1])


@pytest.mark.parametrize("form", ["layer", "in place", "channels", "alpha", "function", "attention"])
def test_compiled_dropout_is_switched(found, form):
    assert found[form][0] == [False, True, False, True]


def test_a_layer_is_compiled_once(found):
    assert found["layer"][1] == 1


def test_a_compiled_layer_drops_its_share_and_scales_up_the_rest(found):
    assert found["share"] == pytest.approx(0.5, abs=0.01)
    assert found["mean"] == pytest.approx(1, abs=0.02)
