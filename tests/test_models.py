"""The zoo: every network has the published size and work, starts near chance, and starts the same on every machine."""

import importlib
import math
import subprocess
import sys
import zlib

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from xbench.models import DEFAULT_SUITE, MODELS, Input, ModelSpec, UnknownModel, build, draw, find, resolve, sample

# name: parameters, published forward work in millions of multiply-accumulates of one sample, and where both come from
PUBLISHED = {
    "lenet": (431_080, 2.3),  # study 5, Bahrampour et al. 2015, arXiv:1511.06435, table of section 5.2
    "fcn5_mnist": (14_205_962, 14.2),  # study 1, Shi et al. 2016, arXiv:1608.07249, order 2048-4096-1024
    "alexnet_cifar": (85_098, 10.7),  # study 1, pooling rounded down; the study prints its weights alone as "85000"
    "resnet56_cifar": (853_018, 125.5),  # study 1, the TensorFlow version; He et al. 2015 print 0.85 M
    "lstm_ptb": (6_182_672, 115.5),  # study 1, two biases a gate; 6,180,624 with one
    "cifar_vgg": (3_441_592, 62.3),  # study 4, the Rosetta Stone, github.com/ilkarman/DeepLearningFrameworks
    "imdb_gru": (3_818_302, 10.1),  # study 4, two biases a gate; 3,818,002 with one
    "resnet50": (25_557_032, 4_089),  # studies 1 to 4, v1.5
    "mobilenet_v2": (3_504_872, 300.8),  # torchvision prints 3,504,872 and 0.30 GMAC; the paper 3.4 M and 300 M
    "vit_s16": (22_050_664, 4_600),  # Touvron et al. 2020, arXiv:2012.12877, table 1: 22 M and 4.6 G
    "gpt2": (124_439_808, None),  # Radford et al. 2019, as their weights count; no work is published at length 128
}
LENET_CRC = 2422114639
SAMPLE_CRC = 2567811049
MARGIN = 1.0  # nats that the first loss may be away from ln(classes)


@pytest.fixture(scope="module", params=MODELS)
def spec(request: pytest.FixtureRequest) -> ModelSpec:
    return MODELS[request.param]


@pytest.fixture(scope="module")
def network(spec: ModelSpec) -> nn.Module:
    return build(spec)


def on_meta(spec: ModelSpec) -> tuple[nn.Module, list[torch.Tensor]]:
    """The network and one sample without storage: shapes are computed, numbers are not."""
    module, factory = spec.factory.split(":")
    with torch.device("meta"):
        network = getattr(importlib.import_module(module), factory)()
        inputs = [torch.empty(resolve(each.shape, 1), dtype=getattr(torch, each.dtype)) for each in spec.inputs]
    return network, inputs


def crc(network: nn.Module) -> int:
    total = 0
    for _, tensor in sorted(network.state_dict().items()):
        total = zlib.crc32(tensor.numpy().tobytes(), total)
    return total


def test_table_names_each_network_once_and_lists_the_published_ones() -> None:
    assert {name: spec.name for name, spec in MODELS.items()} == {name: name for name in PUBLISHED}
    assert set(DEFAULT_SUITE) <= set(MODELS)


def test_parameters_are_the_published_number(spec: ModelSpec, network: nn.Module) -> None:
    counted = sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)
    assert counted == spec.parameters == PUBLISHED[spec.name][0]


def test_macs_are_what_pytorch_counts(spec: ModelSpec) -> None:
    network, inputs = on_meta(spec)
    with FlopCounterMode(display=False) as counter:
        network(*inputs)
    assert counter.get_total_flops() == 2 * spec.macs


@pytest.mark.parametrize("name", [name for name, (_, millions) in PUBLISHED.items() if millions])
def test_macs_round_to_the_published_figure(name: str) -> None:
    millions = PUBLISHED[name][1]
    unit = {4_089: 1, 4_600: 100}.get(millions, 0.1)
    assert abs(MODELS[name].macs / 1e6 - millions) <= unit / 2


