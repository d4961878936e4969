"""The zoo: every network has the published size and work, starts near chance, and starts the same on every machine."""

import importlib
import math
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from xbench.models import DEFAULT_SUITE, MODELS, Input, ModelSpec, UnknownModel, build, draw, find, resolve, sample

# name: parameters, published forward work in millions of multiply-accumulates of one sample, and where both come from.
# If a study does not give the work, it follows from its layers: the sums are in this file's tests.
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
    "fcn_s": (117_997_696, None),  # study 1
    "fcn8_s": (130_586_752, None),  # study 1, six hidden layers
    "alexnet_s": (62_378_344, 1_135),  # study 1: no groups
    "alexnet_bvlc": (60_965_224, 724),  # studies 2 and 5; bvlc_alexnet's own count
    "alexnet_owt": (61_100_840, 714),  # torchvision.models.alexnet prints 61,100,840 and 0.71 GMAC
    "overfeat_fast": (145_920_872, None),  # study 3, as soumith/convnet-benchmarks defines it
    "vgg11": (132_863_336, 7_609),  # torchvision.models.vgg11: 132,863,336 and 7.61 GMAC
    "vgg16": (138_357_544, 15_470),  # torchvision.models.vgg16: 138,357,544 and 15.47 GMAC
    "vgg19": (143_667_240, 19_632),  # torchvision.models.vgg19: 143,667,240 and 19.63 GMAC
    "googlenet": (6_998_552, 1_583),  # studies 2 and 3, without norms and auxiliary heads; the paper says 1.5 G
    "googlenet_aux": (13_378_280, None),  # study 2, bvlc_googlenet
    "resnet18": (11_689_512, 1_814),  # torchvision.models.resnet18: 11,689,512 and 1.81 GMAC
    "resnet34": (21_797_672, 3_664),  # torchvision.models.resnet34: 21,797,672 and 3.66 GMAC
    "resnet50_v1": (25_557_032, 3_858),  # study 1's Caffe; He et al. 2015 print 3.8 G
    "resnet50_features": (23_508_032, 4_087),  # study 4
    "resnet101": (44_549_160, 7_801),  # torchvision.models.resnet101: 44,549,160 and 7.80 GMAC
    "resnet152": (60_192_808, 11_514),  # torchvision.models.resnet152: 60,192,808 and 11.51 GMAC
    "densenet121": (7_978_856, 2_834),  # torchvision.models.densenet121: 7,978,856 and 2.83 GMAC
    "densenet121_cxr": (6_968_206, 2_833),  # study 4
    "sae_small_1": (314_784, None),  # study 5, tied weights; 628,384 without
    "sae_small_2": (80_600, None),  # 160,600 without
    "sae_small_3": (20_300, None),  # 40,300 without
    "sae_small": (415_310, None),
    "sae_large_1": (628_784, None),  # 1,255,984 without
    "sae_large_2": (801_800, None),  # 1,601,800 without
    "sae_large_3": (2_003_000, None),  # 4,003,000 without
    "sae_large": (3_451_010, None),
    "imdb_lstm": (1_412_354, 13.1),  # study 5, two biases a gate; 1,411,842 with one
}
# Operators between the layers with weights, with their counts per sample: parameters and MACs do not show them.
NONLINEAR = {
    "lenet": "2 max, 1 relu, 2 tanh",
    "fcn5_mnist": "3 sigmoid",
    "alexnet_cifar": "2 max, 1 mean, 3 relu",
    "resnet56_cifar": "1 mean, 55 relu",
    "lstm_ptb": "192 sigmoid, 128 tanh",
    "cifar_vgg": "3 dropout, 2 max, 5 relu",
    "imdb_gru": "300 sigmoid, 150 tanh",
    "resnet50": "1 max, 1 mean, 49 relu",
    "mobilenet_v2": "1 dropout, 1 mean, 35 relu6",
    "vit_s16": "12 gelu, 12 softmax",
    "gpt2": "12 gelu, 12 softmax",
    "fcn_s": "3 sigmoid",
    "fcn8_s": "6 sigmoid",
    "alexnet_s": "3 max, 7 relu",
    "alexnet_bvlc": "2 dropout, 3 max, 7 relu, 2 response",
    "alexnet_owt": "3 max, 7 relu",
    "overfeat_fast": "3 max, 7 relu",
    "vgg11": "5 max, 10 relu",
    "vgg16": "5 max, 15 relu",
    "vgg19": "5 max, 18 relu",
    "googlenet": "13 max, 1 mean, 57 relu",
    "googlenet_aux": "3 dropout, 13 max, 3 mean, 61 relu",
    "resnet18": "1 max, 1 mean, 17 relu",
    "resnet34": "1 max, 1 mean, 33 relu",
    "resnet50_v1": "1 max, 1 mean, 49 relu",
    "resnet50_features": "1 max, 1 mean, 49 relu",
    "resnet101": "1 max, 1 mean, 100 relu",
    "resnet152": "1 max, 1 mean, 151 relu",
    "densenet121": "1 max, 4 mean, 121 relu",
    "densenet121_cxr": "1 max, 4 mean, 121 relu",
    "sae_small_1": "2 sigmoid",
    "sae_small_2": "2 sigmoid",
    "sae_small_3": "2 sigmoid",
    "sae_small": "3 sigmoid",
    "sae_large_1": "2 sigmoid",
    "sae_large_2": "2 sigmoid",
    "sae_large_3": "2 sigmoid",
    "sae_large": "3 sigmoid",
    "imdb_lstm": "1 dropout, 300 sigmoid, 200 tanh",
}
NAMES = {
    "relu": "relu",
    "hardtanh": "relu6",
    "sigmoid": "sigmoid",
    "sigmoid_": "sigmoid",
    "tanh": "tanh",
    "tanh_": "tanh",
    "gelu": "gelu",
    "_safe_softmax": "softmax",
    "max_pool2d_with_indices": "max",
    "avg_pool2d": "mean",
    "mean": "mean",
    "avg_pool3d": "response",
    "bernoulli_": "dropout",
}
LENET_CRC = 2422114639
SAMPLE_CRC = 2567811049
MARGIN = 1.0  # tolerance of the first loss around ln(classes), in nats


