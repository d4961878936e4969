"""A runtime that reads a mask, positions or token types wrongly is caught: on our own networks and on transformers."""

import attention_nets
import onnx
import pytest
import wrong_uses

from xbench import models

TRANSFORMERS = (
    "Gpt2",
    "Bert",
    "Electra",
    "Albert",
    "Roberta",
    "DistilBert",
    "Mpnet",
    "Opt",
    "Llama",
    "Bloom",
    "T5",
    "Bart",
)


def check(word, folder, inputs, masks, tables, length):
    """The right graph passes, every wrong one fails, and the record says how each input was drawn."""
    judge = wrong_uses.judge(word, folder)
    assert judge.verdict(onnx.load(judge.artifact.onnx)) == "PASS"
    wrong = [*wrong_uses.wrong_graphs(judge.artifact, inputs, masks, tables, length)]
    assert len(wrong) > len(masks)
    for what, model in wrong:
        assert judge.verdict(model) == "FAIL", what
    for entry in judge.artifact.info["inputs"]:
        assert entry["why"] or entry["dtype"] == "float32", entry
        if entry["name"] in masks:
            assert models.Input(**entry).mask == (1 if masks[entry["name"]] else -1), entry


@pytest.mark.parametrize("net", attention_nets.NETS, ids=lambda net: net.__name__)
def test_a_wrong_use_of_an_input_fails(tmp_path, net):
    check(attention_nets.WORD[net.__name__], tmp_path, *attention_nets.NETS[net], attention_nets.LENGTH)


@pytest.mark.parametrize(
    "name",
    ("Gpt2", "Bert", "Electra", "Albert", "Roberta", "DistilBert", "Mpnet", "Opt", "Llama", "Bloom", "T5", "Bart"),
)
def test_a_wrong_use_of_an_input_of_a_transformer_fails(tmp_path, name):
    pytest.importorskip("transformers")
    import transformer_nets as nets

    assert tuple(net.__name__ for net in nets.NETS) == TRANSFORMERS
    (given,) = (each for net, each in nets.NETS.items() if net.__name__ == name)
    check(nets.WORD[name], tmp_path, *given, nets.LENGTH)
