"""Shi, Wang, Chu: Performance Modeling and Evaluation of Distributed Deep Learning Frameworks on GPUs (2018, arXiv
1711.05979v3): one P40 by phases, then 2, 4, 8 and 16 of them."""

from xbench.studies import COMMUNICATION, Part, Quote, Study, Vary

PAPER = "arXiv 1711.05979v3"
P40 = "one Tesla P40, CUDA 8, cuDNN 6, 2018"
TOOLS = ("Caffe-MPI", "CNTK", "MXNet", "TensorFlow 1.2")
PHASES = ("t_io", "t_h2d", "t_f", "t_b", "t_u", "t_iter")


def _phases(network: str, batch: int, *rows: tuple[float, ...]) -> Quote:
    """Columns of Table V: the phases of each tool, in seconds."""
    named = {phase: dict(zip(TOOLS, values, strict=True)) for phase, values in zip(PHASES, rows, strict=True)}
    return Quote(named, f"batch {batch}, {P40}", f"{PAPER}, Table V", network)


def _speed(network: str, **tools: tuple[float, ...]) -> Quote:
    """Speed-ups of figures 2 and 3, read off the paths of the drawing."""
    rows = {str(n): {TOOL[t]: v[at] for t, v in tools.items()} for at, n in enumerate((2, 4, 8, 16))}
    about = "speed-up on so many P40, four a machine, 56 Gb/s InfiniBand, weak scaling"
    return Quote(rows, about, f"{PAPER}, figures 2 and 3, read off the drawing", network)


def _comm(network: str, workers: tuple[tuple[str, tuple[float, ...]], ...]) -> Quote:
    """Seconds of Table VI."""
    rows = {number: dict(zip(TOOLS, values, strict=True)) for number, values in workers}
    about = f"communication of the gradients of so many P40 in a machine; {P40}"
    return Quote(rows, about, f"{PAPER}, Table VI", network, COMMUNICATION)


TOOL = {"caffe_mpi": "Caffe-MPI", "cntk": "CNTK", "mxnet": "MXNet", "tf": "TensorFlow 1.2"}

