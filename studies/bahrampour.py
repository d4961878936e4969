"""Bahrampour, Ramakrishnan, Schott, Shah: Comparative Study of Deep Learning Software Frameworks (arXiv 1511.06435v3,
2016): forward and gradient of five networks, by CPU threads and on a GPU."""

from xbench.studies import Part, Quote, Study, Vary

BOTH = ("gradient", "forward")
TOOLS = ("Caffe", "Neon", "TensorFlow 0.9", "Theano", "Torch7")
M40 = "Tesla M40, cuDNN 4, 2016"
REPOSITORY = "github.com/DL-Benchmarks/DL-Benchmarks, README"
THREADS = (1, 6, 12)


def _both(network: str, batch: int, gradient: tuple[float | None, ...], forward: tuple[float | None, ...]) -> Quote:
    """Milliseconds of each tool, None if the study has none."""
    rows = {
        f"{network} {mode}, batch {batch}": {
            tool: value / 1e3 for tool, value in zip(TOOLS, values, strict=True) if value is not None
        }
        for mode, values in (("gradient", gradient), ("forward", forward))
    }
    return Quote(rows, M40, REPOSITORY)


def _layers(size: str, ones: tuple[float, ...], twos: tuple[float, ...], threes: tuple[float, ...]) -> Quote:
    """Milliseconds of the gradient of each layer's auto-encoder, by tool."""
    rows = {
        f"sae_{size}_{number} gradient, batch 64": {
            tool: value / 1e3 for tool, value in zip(TOOLS, values, strict=True)
        }
        for number, values in enumerate((ones, twos, threes), 1)
    }
    rows["sum of the layers"] = {
        tool: sum(each[at] for each in (ones, twos, threes)) / 1e3 for at, tool in enumerate(TOOLS)
    }
    return Quote(rows, M40, REPOSITORY)


def _autoencoder(size: str, scale: int, quotes: tuple[Quote, ...]) -> Part:
    """The three auto-encoders of a stack, trained one after the other, and the classifier that is fine-tuned."""
    names = [f"sae_{size}_{number}" for number in (1, 2, 3)]
    stack = (*(Vary(name, (64,), ("gradient",)) for name in names), Vary(f"sae_{size}", (64,), BOTH))
    scales = ("tiny", "small", "full")[scale:]
    return Part(
        f"sae-{size}",
        f"Stacked auto-encoder, {size}: pretraining layer by layer, and fine-tuning",
        "times",
        dict.fromkeys(scales, stack),
        quotes,
        sums={"sum of the layers": tuple(f"{name} gradient, batch 64" for name in names)},
        notes=("Weights are tied, as in the study; Caffe and Neon could not, and trained twice as many.",),
    )


STUDY = Study(
    "bahrampour",
    "Forward and gradient of LeNet, AlexNet, an LSTM and stacked auto-encoders",
    "Bahrampour, Ramakrishnan, Schott, Shah: Comparative Study of Deep Learning Software Frameworks, "
    "arXiv 1511.06435v3, 2016",
    (
        Part(
            "lenet",
            "LeNet",
            "times",
            dict.fromkeys(("tiny", "small", "full"), (Vary("lenet", (64,), BOTH),)),
            (_both("lenet", 64, (2.4, 2.7, 2.7, 1.6, 1.8), (0.8, 1.3, 0.8, 0.6, 0.5)),),
        ),
        Part(
            "lenet-threads",
            "LeNet by CPU threads",
            "threads",
            {
                "tiny": (Vary("lenet", (64,), ("gradient",), (1, 2)),),
                "small": (Vary("lenet", (64,), BOTH, (1, 2, 4)),),
                "full": (Vary("lenet", (64,), BOTH, THREADS),),
            },
        ),
        Part(
            "alexnet",
            "AlexNet",
            "times",
            {"small": (Vary("alexnet_bvlc", (8,), BOTH),), "full": (Vary("alexnet_bvlc", (256,), BOTH),)},
            (_both("alexnet_bvlc", 256, (279.3, 247.0, 276.6, None, 408.8), (88.3, 84.2, 91.1, None, 98.8)),),
        ),
        _autoencoder(
            "small",
            0,
            (
                _layers("small", (0.8, 1.2, 0.7, 0.6, 0.5), (0.9, 1.5, 0.6, 0.4, 0.5), (0.9, 1.9, 0.6, 0.3, 0.5)),
                _both("sae_small", 64, (1.1, 2.0, 1.2, 0.4, 0.6), (0.6, 0.9, 0.4, 0.3, 0.3)),
            ),
        ),
        _autoencoder(
            "large",
            1,
            (
                _layers("large", (0.9, 1.2, 0.9, 0.7, 0.7), (1.2, 1.6, 1.1, 1.0, 0.9), (1.7, 2.3, 1.6, 1.8, 1.4)),
                _both("sae_large", 64, (1.9, 2.0, 2.1, 1.2, 1.4), (0.9, 1.0, 0.7, 0.6, 0.6)),
            ),
        ),
        Part(
            "lstm",
            "LSTM on IMDB, reviews of different lengths",
            "times",
            dict.fromkeys(("tiny", "small", "full"), (Vary("imdb_lstm", (16,), BOTH),)),
            (_both("imdb_lstm", 16, (None, None, 85.4, 17.3, 93.2), (None, None, 37.1, 4.6, 29.8)),),
            notes=(
                "Lengths are drawn between the deciles of the study's own file of 1,989 reviews: 12, 48, 55, 61, 66, "
                "71, 77, 82, 88, 94, 100. All runtimes compute 100 positions and leave the padding out of the mean.",
            ),
        ),
    ),
    (
        "extensibility, which the study judged in words",
        "algorithms of cuDNN, fbcunn and cuda-convnet; the gradient of the input, which some tools computed",
        "the CPU table of the paper (Xeon E5-1650 v2): its figures are not in the repository",
    ),
)
