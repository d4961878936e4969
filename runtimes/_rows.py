"""The table of xbench's own runtimes: entry points, packages, capabilities, options."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from xbench.converters.artifact import TEXTS
from xbench.runtimes._environments import RECIPES


@dataclass(frozen=True)
class Lower:
    """A precision below float32 that a runtime has: the framework's switch for it, and where it works."""

    switch: str
    devices: tuple[str, ...] = ("cpu", "cuda")
    modes: tuple[str, ...] = ("forward", "gradient", "step")


@dataclass(frozen=True)
class EngineRow:
    """A runtime's own engine for several workers: its class, its launcher (`distributed/__init__.py`), and its name in
    its makers' words."""

    entry: str
    launcher: str
    words: str


@dataclass(frozen=True)
class Row:
    """One runtime of the table: where its class is, what it needs installed, what it can do.

    `operators` names the operator table (a file of `converters/`) that the runtime runs the printed program with, if
    any; `layouts` are the orders of an image's axes that it can compute in. Arrays go in and out in ONNX's order,
    nchw, in all of them. A `hidden` row is a fake for tests: it is not listed. Modes `on_request` take minutes to
    prepare, and are left out if no mode is requested. `lower` are its precisions below float32. `effort` says what is
    added to its name for `--tune off`, and what is tried for `--tune max`; `{seconds}` is what a search may take. Its
    keys may end in a device, or in `open`: forward of a user's file that leaves the size of an axis open.
    `events` are the devices whose own clock it can read around a step. `ours` are the modules that its adapter, not
    the runtime, needs: they are imported before the clock starts. If it `keeps` what it compiles, later processes load
    it from disk. `layers` is added to its name to get the times of single layers; None if it compiles a network as
    one. `options` are the words that may follow its name (`tensorflow:xla`), each with the values it may have, () for
    any; None if the row takes any options. `engine` trains it by several workers. A framework that cannot be installed
    with current ones has an `environment` of its own (`_environments.py`). A `named` one runs only on request by name.
    One that `reads_onnx` runs a user's file unchanged, forward. `scripts` is the module for running it without xbench.
    `preload` are modules that take long to import, and may be before workers are forked (`workers/template.py`); the
    first names the framework. `without` are packages that it imports wherever they are installed, though its own
    installation does not bring them: in its workers they are absent (`workers/absent.py`).
    """

    entry: str
    packages: tuple[str, ...]
    extra: str
    autodiff: str | None = None
    note: str | None = None
    operators: str | None = None
    layouts: tuple[str, ...] = ("nchw",)
    hidden: bool = False
    on_request: tuple[str, ...] = ()
    lower: Mapping[str, Lower] = field(default_factory=dict)
    effort: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    events: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    keeps: bool = False
    layers: str | None = None
    options: Mapping[str, tuple[str, ...]] | None = None
    engine: EngineRow | None = None
    environment: str | None = None
    named: bool = False
    reads_onnx: bool = False
    scripts: str | None = None
    preload: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


# The runtime that takes a given time, to test xbench itself, has its result before the clock starts. That is no field
# of a row, because plug-ins write rows.
UNCLOCKED = ("null",)
LAYOUTS = tuple(TEXTS)  # of an image: ONNX's, and channels last
CPU, CUDA, FORWARD = ("cpu",), ("cuda",), ("forward",)
ON, ANY = ("1",), ()  # an option without a value, and one whose value the adapter checks
# In float16 a gradient needs its loss scaled, which every framework does differently.
# What Keras imports, and TensorFlow with it, where it is installed.
BESIDE_KERAS = ("sklearn", "matplotlib", "cv2", "pandas", "PIL", "IPython")
AUTOCAST = {
    "tf32": Lower("torch.backends.cudnn.allow_tf32", CUDA),
    "bf16": Lower("torch.autocast"),
    "fp16": Lower("torch.autocast", modes=FORWARD),
}

TORCH = Row(
    "xbench.runtimes.torch:Torch",
    ("torch",),
    "torch",
    "native",
    operators="torch",
    layouts=LAYOUTS,
    lower=AUTOCAST,
    effort={"max cuda": ("benchmark",)},
    events=CUDA,
    layers="",
    options={"benchmark": ON},
    engine=EngineRow(
        "xbench.runtimes.distributed.torch:TorchEngine", "torchrun", "DistributedDataParallel by torchrun, gloo"
    ),
    scripts="xbench.runtimes.scripts.torch",
    preload=("torch", "xbench.runtimes.torch"),
)


def _original(name: str, autodiff: str | None = "native", keeps: bool = False) -> Row:
    """A framework of an old study, in its environment."""
    entry, package = f"xbench.runtimes.{name}:make", RECIPES[name].package
    return Row(entry, (package,), name, autodiff, keeps=keeps, environment=name, named=True, options={})