STUDY = Study(
    "s-sgd",
    "Where the time of a training iteration goes, and what communication between workers costs",
    "Shi, Wang, Chu: Performance Modeling and Evaluation of Distributed Deep Learning Frameworks on GPUs, "
    f"{PAPER}, 2018",
    (
        Part(
            "phases",
            "Phases of an iteration, mean ± standard deviation (Table V)",
            "phases",
            {
                "tiny": (Vary("googlenet", (2,)),),
                "small": (Vary("alexnet_bvlc", (16,)), Vary("googlenet", (8,)), Vary("resnet50", (4,))),
                "full": (Vary("alexnet_bvlc", (1024,)), Vary("googlenet_aux", (128,)), Vary("resnet50", (32,))),
            },
            (
                _phases(
                    "alexnet_bvlc",
                    1024,
                    (0.0002, 0.2233, 0.0001, 0.0008),
                    (0.0526, 0.0528, 0.1109, 0.1140),
                    (0.1718, 0.1684, 0.2147, 0.1804),
                    (0.3560, 0.2919, 0.4086, 0.3417),
                    (0.0062, 0.0086, 0.0041, 0.0031),
                    (0.5772, 0.7433, 0.7235, 0.6593),
                ),
                _phases(
                    "googlenet",
                    128,
                    (0.0002, 0.0001, 0.0001, 0.0010),
                    (0.0021, 0.0033, 0.0143, 0.0161),
                    (0.0920, 0.0814, 0.0892, 0.1192),
                    (0.2073, 0.1780, 0.1819, 0.1856),
                    (0.0015, 0.0095, 0.0095, 0.0005),
                    (0.3050, 0.2767, 0.2943, 0.3100),
                ),
                _phases(
                    "resnet50",
                    32,
                    (0.0002, 0.0001, 0.0001, 0.0003),
                    (0.0009, 0.0016, 0.0039, 0.0045),
                    (0.0807, 0.0724, 0.0732, 0.0767),
                    (0.1291, 0.1482, 0.1307, 0.1355),
                    (0.0033, 0.0073, 0.0164, 0.0015),
                    (0.2078, 0.2261, 0.2242, 0.2148),
                ),
            ),
            notes=(
                "The study took the local response normalization out of AlexNet, because CNTK had none; here it is in.",
                "CNTK read JPEG files in its t_io, the others what had been decoded before.",
            ),
        ),
        Part(
            "workers",
            "Weak scaling over workers",
            "scaling",
            {
                "tiny": (Vary("googlenet", (2,), threads=(1,)),),
                "small": (Vary("googlenet", (8,), threads=(1,)), Vary("resnet50", (4,), threads=(1,))),
                "full": (
                    Vary("alexnet_bvlc", (1024,), threads=(1,)),
                    Vary("googlenet", (128,), threads=(1,)),
                    Vary("resnet50", (32,), threads=(1,)),
                ),
            },
            (
                _speed(
                    "alexnet_bvlc",
                    caffe_mpi=(2.00, 3.86, 7.93, 14.65),
                    cntk=(1.40, 2.34, 4.58, 8.83),
                    mxnet=(1.96, 2.34, 4.16, 5.73),
                    tf=(1.91, 2.39, 4.60, 8.11),
                ),
                _speed(
                    "googlenet",
                    caffe_mpi=(1.99, 3.73, 7.63, 14.25),
                    cntk=(1.75, 3.22, 5.45, 10.80),
                    mxnet=(1.94, 3.73, 6.64, 10.51),
                    tf=(1.84, 3.48, 6.63, 12.10),
                ),
                _speed(
                    "resnet50",
                    caffe_mpi=(1.93, 3.90, 7.69, 14.89),
                    cntk=(1.88, 3.42, 6.48, 12.44),
                    mxnet=(1.98, 3.84, 5.39, 8.35),
                    tf=(1.86, 3.50, 4.10, 6.45),
                ),
                _comm(
                    "alexnet_bvlc",
                    (("2", (0.0457, 0.0359, 0.0222, 0.0406)), ("4", (0.0861, 0.0420, 0.0505, 0.0984))),
                ),
                _comm(
                    "googlenet",
                    (("2", (0.0135, 0.0343, 0.0102, 0.0053)), ("4", (0.0229, 0.0592, 0.0318, 0.0168))),
                ),
                _comm(
                    "resnet50",
                    (("2", (0.0336, 0.0173, 0.0491, 0.0072)), ("4", (0.0646, 0.0295, 0.1626, 0.0210))),
                ),
            ),
            plane="host",
            settings={"kind": "weak", "tiny": "1 2", "small": "1 2 4", "full": "1 2 4 8 16"},
            notes=(
                "ONNX Runtime, OpenVINO, TVM and torch_compile have no engine for several workers here.",
                "Published: communication was hidden behind the backward pass in all tools but CNTK.",
            ),
        ),
        Part(
            "layers",
            "Layers of a forward pass, by the runtime's own profiler",
            "layers",
            {
                "tiny": (Vary("alexnet_bvlc", (4,), ("forward",)),),
                "small": (Vary("alexnet_bvlc", (16,), ("forward",)), Vary("googlenet", (8,), ("forward",))),
                "full": (Vary("alexnet_bvlc", (1024,), ("forward",)), Vary("googlenet", (128,), ("forward",))),
            },
        ),
    ),
    (
        "ImageNet's images: nothing is downloaded; samples are bytes of no meaning, read from files",
        "4 machines of 4 GPUs each, InfiniBand: workers here are processes of one machine",
        "pinned against pageable memory, cuDNN's algorithms: there is no GPU between host and device here",
    ),
)
