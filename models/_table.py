"""The table of the zoo: name, where it comes from, `file:factory`, inputs, labels, trainable parameters, forward
multiply-accumulates of one sample, the default batch; how it is trained."""

from typing import Any

from xbench.models._spec import Input, Loss, ModelSpec, Optimizer, classes, image, tokens

MOMENTUM = Optimizer(lr=0.01, momentum=0.9)
RESIDUAL = Optimizer(lr=0.1, momentum=0.9, weight_decay=1e-4)
PIXELS = (Input("x", ("batch", 784), low=0.0, high=1.0),)
FINDINGS = Input("labels", ("batch", 14), low=0.0, high=1.0)
MSE = Loss("mean_squared_error")
# Deciles of the 1,989 lengths in data/seqs_lengths.csv of github.com/DL-Benchmarks/DL-Benchmarks, whose mean is 70.9.
DECILES = (12.0, 48.0, 55.0, 61.0, 66.0, 71.0, 77.0, 82.0, 88.0, 94.0, 100.0)
LENGTHS = Input("lengths", ("batch",), "int64", 12, 100, DECILES)


def _row(name: str, study: str, factory: str, *rest: Any, **more: Any) -> ModelSpec:
    return ModelSpec(name, study, f"xbench.models.{factory}", *rest, **more)


def _imagenet(name: str, study: str, factory: str, *rest: Any) -> ModelSpec:
    return _row(name, study, factory, image(3, 224, 224), classes(1000), *rest)


def _autoencoder(name: str, factory: str, width: int, parameters: int, macs: int) -> ModelSpec:
    """Its output is compared with its input, numbers between 0 and 1 as a sigmoid gives them."""
    given = Input("x", ("batch", width), low=0.0, high=1.0)
    return _row(name, "study 5", factory, (given,), given, parameters, macs, 64, Optimizer(lr=0.1), MSE)