RUNTIMES: dict[str, Row] = {
    "torch": TORCH,
    "torch_compile": replace(
        TORCH,
        entry="xbench.runtimes.torch_compile:torch_compile",
        effort={"off": ("backend=aot_eager",), "max": ("mode=default", "mode=max-autotune")},
        keeps=True,
        layers=None,
        options={"mode": ANY, "backend": ANY},
        engine=None,
        scripts="xbench.runtimes.scripts.torch_compile",
        preload=("torch", "torch._inductor.compile_fx", "xbench.runtimes.torch_compile"),
    ),
    "onnxruntime": Row(
        "xbench.runtimes.onnxruntime:make",
        ("onnxruntime", "onnxruntime-gpu"),
        "onnxruntime",
        "graph",
        reads_onnx=True,
        lower={
            "tf32": Lower("use_tf32 of its CUDA provider", CUDA),
            "fp16": Lower("onnxruntime.transformers.float16", modes=FORWARD),
            "int8": Lower("onnxruntime.quantization", CPU, FORWARD),
        },
        effort={
            "off": ("level=disable",),
            "max": ("level=all", "level=extended", "level=basic"),
            "max open": ("level=all", "level=extended", "level=basic", "level=all,shapes=fixed"),
            "max cuda": ("level=all", "level=extended", "provider=tensorrt"),
        },
        ours=("onnx",),
        layers="profile",
        options={"level": ANY, "shapes": ("fixed", "open"), "provider": ANY, "profile": ON},
        scripts="xbench.runtimes.scripts.onnxruntime",
    ),
    "openvino": Row(
        "xbench.runtimes.openvino:make",
        ("openvino",),
        "openvino",
        "graph",
        reads_onnx=True,
        lower=dict.fromkeys(("bf16", "fp16"), Lower("INFERENCE_PRECISION_HINT", CPU)),
        # A user's file is compiled as it is; its own graphs are for one size.
        effort={
            "max": ("hint=latency", "hint=throughput"),
            "max open": tuple(f"shapes={s},hint={h}" for s in ("open", "fixed") for h in ("latency", "throughput")),
            **dict.fromkeys(("default open", "off open"), ("shapes=open",)),
        },
        ours=("onnx",),
        layers="profile",
        options={"hint": ANY, "shapes": ("fixed", "open"), "profile": ON},
        scripts="xbench.runtimes.scripts.openvino",
    ),
    "tensorflow": Row(
        "xbench.runtimes.tensorflow:TensorFlow",
        ("tensorflow", "tensorflow-cpu"),
        "tensorflow",
        "native",
        operators="tensorflow",
        layouts=LAYOUTS,
        lower={
            "tf32": Lower("enable_tensor_float_32_execution", CUDA),
            "bf16": Lower("auto_mixed_precision_onednn_bfloat16", CPU),
            "fp16": Lower("auto_mixed_precision", modes=FORWARD),
        },
        effort={"off": ("grappler=off",), "max": ("", "xla")},
        options={"grappler": ("off",), "xla": ON},
        engine=EngineRow(
            "xbench.runtimes.distributed.tensorflow:TensorFlowEngine",
            "tf_config",
            "MultiWorkerMirroredStrategy by TF_CONFIG, ring over gRPC",
        ),
        scripts="xbench.runtimes.scripts.tensorflow",
        preload=("tensorflow", "xbench.runtimes.tensorflow"),
        without=("jax", "scipy", *BESIDE_KERAS),
    ),
    "jax": Row(
        "xbench.runtimes.jax:Jax",
        ("jax",),
        "jax",
        "native",
        operators="jax",
        layouts=LAYOUTS,
        lower={
            "tf32": Lower("jax_default_matmul_precision", CUDA),  # on a CPU it has no effect
            "bf16": Lower("jax_default_matmul_precision", CUDA),
            "fp16": Lower("jax_default_matmul_precision", CUDA, FORWARD),
        },
        effort={"off": ("optimize=off",)},
        options={"optimize": ("off",)},
        engine=EngineRow(
            "xbench.runtimes.distributed.jax:JaxEngine", "coordinator", "jax.distributed, shard_map with pmean, gloo"
        ),
        scripts="xbench.runtimes.scripts.jax",
        preload=("jax", "xbench.runtimes.jax"),
    ),
    "tvm": Row(
        "xbench.runtimes.tvm:make",
        ("apache-tvm",),
        "tvm",
        "graph",
        note="untuned",
        on_request=("gradient", "step"),
        effort={"max": ("tune={seconds:g}",)},
        options={"tune": ANY},
        scripts="xbench.runtimes.scripts.tvm",
        preload=("tvm", "xbench.runtimes.tvm"),
        without=("torch",),
        ours=("onnxscript.optimizer",),
    ),
    "keras": Row(
        "xbench.runtimes.keras:make",
        ("keras",),
        "tensorflow",
        "native",
        named=True,
        options={"backend": ANY},
        without=BESIDE_KERAS,
    ),
    "opencv": Row(
        "xbench.runtimes.opencv:OpenCV",
        ("opencv-python-headless", "opencv-python", "opencv-contrib-python-headless", "opencv-contrib-python"),
        "opencv",
        named=True,
        reads_onnx=True,
        ours=("onnx",),
        options={"engine": ("auto", "new", "classic")},
        scripts="xbench.runtimes.scripts.opencv",
        preload=("cv2", "xbench.runtimes.opencv"),
    ),
    "tract": Row(
        "xbench.runtimes.tract:Tract",
        ("tract",),
        "tract",
        note="one thread",
        named=True,
        reads_onnx=True,
        ours=("onnx",),
        options={},
        scripts="xbench.runtimes.scripts.tract",
        preload=("tract", "xbench.runtimes.tract"),
    ),
    "mnn": Row(
        "xbench.runtimes.mnn:MNN",
        ("MNN",),
        "mnn",
        named=True,
        reads_onnx=True,
        ours=("onnx",),
        options={"winograd": ("0", "1", "2", "3")},
        scripts="xbench.runtimes.scripts.mnn",
        preload=("MNN.expr", "xbench.runtimes.mnn"),
    ),
    "mxnet": _original("mxnet"),
    "chainer": _original("chainer"),
    "theano": _original("theano", keeps=True),
    "cntk": _original("cntk"),
    "caffe2": _original("caffe2", None),
    "null": Row("xbench.runtimes.null:Null", ("onnx",), "torch", note="test", hidden=True),
}
