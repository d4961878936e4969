"""Karmanov and others: Deep Learning Frameworks, a Rosetta Stone (github.com/ilkarman/DeepLearningFrameworks, 2017 and
2018): the same networks in every framework, and the time of a whole training."""

from collections.abc import Mapping

from xbench.studies import Part, Quote, Study, Vary

README = "github.com/ilkarman/DeepLearningFrameworks, README"
CNN = {
    "K80": {"Caffe2": 148, "Chainer": 162, "CNTK": 163, "Gluon": 152, "Keras(TF)": 241, "MXNet": 145, "PyTorch": 169}
    | {"TensorFlow": 173, "Lasagne": 253},
    "P100": {"Caffe2": 54, "Chainer": 69, "CNTK": 53, "Gluon": 57, "Keras(TF)": 76, "MXNet": 52, "PyTorch": 51}
    | {"TensorFlow": 57, "Lasagne": 65},
}
GRU = {
    "K80": {"CNTK": 32, "Keras(TF)": 35, "MXNet": 29, "PyTorch": 31, "TensorFlow": 30},
    "P100": {"CNTK": 15, "Keras(TF)": 26, "MXNet": 24, "PyTorch": 16, "TensorFlow": 22},
}
FEATURES = {
    "K80": {"Caffe2": 14.1, "Chainer": 9.3, "CNTK": 8.5, "Keras(TF)": 10.2, "MXNet": 7.7, "PyTorch": 7.7}
    | {"TensorFlow": 6.5},
    "P100": {"Caffe2": 7.9, "Chainer": 2.7, "CNTK": 1.6, "Gluon": 1.7, "Keras(TF)": 2.9, "MXNet": 1.6}
    | {"PyTorch": 1.9, "TensorFlow": 1.8},
}
CHEST = {"PyTorch": 25, "Keras(TF)": 36, "TensorFlow": 25, "Chainer": 27, "Gluon": 28}  # minutes of 5 epochs


def _cards(figures: Mapping[str, Mapping[str, float]], about: str) -> tuple[Quote, ...]:
    return tuple(Quote({card: tools}, f"{about}, {card}", README) for card, tools in figures.items())


STUDY = Study(
    "rosetta",
    "Whole trainings of a CNN and a recurrent network, and the extraction of features, arrays in and out",
    f"I. Karmanov and others: Deep Learning Frameworks, a Rosetta Stone, {README}, 2017 and 2018",
    (
        Part(
            "cnn",
            "CNN on CIFAR-10: 10 epochs of 781 mini-batches of 64",
            "tools",
            {
                "tiny": (Vary("cifar_vgg", (16,)),),
                "small": (Vary("cifar_vgg", (64,)),),
                "full": (Vary("cifar_vgg", (64,)),),
            },
            _cards(CNN, "10 epochs"),
            "host",
            {"cifar_vgg": 10 * 781 * 64},
            "10 epochs",
        ),
        Part(
            "gru",
            "GRU on IMDB: 3 epochs of 390 mini-batches of 64",
            "tools",
            {
                "tiny": (Vary("imdb_gru", (16,)),),
                "small": (Vary("imdb_gru", (64,)),),
                "full": (Vary("imdb_gru", (64,)),),
            },
            _cards(GRU, "3 epochs"),
            "host",
            {"imdb_gru": 3 * 390 * 64},
            "3 epochs",
        ),
        Part(
            "features",
            "ResNet-50 features: 1000 images",
            "tools",
            {
                "tiny": (Vary("resnet50_features", (4,), ("forward",)),),
                "small": (Vary("resnet50_features", (32,), ("forward",)),),
                "full": (Vary("resnet50_features", (32,), ("forward",)),),
            },
            _cards(FEATURES, "1000 images"),
            "host",
            {"resnet50_features": 1000},
            "1000 images",
        ),
        Part(
            "chest",
            "DenseNet-121 on ChestX-ray14: an epoch of 87,306 images",
            "tools",
            {"small": (Vary("densenet121_cxr", (8,)),), "full": (Vary("densenet121_cxr", (64,)),)},
            (
                Quote(
                    {"V100": {tool: minutes * 60 / 5 for tool, minutes in CHEST.items()}},
                    "an epoch of synthetic data: a fifth of the 5 epochs that were published",
                    README,
                ),
            ),
            "host",
            {"densenet121_cxr": 87_306},
            "an epoch",
        ),
    ),
    (
        "accuracies on CIFAR-10, IMDB and ChestX-ray14: nothing is downloaded; `xbench train --data` reads the files",
        "whole trainings: what is told is the time of a step, arrays in and out, times the steps of the training",
        "GPUs K80, M60, P40, P100, V100: one machine is measured at a time",
    ),
)
