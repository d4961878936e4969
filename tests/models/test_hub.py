"""Networks of libraries by their names, and weights from files."""

import json
import pickle
import re

import pytest
import torch
import transformers
from fault_kit import refused
from safetensors.torch import save_file
from transformer_nets import SIZES, TEXT, USUAL

from xbench import models
from xbench.converters.source import parse
from xbench.errors import XBenchError

BERT = {"model_type": "bert", "architectures": ["BertForSequenceClassification"], **USUAL}
SEEING = {**SIZES, "image_size": 16, "patch_size": 8}
SIDES = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2}
SIDES |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
WORDS, IMAGE = ("batch", "sequence"), ("batch", 3, 16, 16)


@pytest.fixture
def folder(tmp_path):
    """Makes a Hugging Face folder of a configuration."""

    def make(config):
        place = tmp_path / "net@1"
        place.mkdir(exist_ok=True)
        (place / "config.json").write_text(json.dumps(config))
        return place

    return make


class Code:
    """What is called when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_configuration_is_enough(folder):
    word = f"hf:{folder(BERT)}"
    assert parse(word).kind == "module"
    one, two = models.make(word), models.make(word)
    assert type(one).__name__ == "BertForSequenceClassification"
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


def test_a_mixture_of_experts_is_computed_in_float64(folder):
    """Without which there is no oracle."""
    config = {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], **USUAL, "num_key_value_heads": 1}
    network = models.make(f"hf:{folder({**config, 'num_local_experts': 3})}").double()
    assert network(input_ids=torch.arange(6)[None]).logits.isfinite().all()


def test_what_is_no_network_of_the_library_is_not_called(folder):
    for name in ("pipeline", "logging", "BertTokenizer", "nothing", 3):
        made = models.make(f"hf:{folder({**BERT, 'architectures': [name]})}")
        assert type(made).__name__ == "BertModel"


def test_weights_of_a_folder_are_read(folder):
    torch.manual_seed(7)
    saved = transformers.BertForSequenceClassification(transformers.BertConfig(**USUAL))
    place = folder(BERT)
    saved.save_pretrained(place)
    found = models.make(f"hf:{place}").state_dict()
    assert all(torch.equal(found[name], value) for name, value in saved.state_dict().items())


@pytest.mark.parametrize(
    ("config", "inputs"),
    [
        (BERT, {"input_ids": WORDS, "attention_mask": WORDS, "token_type_ids": WORDS}),
        ({**BERT, "type_vocab_size": 1}, {"input_ids": WORDS, "attention_mask": WORDS}),
        ({"model_type": "llama", **USUAL}, {"input_ids": WORDS, "attention_mask": WORDS}),
        ({"model_type": "vit", **SEEING}, {"pixel_values": IMAGE}),
        (
            {"model_type": "t5", **TEXT, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2},
            {"input_ids": WORDS, "attention_mask": WORDS, "decoder_input_ids": WORDS},
        ),
        (
            {"model_type": "clip", "text_config": USUAL, "vision_config": SEEING},
            {"input_ids": WORDS, "attention_mask": WORDS, "pixel_values": IMAGE},
        ),
        (
            {"model_type": "whisper", **SIDES, "num_mel_bins": 8, "max_source_positions": 10},
            {"input_features": ("batch", 8, 20), "decoder_input_ids": WORDS},
        ),
        (
            {"model_type": "speech_to_text", **SIDES, "input_feat_per_channel": 8, "max_target_positions": 64},
            {"input_features": ("batch", 100, 8), "decoder_input_ids": WORDS},
        ),
        (
            {"model_type": "encodec", "num_filters": 2, "hidden_size": 8, "codebook_dim": 8, "audio_channels": 1},
            {"input_values": ("batch", 1, 16_000)},
        ),
        (
            {"model_type": "patchtst", "context_length": 12, "num_input_channels": 2, "patch_length": 4},
            {"past_values": ("batch", 12, 2)},
        ),
    ],
    ids=lambda value: value.get("model_type") if isinstance(value, dict) else None,
)
def test_the_inputs_of_a_kind_are_known(config, inputs, folder):
    found = models.usual_inputs(models.make(f"hf:{folder(config)}"))
    assert {each.name: each.shape for each in found} == inputs
    floats = ("pixel_values", "input_features", "input_values", "past_values")
    assert all((each.dtype == "float32") == (each.name in floats) for each in found)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**BERT, "model_type": "bret"}, "has no model type 'bret': did you mean"),
        ({**BERT, "model_type": "mine", "auto_map": {"AutoModel": "mine.Net"}}, "its own code (auto_map) is not run"),
        ({**BERT, "attn_implementation": "somebody/kernels"}, "asks for code that is not in transformers"),
        ({"vocab_size": 3}, "names no model_type"),
        ([1, 2], "names no model_type"),
        ({**BERT, "hidden_size": "many"}, "raises"),
        ({**BERT, "hidden_size": 17}, "raises ValueError: The hidden size (17) is not a multiple"),
    ],
)
def test_a_configuration_that_makes_no_network_is_refused(config, message, folder):
    with pytest.raises(XBenchError, match=re.escape(message)):
        models.make(f"hf:{folder(config)}")


def test_a_folder_that_is_none_is_refused(folder, tmp_path):
    with pytest.raises(XBenchError, match="no such folder; nothing is downloaded"):
        parse("hf:google-bert/bert-base-uncased")
    place = folder(BERT)
    (place / "config.json").write_text("{")
    with pytest.raises(XBenchError, match="is no JSON"):
        models.make(f"hf:{place}")
    (place / "config.json").unlink()
    with pytest.raises(XBenchError, match=re.escape("holds no config.json")):
        models.make(f"hf:{place}")


def test_a_pickle_of_weights_is_not_opened(folder, tmp_path):
    place, canary = folder(BERT), tmp_path / "canary"
    (place / "pytorch_model.bin").write_bytes(pickle.dumps(Code(canary)))
    with pytest.raises(XBenchError, match=re.escape("has its weights as a pickle (pytorch_model.bin)")):
        models.make(f"hf:{place}")
    assert not canary.exists()


def test_a_library_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "timm", None)  # as if it were not installed
    with pytest.raises(XBenchError, match="timm:resnet18 needs timm: pip install timm"):
        models.make("timm:resnet18")


NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x).relu())
"""


