"""Gusmão, add-for: Deep Learning GPU Benchmarks (add-for.com/deep-learning-benchmarks, 2016 and 2017): forward and
forward with backward of networks for ImageNet, by framework and GPU, and the efficiency of mini-batch sizes."""

from xbench.studies import Part, Quote, Study, Vary

BOTH = ("forward", "gradient")
SIZES = (8, 16, 32, 64, 128)
NETWORKS = ("alexnet_owt", "overfeat_fast", "vgg11", "googlenet", "resnet50", "resnet101", "resnet152")

STUDY = Study(
    "minibatch",
    "Forward, and forward with backward, of networks for ImageNet; the time of a sample by the size of its mini-batch",
    "P. Gusmão: Deep Learning GPU Benchmarks, add-for.com/deep-learning-benchmarks, 2016",
    (
        Part(
            "networks",
            "Forward, and forward with backward, by network",
            "times",
            {
                "tiny": (Vary("alexnet_owt", (4,), BOTH), Vary("googlenet", (2,), BOTH)),
                "small": tuple(Vary(name, (4,), BOTH) for name in NETWORKS[:5] if name != "overfeat_fast"),
                "full": tuple(Vary(name, (64,), BOTH) for name in NETWORKS),
            },
            notes=("A cell that does not fit into memory is told as OOM: the study left its bar out.",),
        ),
        Part(
            "efficiency",
            "Mini-batch efficiency: the time of a sample by the size of its mini-batch",
            "batches",
            {
                "tiny": (Vary("googlenet", (1, 2, 4), BOTH),),
                "small": tuple(Vary(name, (1, 2, 4, 8, 16), BOTH) for name in ("alexnet_owt", "googlenet", "resnet50")),
                "full": tuple(Vary(name, SIZES, BOTH) for name in NETWORKS),
            },
            (
                Quote(
                    {"64": {"TensorFlow 1.0": 0.42028}, "128": {"TensorFlow 1.0": 0.89986}},
                    "VGG, GTX 1080, cuDNN 5.1",
                    "add-for.com, the only figures of it that are left",
                    "vgg11",
                    "gradient",
                ),
            ),
        ),
    ),
    (
        "GPUs K40, Titan X (Maxwell and Pascal), GTX 1080: one machine is measured at a time",
        "its charts: the page is gone, and with it all figures but two",
    ),
)
