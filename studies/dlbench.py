"""Shi, Wang, Xu, Chu: Benchmarking State-of-the-Art Deep Learning Software Tools (arXiv 1608.07249, CCBD 2016,
github.com/hclhkbu/dlbench): the time of a mini-batch by network, threads and batch size."""

from xbench.studies import Part, Quote, Study, Vary

THREADS = (1, 2, 4, 8, 16, 32)
# ms of a mini-batch by threads: the README of github.com/deeplearning2012/HyperDL-Tutorial quotes dlbench's site, v8.
FCN5 = {
    "Caffe": (1887.2, 1316.7, 1051.8, 952.1, 952.3, 834.7),
    "CNTK": (1238.7, 616.3, 352.7, 229.5, 155.9, 192.4),
    "TensorFlow 1": (992.2, 773.6, 419.3, 252.3, 149.7, 124.7),
    "MXNet": (1386.8, 915.5, 559.0, 499.1, 416.3, 413.9),
}

STUDY = Study(
    "dlbench",
    "The time of a training mini-batch: by threads, by batch size, by workers; and how the loss falls",
    "Shi, Wang, Xu, Chu: Benchmarking State-of-the-Art Deep Learning Software Tools, arXiv 1608.07249, 2016",
    (
        Part(
            "threads",
            "Time of a mini-batch by CPU threads, real networks",
            "threads",
            {
                "tiny": (
                    Vary("fcn5_mnist", (64,), threads=(1, 2)),
                    Vary("alexnet_cifar", (64,), threads=(1, 2)),
                    Vary("lstm_ptb", (16,), threads=(1, 2)),
                    Vary("resnet56_cifar", (8,), threads=(2,)),
                ),
                "small": (
                    Vary("fcn5_mnist", (256,), threads=(1, 2, 4, 8)),
                    Vary("alexnet_cifar", (256,), threads=(1, 2, 4, 8)),
                    Vary("resnet56_cifar", (32,), threads=(1, 2, 4, 8)),
                    Vary("lstm_ptb", (64,), threads=(1, 2, 4, 8)),
                ),
                "full": (
                    Vary("fcn5_mnist", (1024,), threads=THREADS),
                    Vary("alexnet_cifar", (1024,), threads=THREADS),
                    Vary("resnet56_cifar", (128,), threads=THREADS),
                    Vary("lstm_ptb", (256,), threads=THREADS),
                ),
            },
            (
                Quote(
                    {
                        str(threads): {tool: times[at] / 1e3 for tool, times in FCN5.items()}
                        for at, threads in enumerate(THREADS)
                    },
                    "batch 1024, Xeon E5-2630 v4, 2017",
                    "dlbench's site, version 8, as quoted by github.com/deeplearning2012/HyperDL-Tutorial",
                    "fcn5_mnist",
                ),
            ),
        ),
        Part(
            "synthetic",
            "Time of a mini-batch, synthetic networks",
            "threads",
            {
                "small": (Vary("alexnet_s", (4,), threads=(1, 2, 4)), Vary("resnet50", (4,), threads=(1, 2, 4))),
                "full": (
                    Vary("fcn_s", (64,), threads=THREADS),
                    Vary("alexnet_s", (16,), threads=THREADS),
                    Vary("resnet50", (16,), threads=THREADS),
                ),
            },
        ),
        Part(
            "batches",
            "Time of a mini-batch by its size",
            "batches",
            {
                "tiny": (Vary("fcn5_mnist", (64, 256)), Vary("alexnet_cifar", (64, 256))),
                "small": (
                    Vary("fcn5_mnist", (64, 256, 1024)),
                    Vary("alexnet_cifar", (64, 256, 1024)),
                    Vary("resnet56_cifar", (8, 32, 128)),
                    Vary("lstm_ptb", (16, 64, 256)),
                ),
                "full": (
                    Vary("fcn5_mnist", (342, 512, 1024, 2048, 4096)),
                    Vary("alexnet_cifar", (64, 128, 256, 512, 1024, 2048)),
                    Vary("resnet56_cifar", (11, 16, 32, 64, 128)),
                    Vary("lstm_ptb", (128, 256, 512, 1024)),
                    Vary("fcn_s", (32, 64, 128, 256, 512, 1024)),
                    Vary("alexnet_s", (16, 32, 64, 128)),
                    Vary("resnet50", (8, 16, 32, 64)),
                ),
            },
        ),
        Part(
            "workers",
            "Strong scaling over workers",
            "scaling",
            {
                "tiny": (Vary("fcn5_mnist", (64,), threads=(1,)),),
                "small": (
                    Vary("fcn5_mnist", (1024,), threads=(1,)),
                    Vary("alexnet_cifar", (1024,), threads=(1,)),
                    Vary("resnet56_cifar", (128,), threads=(1,)),
                ),
                "full": (
                    Vary("fcn5_mnist", (4096,), threads=(1,)),
                    Vary("alexnet_cifar", (1024,), threads=(1,)),
                    Vary("resnet56_cifar", (128,), threads=(1,)),
                ),
            },
            plane="host",
            settings={"kind": "strong", "tiny": "1 2", "small": "1 2 4", "full": "1 2 4"},
            notes=("ONNX Runtime, OpenVINO, TVM and torch_compile have no engine for several workers here.",),
        ),
        Part(
            "memory",
            "Memory and energy",
            "costs",
            {
                "tiny": (Vary("fcn5_mnist", (64,)), Vary("alexnet_cifar", (64,)), Vary("lstm_ptb", (16,))),
                "small": (Vary("fcn5_mnist", (256,)), Vary("alexnet_cifar", (256,)), Vary("lstm_ptb", (64,))),
                "full": (Vary("fcn5_mnist", (1024,)), Vary("alexnet_cifar", (1024,)), Vary("lstm_ptb", (256,))),
            },
            notes=(
                "The peak of the worker's memory while it was timed; the energy of all processors, where they tell.",
            ),
        ),
        Part(
            "convergence",
            "Loss and accuracy by epoch and by second",
            "training",
            {
                "tiny": (Vary("fcn5_mnist", (64,)),),
                "small": (Vary("fcn5_mnist", (64,)),),
                "full": (Vary("fcn5_mnist", (1024,)),),
            },
            settings={"fcn5_mnist": "mnist digits", "tiny": "3", "small": "10", "full": "40"},
            notes=("MNIST where XBENCH_DATA holds it, otherwise the digits that scikit-learn ships.",),
        ),
    ),
    (
        "three generations of GPUs (GTX 980, GTX 1080, K80): one machine is measured at a time",
        "published times of tools that measured five different things by the name of a mini-batch",
    ),
)