# fmt: off
SPECS = (
    _row("lenet", "study 5", "lenet:LeNet", image(1, 28, 28), classes(10), 431_080, 2_293_000, 64, MOMENTUM),
    _row("fcn5_mnist", "study 1", "mlp:FCN5", image(784), classes(10), 14_205_962, 14_198_784, 64,
         Optimizer(lr=0.05, momentum=0.9)),
    _row("alexnet_cifar", "study 1", "alexnet:AlexNetCifar", image(3, 32, 32), classes(10), 85_098, 10_732_160, 64,
         MOMENTUM),
    _row("resnet56_cifar", "study 1", "resnet:ResNet56", image(3, 32, 32), classes(10), 853_018, 125_485_696, 8,
         Optimizer(lr=0.01, momentum=0.9, weight_decay=1e-4)),
    _row("lstm_ptb", "study 1", "lstm:LSTMPTB", tokens(32, 10_000), classes(10_000, 32), 6_182_672, 115_474_432, 16,
         Optimizer(lr=0.1, clip=5.0)),
    _row("cifar_vgg", "study 4", "vgg:CifarVGG", image(3, 32, 32), classes(10), 3_441_592, 62_264_320, 16, MOMENTUM),
    _row("imdb_gru", "study 4", "gru:ImdbGRU", tokens(150, 30_000), classes(2), 3_818_302, 10_125_200, 16,
         Optimizer("adam", lr=1e-3)),
    _imagenet("resnet50", "studies 1 to 4", "resnet:resnet50", 25_557_032, 4_089_184_256, 2,
         RESIDUAL),
    _imagenet("mobilenet_v2", "modern", "mobilenet:MobileNetV2", 3_504_872, 300_774_272, 2,
         Optimizer(lr=0.001, momentum=0.9, weight_decay=4e-5)),  # the paper's 0.045 is for batch 96
    _imagenet("vit_s16", "modern", "vit:ViTS16", 22_050_664, 4_598_882_304, 1,
         Optimizer("adamw", lr=5e-4, weight_decay=0.05)),
    _row("gpt2", "modern", "gpt2:GPT2", tokens(128, 50_257), classes(50_257, 128), 124_439_808, 16_114_089_984, 1,
         Optimizer("adamw", lr=6e-4, weight_decay=0.1, beta2=0.95, clip=1.0)),

    # synthetic networks of study 1
    _row("fcn_s", "study 1", "mlp:FCNS", image(26_752), classes(26_752), 117_997_696, 117_964_800, 16),
    _row("fcn8_s", "study 1", "mlp:fcn8_s", image(26_752), classes(26_752), 130_586_752, 130_547_712, 16),

    # networks for ImageNet
    _imagenet("alexnet_s", "study 1", "alexnet:s", 62_378_344, 1_135_256_096, 4),
    _row("alexnet_bvlc", "studies 2, 5", "alexnet:bvlc", image(3, 227, 227), classes(1000), 60_965_224, 724_406_816, 4,
         Optimizer(lr=0.01, momentum=0.9, weight_decay=5e-4)),
    _imagenet("alexnet_owt", "study 3", "alexnet:owt", 61_100_840, 714_188_480, 4),
    _row("overfeat_fast", "study 3", "overfeat:OverFeatFast", image(3, 231, 231), classes(1000), 145_920_872,
         2_801_403_904, 2),
    _imagenet("vgg11", "study 3", "vgg:vgg11", 132_863_336, 7_609_090_048, 1),
    _imagenet("vgg16", "study 3", "vgg:vgg16", 138_357_544, 15_470_264_320, 1),
    _imagenet("vgg19", "study 3", "vgg:vgg19", 143_667_240, 19_632_062_464, 1),
    _imagenet("googlenet", "studies 2, 3", "googlenet:GoogLeNet", 6_998_552, 1_582_671_872, 2),
    _imagenet("googlenet_aux", "study 2", "googlenet:with_auxiliary", 13_378_280, 1_591_044_096, 2,
         Optimizer(lr=0.01, momentum=0.9, weight_decay=2e-4), Loss(weights=(1.0, 0.3, 0.3))),
    _imagenet("resnet18", "modern", "resnet:resnet18", 11_689_512, 1_814_073_344, 2, RESIDUAL),
    _imagenet("resnet34", "modern", "resnet:resnet34", 21_797_672, 3_663_761_408, 2, RESIDUAL),
    _imagenet("resnet50_v1", "study 1", "resnet:resnet50_v1", 25_557_032, 3_857_973_248, 2, RESIDUAL),
    _row("resnet50_features", "study 4", "resnet:resnet50_features", image(3, 224, 224), None, 23_508_032,
         4_087_136_256, 2, loss=None),
    _imagenet("resnet101", "study 3", "resnet:resnet101", 44_549_160, 7_801_405_440, 1, RESIDUAL),
    _imagenet("resnet152", "study 3", "resnet:resnet152", 60_192_808, 11_513_626_624, 1, RESIDUAL),
    _imagenet("densenet121", "study 4", "densenet:DenseNet121", 7_978_856, 2_834_161_664, 2, RESIDUAL),
    _row("densenet121_cxr", "study 4", "densenet:chest_x_ray", image(3, 224, 224), FINDINGS, 6_968_206, 2_833_152_000,
         2, Optimizer("adam", lr=1e-4), Loss("binary_cross_entropy")),

    # stacked auto-encoders, layer by layer, and their fine-tuning
    _autoencoder("sae_small_1", "autoencoder:small_1", 784, 314_784, 627_200),
    _autoencoder("sae_small_2", "autoencoder:small_2", 400, 80_600, 160_000),
    _autoencoder("sae_small_3", "autoencoder:small_3", 200, 20_300, 40_000),
    _row("sae_small", "study 5", "autoencoder:small", PIXELS, classes(10), 415_310, 414_600, 64, Optimizer(lr=0.1)),
    _autoencoder("sae_large_1", "autoencoder:large_1", 784, 628_784, 1_254_400),
    _autoencoder("sae_large_2", "autoencoder:large_2", 800, 801_800, 1_600_000),
    _autoencoder("sae_large_3", "autoencoder:large_3", 1000, 2_003_000, 4_000_000),
    _row("sae_large", "study 5", "autoencoder:large", PIXELS, classes(10), 3_451_010, 3_447_200, 64, Optimizer(lr=0.1)),

    _row("imdb_lstm", "study 5", "lstm:ImdbLSTM", (*tokens(100, 10_000), LENGTHS), classes(2), 1_412_354, 13_107_456,
         16),
)
# fmt: on
MODELS: dict[str, ModelSpec] = {spec.name: spec for spec in SPECS}
