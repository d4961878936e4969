"""Variants that people have built, or printed, under a network's name: parameters or multiply-accumulates -> what it
is. Counted from a study's repository if it has the code; the sentence says what was read differently."""

UNTIED = "a decoder with weights of its own, as study 5's Caffe and Neon had it"
READINGS: dict[str, dict[int, str]] = {
    "lenet": {447_572: "52 channels instead of 50 and no bias in linear layers, as study 5's Neon needed"},
    "fcn5_mnist": {
        13_714_442: "the hidden layers 4096, 2048, 1024, as study 1's CNTK had them; the first two are swapped",
        13_707_264: "the weights without the biases of the layers 4096, 2048, 1024, as study 1 printed them",
    },
    "alexnet_cifar": {
        89_578: "pooling that rounds up, as Caffe's: the last layer takes 1,024 numbers instead of 576",
        84_960: "the weights without the biases, as study 1 printed them (85000)",
    },
    "resnet56_cifar": {
        855_050: "convolutions with a bias, as study 1's Torch had them",
        855_053: "convolutions with a bias and a norm on the images, as study 1's MXNet had them",
        863_242: "biases, also of projections, and a pooling of 2x2 before the last layer, as study 1's Caffe had them",
        853_210: "projections instead of padded shortcuts, as study 1's CNTK had them",
    },
    "lstm_ptb": {6_180_624: "one bias a gate instead of two, as study 1's TensorFlow had it"},
    "imdb_gru": {3_818_002: "one bias a gate instead of two, as Keras has it: the reset gate acts before the product"},
    "imdb_lstm": {1_411_842: "one bias a gate instead of two, as study 5's Theano had it"},
    "alexnet_s": {
        11_135_720: "study 1's MXNet: conv5 and pool5 read relu3 and fc8 reads pool5, so that four layers are dead",
        76_009_832: "padding SAME, as study 1's TensorFlow had it: the last image is 7x7 instead of 6x6",
        60_965_224: "groups of 2 in three convolutions: this is alexnet_bvlc",
        61_100_840: "the widths 64, 192, 384, 256, 256: this is alexnet_owt",
    },
    "alexnet_bvlc": {
        59_816_296: "groups of 2 within each of two towers, as study 5's Torch had them",
        62_378_344: "no groups: this is alexnet_s",
        61_100_840: "the widths 64, 192, 384, 256, 256: this is alexnet_owt",
    },
    "alexnet_owt": {62_378_344: "the widths 96, 256, 384, 384, 256: this is alexnet_s"},
    "googlenet": {13_378_280: "two auxiliary classifiers: this is googlenet_aux"},
    "googlenet_aux": {6_998_552: "no auxiliary classifiers: this is googlenet"},
    "resnet50": {
        25_549_483: "norms before the convolutions (v2), as study 1's MXNet had them",
        3_857_973_248: "the stride on the first 1x1 convolution of a stage (v1): this is resnet50_v1",
        23_508_032: "no last layer: this is resnet50_features",
    },
    "resnet50_v1": {
        25_549_483: "norms before the convolutions (v2), as study 1's MXNet had them",
        4_089_184_256: "the stride on the 3x3 convolutions (v1.5): this is resnet50",
    },
    "resnet50_features": {25_557_032: "a last layer of 1000 classes: this is resnet50"},
    "densenet121": {6_968_206: "14 outputs: this is densenet121_cxr"},
    "densenet121_cxr": {7_978_856: "1000 outputs: this is densenet121"},
    "vgg11": {138_357_544: "configuration D: this is vgg16"},
    "vgg16": {132_863_336: "configuration A: this is vgg11", 143_667_240: "configuration E: this is vgg19"},
    "vgg19": {138_357_544: "configuration D: this is vgg16"},
    "sae_small_1": {628_384: UNTIED},
    "sae_small_2": {160_600: UNTIED},
    "sae_small_3": {40_300: UNTIED},
    "sae_large_1": {1_255_984: UNTIED},
    "sae_large_2": {1_601_800: UNTIED},
    "sae_large_3": {4_003_000: UNTIED},
}


def reading(name: str, count: int, parameters: int) -> str | None:
    """The explanation of a wrong number of parameters or multiply-accumulates of a network."""
    if known := READINGS.get(name, {}).get(count):
        return known
    if count in (2 * parameters, 4 * parameters, 8 * parameters):
        return f"bytes, {count // parameters} a parameter, not parameters"
    return None