def test_macs_of_gpt2_follow_from_its_widths() -> None:
    length, width, vocabulary = 128, 768, 50_257
    layer = length * 12 * width**2 + 2 * length**2 * width
    assert MODELS["gpt2"].macs == 12 * layer + length * width * vocabulary


def test_logits_have_one_class_axis_after_the_shape_of_the_labels(spec: ModelSpec) -> None:
    network, inputs = on_meta(spec)
    assert network(*inputs).shape == (*resolve(spec.labels, 1), spec.classes)


def test_training_starts_near_chance(spec: ModelSpec, network: nn.Module) -> None:
    inputs, labels = sample(spec, spec.batch)
    torch.manual_seed(0)
    with torch.no_grad():
        logits = network.train()(*map(torch.from_numpy, inputs.values()))
    loss = F.cross_entropy(logits.flatten(0, -2), torch.from_numpy(labels).flatten())
    assert abs(loss.item() - math.log(spec.classes)) < MARGIN


def test_evaluation_neither_fades_nor_blows_up(spec: ModelSpec, network: nn.Module) -> None:
    inputs, _ = sample(spec, spec.batch)
    with torch.no_grad():
        logits = network.eval()(*map(torch.from_numpy, inputs.values()))
    assert 0.01 < logits.std().item() < 30


def test_no_two_tensors_start_equal_and_none_is_constant(network: nn.Module) -> None:
    tensors = [tensor for tensor in network.state_dict().values() if tensor.is_floating_point()]
    assert all(tensor.min() < tensor.max() for tensor in tensors)
    assert len({tensor.numpy().tobytes() for tensor in tensors}) == len(tensors)


def test_networks_are_built_in_training_mode() -> None:
    assert build(find("lenet")).training


def test_weights_are_the_same_on_every_machine() -> None:
    assert crc(build(find("lenet"))) == LENET_CRC


def test_weights_depend_on_the_seed_and_on_nothing_else() -> None:
    torch.manual_seed(1)
    first = build(find("resnet56_cifar"), seed=3)
    torch.manual_seed(2)
    assert crc(first) == crc(build(find("resnet56_cifar"), seed=3))
    assert crc(first) != crc(build(find("resnet56_cifar"), seed=4))


def test_samples_are_the_same_on_every_machine() -> None:
    inputs, labels = sample(find("imdb_gru"), batch=4, seed=1)
    assert zlib.crc32(inputs["x"].tobytes() + labels.tobytes()) == SAMPLE_CRC
    assert not np.array_equal(inputs["x"], sample(find("imdb_gru"), batch=4, seed=2)[0]["x"])


def test_samples_have_the_shapes_types_and_ranges_of_the_table(spec: ModelSpec) -> None:
    inputs, labels = sample(spec, batch=2)
    assert labels.shape == resolve(spec.labels, 2)
    assert labels.dtype == np.int64
    assert labels.min() >= 0
    assert labels.max() < spec.classes
    for each in spec.inputs:
        array = inputs[each.name]
        assert array.shape == resolve(each.shape, 2)
        assert array.dtype == each.dtype
        assert array.min() >= each.low
        assert array.max() <= each.high


def test_integers_reach_both_ends_of_their_range_but_not_the_upper_bound() -> None:
    assert set(draw("x", (1000,), "int64", -1, 3, seed=0)) == {-1, 0, 1, 2}


def test_float_inputs_have_mean_zero_and_variance_one() -> None:
    values = draw("x", (100_000,), "float32", Input("x", ()).low, Input("x", ()).high, seed=0)
    assert abs(values.mean()) < 0.02
    assert abs(values.var() - 1) < 0.02


def test_unknown_model_names_the_nearest() -> None:
    with pytest.raises(UnknownModel) as caught:
        find("resnet5O")
    assert isinstance(caught.value, KeyError)
    assert str(caught.value) == "unknown model 'resnet5O': did you mean resnet50 or resnet56_cifar?"


def test_unknown_model_lists_all_when_none_is_near() -> None:
    with pytest.raises(UnknownModel, match=r"the models are lenet, fcn5_mnist, .*, gpt2$"):
        find("zzz")


def test_the_table_imports_no_framework() -> None:
    code = "import sys, xbench.models; sys.exit(int('torch' in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
