"""An ONNX file as a PyTorch module: dropout acts when requested, and only in training."""

import weakref

import torch

from xbench.converters.artifact import Artifact
from xbench.converters.build import export_module
from xbench.converters.codegen.free_variables import released
from xbench.converters.source import parse
from xbench.runtimes.torch import ProgramModule, set_dropout

NETWORK = """
from torch import nn

def make():
    return nn.Sequential(nn.Linear(6, 64), nn.Dropout(0.5))
"""


def test_dropout_is_switched(tmp_path, monkeypatch):
    (tmp_path / "dropping.py").write_text(NETWORK)
    monkeypatch.syspath_prepend(str(tmp_path))
    export_module(parse("dropping:make@x:float32:batch,6"), tmp_path)
    module, x = ProgramModule(Artifact.read(tmp_path).program()).train(), torch.ones(3, 6)
    torch.manual_seed(0)
    with torch.no_grad():
        dropped = (module(x)[0] == 0).float().mean()
        assert 0.3 < dropped < 0.7
        set_dropout(module, False)
        kept = module(x)[0]
        assert (kept != 0).all()
        set_dropout(module, True)
        assert (module(x)[0] == 0).any()
        assert torch.equal(module.eval()(x)[0], kept)


def test_a_program_lets_go_of_every_array_behind_its_last_use():
    """Kept to the end, all of them need fresh memory."""
    text = "def apply(params, state, x):\n    a = F(x)\n    def inner():\n        return b\n    b = F(a)\n"
    text += "    c = F(b)\n    _, d = G(c)\n    return (F(d),), {}\n"
    alive, seen = weakref.WeakSet(), []

    class Array:
        pass

    def made(given):
        seen.append(len(alive))
        array = Array()
        alive.add(array)
        return array

    names = {"F": made, "G": lambda given: (made(given), made(given))}
    exec(released(text), names)
    names["apply"]({}, {}, None)
    assert seen == [0, 1, 1, 2, 3, 2]  # b is read by a function and stays; nothing else does