@pytest.fixture(scope="module", params=MODELS)
def spec(request: pytest.FixtureRequest) -> ModelSpec:
    return MODELS[request.param]


@pytest.fixture(scope="module")
def network(spec: ModelSpec) -> nn.Module:
    return build(spec)


@pytest.fixture(scope="module")
def network_of() -> Callable[[str], nn.Module]:
    return lambda name: build(find(name))


def on_meta(spec: ModelSpec) -> tuple[nn.Module, list[torch.Tensor]]:
    """The network and one sample without storage: shapes are computed, numbers are not."""
    module, factory = spec.factory.split(":")
    with torch.device("meta"):
        network = getattr(importlib.import_module(module), factory)()
        inputs = [torch.empty(resolve(each.shape, 1), dtype=getattr(torch, each.dtype)) for each in spec.inputs]
    return network, inputs


class Operators(TorchDispatchMode):
    """Counts the PyTorch operators that run, those of `NAMES` by the usual name."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if name := NAMES.get(function.overloadpacket.__name__):
            self.counts[name] += 1
        return function(*args, **(kwargs or {}))


@pytest.fixture(scope="module")
def passed(spec: ModelSpec) -> tuple[int, Counter[str]]:
    """The work of one sample: floating-point operations, and the operators between the layers."""
    network, inputs = on_meta(spec)
    with FlopCounterMode(display=False) as counter, Operators() as operators:
        network(*inputs)
    return counter.get_total_flops(), operators.counts


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


def test_macs_are_what_pytorch_counts(spec: ModelSpec, passed: tuple[int, Counter[str]]) -> None:
    assert passed[0] == 2 * spec.macs


def test_activations_and_poolings_are_the_published_ones(spec: ModelSpec, passed: tuple[int, Counter[str]]) -> None:
    assert ", ".join(f"{number} {name}" for name, number in sorted(passed[1].items())) == NONLINEAR[spec.name]


@pytest.mark.parametrize("name", [name for name, (_, millions) in PUBLISHED.items() if millions])
def test_macs_round_to_the_published_figure(name: str) -> None:
    millions = PUBLISHED[name][1]
    unit = {4_600: 100}.get(millions, 1 if isinstance(millions, int) else 0.1)
    assert abs(MODELS[name].macs / 1e6 - millions) <= unit / 2


def test_macs_of_gpt2_follow_from_its_widths() -> None:
    length, width, vocabulary = 128, 768, 50_257
    layer = length * 12 * width**2 + 2 * length**2 * width
    assert MODELS["gpt2"].macs == 12 * layer + length * width * vocabulary


@pytest.mark.parametrize(
    ("name", "layers"),
    {
        "fcn_s": [26_752 * 2048, 2048 * 2048, 2048 * 2048, 2048 * 26_752],
        "fcn8_s": [26_752 * 2048, *[2048 * 2048] * 5, 2048 * 26_752],
        "overfeat_fast": [  # positions, channels out, channels in, kernel
            *(56**2 * 96 * 3 * 11**2, 24**2 * 256 * 96 * 5**2, 12**2 * 512 * 256 * 9),
            *(12**2 * 1024 * 512 * 9, 12**2 * 1024 * 1024 * 9, 36_864 * 3072, 3072 * 4096, 4096 * 1000),
        ],
        "googlenet_aux": [  # the trunk, and of both heads: 4x4 positions, two linear layers
            *(MODELS["googlenet"].macs, 16 * 128 * 512, 16 * 128 * 528, 2 * 2048 * 1024, 2 * 1024 * 1000),
        ],
        "sae_small_1": [2 * 784 * 400],
        "sae_small_2": [2 * 400 * 200],
        "sae_small_3": [2 * 200 * 100],
        "sae_small": [784 * 400, 400 * 200, 200 * 100, 100 * 10],
        "sae_large_1": [2 * 784 * 800],
        "sae_large_2": [2 * 800 * 1000],
        "sae_large_3": [2 * 1000 * 2000],
        "sae_large": [784 * 800, 800 * 1000, 1000 * 2000, 2000 * 10],
    }.items(),
)
def test_macs_follow_from_the_layers(name: str, layers: list[int]) -> None:
    assert MODELS[name].macs == sum(layers)


def test_all_work_is_checked_against_something_printed_or_summed() -> None:
    (summed,) = (mark.args[1] for mark in test_macs_follow_from_the_layers.pytestmark)  # type: ignore[attr-defined]
    assert {name for name, (_, millions) in PUBLISHED.items() if not millions} == {"gpt2", *dict(summed)}


def test_outputs_are_what_the_loss_compares_with_the_labels(spec: ModelSpec) -> None:
    network, inputs = on_meta(spec)
    outputs = tuple_of(network(*inputs))
    if spec.labels is None or spec.loss is None:
        assert (spec.labels, spec.loss, len(outputs)) == (None, None, 1)
        return
    shape = resolve(spec.labels.shape, 1)
    expected = (*shape, int(spec.labels.high)) if spec.loss.name == "cross_entropy" else shape
    assert [output.shape for output in outputs] == [expected] * len(spec.loss.weights)


def tuple_of(outputs: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def test_training_starts_near_chance(spec: ModelSpec, network: nn.Module) -> None:
    if spec.labels is None or spec.loss is None:
        pytest.skip("it is not trained")
    inputs, drawn = sample(spec, spec.batch)
    labels = torch.from_numpy(drawn)
    torch.manual_seed(0)
    with torch.no_grad():
        outputs = tuple_of(network.train()(*map(torch.from_numpy, inputs.values())))
    for output in outputs:
        if spec.loss.name == "cross_entropy":
            loss, chance = F.cross_entropy(output.flatten(0, -2), labels.flatten()), math.log(spec.labels.high)
        elif spec.loss.name == "binary_cross_entropy":
            loss, chance = F.binary_cross_entropy_with_logits(output, labels), math.log(2)
        else:  # a guess of the mean, for targets uniform between 0 and 1
            loss, chance = 10 * F.mse_loss(output, labels), 10 / 12
        assert abs(loss.item() - chance) < MARGIN


def test_evaluation_neither_fades_nor_blows_up(spec: ModelSpec, network: nn.Module) -> None:
    inputs, _ = sample(spec, spec.batch)
    with torch.no_grad():
        for output in tuple_of(network.eval()(*map(torch.from_numpy, inputs.values()))):
            assert 0.01 < output.std().item() < 30


def test_outputs_depend_on_the_inputs_and_not_on_biases_alone(spec: ModelSpec, network: nn.Module) -> None:
    """Otherwise a runtime's error in them would not show. Little of the noise is left after a mean over all pixels, or
    after sigmoids; float32 loses 1e-6."""
    first, second = (sample(spec, 2, seed)[0] for seed in (0, 1))
    with torch.no_grad():
        one, other = (tuple_of(network.eval()(*map(torch.from_numpy, each.values())))[0] for each in (first, second))
    assert (one - other).std().item() > 1e-4 * one.std().item()


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
    drawn = [(each, inputs[each.name]) for each in spec.inputs]
    if spec.labels is None:
        assert (labels == 0).all()
    else:
        drawn.append((spec.labels, labels))
    for each, array in drawn:
        assert array.shape == resolve(each.shape, 2)
        assert array.dtype == each.dtype
        assert array.min() >= each.low
        assert array.max() <= each.high


def test_integers_reach_both_ends_of_their_range_but_not_the_upper_bound() -> None:
    assert set(draw(Input("x", (1000,), "int64", -1, 3), 0)) == {-1, 0, 1, 2}


def test_float_inputs_have_mean_zero_and_variance_one() -> None:
    values = draw(Input("x", (100_000,)), 0)
    assert abs(values.mean()) < 0.02
    assert abs(values.var() - 1) < 0.02


def test_the_labels_of_an_autoencoder_are_its_inputs() -> None:
    inputs, labels = sample(find("sae_small_1"), batch=3, seed=5)
    assert np.array_equal(inputs["x"], labels)


def test_lengths_are_distributed_as_those_of_the_study() -> None:
    lengths = draw(find("imdb_lstm").inputs[1], 100_000)
    assert set(lengths) == set(range(12, 100))
    assert lengths.mean() == pytest.approx(70.9, rel=0.03)
    assert [np.quantile(lengths, q) for q in (0.1, 0.5, 0.9)] == pytest.approx([48, 71, 94], abs=1)


def test_words_behind_the_end_of_a_review_count_nothing(network_of: Callable[[str], nn.Module]) -> None:
    spec, network = find("imdb_lstm"), network_of("imdb_lstm").eval()
    (words, lengths), _ = (tuple(each.values()) if isinstance(each, dict) else each for each in sample(spec, 2))
    words, lengths = torch.from_numpy(words), torch.tensor([40, 100])
    other = words.clone()
    other[:, 40:] = 7
    with torch.no_grad():
        before, after = network(words, lengths), network(other, lengths)
        alone = network.fc(network.lstm(network.embedding(words[:1, :40]))[0].mean(1))
    assert torch.equal(before[0], after[0])
    assert not torch.allclose(before[1], after[1])
    torch.testing.assert_close(before[:1], alone)


def test_unknown_model_names_the_nearest() -> None:
    with pytest.raises(UnknownModel) as caught:
        find("resnet5O")
    assert isinstance(caught.value, KeyError)
    assert str(caught.value) == "unknown model 'resnet5O': did you mean resnet50 or resnet152?"


def test_unknown_model_lists_all_when_none_is_near() -> None:
    with pytest.raises(UnknownModel, match=r"the models are lenet, fcn5_mnist, .*, imdb_lstm$"):
        find("zzz")


def test_the_table_imports_no_framework() -> None:
    code = "import sys, xbench.models; sys.exit(int('torch' in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
