"""An ONNX file as a PyTorch module: dropout acts when it is told to, and only in training."""

import torch

from xbench.bench.convert import export_module
from xbench.bench.source import parse
from xbench.converters.artifact import Artifact
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