@pytest.fixture
def net(tmp_path):
    """The word of a network with tied weights, and weights for it."""
    (tmp_path / "net.py").write_text(NET)
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(4, 4, generator=generator)
    weights = {"a.weight": weight, "b.weight": weight.clone(), "a.bias": weight[0].clone(), "b.bias": weight[1].clone()}
    return f"{tmp_path}/net.py:Net", weights


@pytest.mark.parametrize("form", ["plain", "state_dict", "parallel", "compiled", "safetensors", "once"])
def test_weights_are_read_from_a_file(form, net, tmp_path):
    word, weights = net
    prefix = {"parallel": "module.", "compiled": "_orig_mod."}.get(form, "")
    kept = {prefix + name: value for name, value in weights.items() if form != "once" or name != "b.weight"}
    path = tmp_path / ("w.safetensors" if form in ("safetensors", "once") else "w.pt")
    if path.suffix == ".pt":
        torch.save({"epoch": 3, "state_dict": kept} if form == "state_dict" else kept, path)
    else:
        save_file(kept, path)
    network = models.make(word, str(path))
    assert network.a.weight is network.b.weight
    assert all(torch.equal(value, weights[name]) for name, value in network.state_dict().items())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: {n: v for n, v in w.items() if n != "a.bias"}, "lacks 1 of 4 tensors (a.bias) of the network"),
        (lambda w: {**w, "c.bias": w["a.bias"]}, "holds 1 of 5 tensors (c.bias) that the network has not"),
        (lambda w: {**w, "a.bias": torch.zeros(5)}, "a.bias has the shape [5], in the network [4]"),
        (lambda w: {**w, "a.bias": 3}, "'a.bias' is no tensor"),
        (lambda w: [1, 2], "holds no state_dict"),
        (lambda w: {}, "holds no state_dict"),
    ],
)
def test_weights_of_another_network_are_refused(change, message, net, tmp_path):
    word, weights = net
    torch.save(change(weights), tmp_path / "w.pt")
    with pytest.raises(XBenchError, match=re.escape(message)):
        models.make(word, str(tmp_path / "w.pt"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("w.pt", b"no archive", "cannot read"),
        ("w.safetensors", b"\x08\0\0\0\0\0\0\0{}", "cannot read"),
        ("w.txt", b"", "weights are read from .safetensors"),
    ],
)
def test_a_file_that_holds_no_weights_is_refused(name, content, message, net, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(XBenchError, match=re.escape(message)) as raised:
        models.make(net[0], str(tmp_path / name))
    assert "\n" not in str(raised.value)


def test_a_pickle_that_runs_code_is_not_run(net, tmp_path):
    canary = tmp_path / "canary"
    torch.save({"a.weight": Code(canary)}, tmp_path / "w.pt")
    canary.unlink(missing_ok=True)
    with pytest.raises(XBenchError, match="it holds more than tensors, which may run code"):
        models.make(net[0], str(tmp_path / "w.pt"))
    assert not canary.exists()


def test_the_network_of_a_folder_is_the_same_everywhere(folder, shell):
    place = folder(BERT)
    options = ("--runtime", "torch", "--runtime", "onnxruntime", "--mode", "step", "--json")
    rows = json.loads(shell.run("check", f"hf:{place}", *options).stdout)
    assert [row["status"] for row in rows] == ["PASS", "PASS"]


def test_weights_are_an_option_of_every_command(shell, net, tmp_path):
    word, weights = net
    torch.save(weights, shell.folder / "w.pt")
    options = ("--input", "x:float32:batch,4", "--weights", "w.pt", "--runtime", "onnxruntime")
    (row,) = json.loads(shell.run("check", word, *options, "--mode", "forward", "--json").stdout)
    assert (row["status"], row["model"]) == ("PASS", f"{word}@x:float32:batch,4;weights=w.pt")
    digests = [each["sha256"] for each in row["certificate"]["parameters"]]
    (other,) = json.loads(shell.run("check", word, *options[:2], *options[4:], "--mode", "forward", "--json").stdout)
    assert digests != [each["sha256"] for each in other["certificate"]["parameters"]]
    for command in ("check", "time", "convert", "load", "phases", "profile", "scale", "bisect", "inspect"):
        more = ("torch", "jax") if command == "bisect" else ()
        assert "--weights is for modules" in refused(shell, command, "lenet", *more, "--weights", "w.pt")


def test_the_length_of_a_text_is_given(folder, tmp_path):
    from xbench.converters.build import export_module

    for option, length in (
        ("", 16),
        ("@sequence=9", 9),
        ("@input_ids=batch,5;attention_mask=batch,5;token_type_ids=batch,5", 5),
    ):
        made = tmp_path / str(length)
        made.mkdir()
        export_module(parse(f"hf:{folder(BERT)}{option}"), made)
        inputs = json.loads((made / "model.json").read_text())["inputs"]
        assert [each["shape"] for each in inputs] == [["batch", length]] * 3
    with pytest.raises(XBenchError, match="unknown axis 'sequenc': did you mean sequence"):
        export_module(parse(f"hf:{folder(BERT)}@sequenc=9"), tmp_path)


def test_what_weights_cannot_be_used_for_is_one_line(shell, net):
    word = f"{net[0]}@weights=none.pt;x:float32:batch,4"
    assert "--weights none.pt: no such file" in refused(shell, "check", word)
