"""The table of xbench's own runtimes."""

from dataclasses import replace

from xbench.converters.artifact import TEXTS
from xbench.runtimes._environments import RECIPES
from xbench.runtimes.support.row import EngineRow, Lower, Row

# The runtime that takes a given time, to test xbench itself, has its result before the clock starts. That is no field
# of a row, because plug-ins write rows.
UNCLOCKED = ("null",)
LAYOUTS = tuple(TEXTS)  # of an image: ONNX's, and channels last
CPU, CUDA, FORWARD = ("cpu",), ("cuda",), ("forward",)
COPIES = "copies inputs"  # the note on one that does so in every call
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
        lower=AUTOCAST | {"int8": Lower("torchao.quantization.pt2e", CPU, FORWARD, ("torchao",))},
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
            "fp16": Lower("onnxruntime.transformers.float16", modes=FORWARD, widens=True),
            "int8": Lower("onnxruntime.quantization", CPU, FORWARD, widens=True),
            "int4": Lower("onnxruntime.quantization.matmul_nbits_quantizer", CPU, FORWARD, widens=True),
        },
        effort={
            "off": ("level=disable",),
            "max": ("level=all", "level=extended", "level=basic"),
            "max open": ("level=all", "level=extended", "level=basic", "level=all,shapes=fixed"),
            "max cuda": ("level=all", "level=extended", "provider=tensorrt"),
        },
        ours=("onnx",),
        layers="profile",
        options={"level": ANY, "shapes": ("fixed", "open"), "provider": ANY, "profile": ON, "wide": ANY},
        scripts="xbench.runtimes.scripts.onnxruntime",
    ),
    "openvino": Row(
        "xbench.runtimes.openvino:make",
        ("openvino",),
        "openvino",
        "graph",
        reads_onnx=True,
        lower={
            **dict.fromkeys(("bf16", "fp16"), Lower("INFERENCE_PRECISION_HINT", CPU)),
            "int8": Lower("nncf.quantize", CPU, FORWARD, ("nncf",), widens=True),
            "int4": Lower("nncf.compress_weights", CPU, FORWARD, ("nncf",), widens=True),
        },
        # A user's file is compiled as it is; its own graphs are for one size.
        effort={
            "max": ("hint=latency", "hint=throughput"),
            "max open": tuple(f"shapes={s},hint={h}" for s in ("open", "fixed") for h in ("latency", "throughput")),
            **dict.fromkeys(("default open", "off open"), ("shapes=open",)),
        },
        ours=("onnx",),
        layers="profile",
        options={"hint": ANY, "shapes": ("fixed", "open"), "profile": ON, "wide": ANY},
        without=("openvino_telemetry",),  # with it every import reports itself over the network
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
        note=COPIES,
        named=True,
        reads_onnx=True,
        ours=("onnx",),
        options={"engine": ("auto", "new", "classic")},
        scripts="xbench.runtimes.scripts.opencv",
        copies=True,
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
    ),
    "torch_export": Row(
        "xbench.runtimes.torch_export:TorchExport",
        ("torch",),
        "torch",
        operators="torch",
        named=True,
        options={},
        scripts="xbench.runtimes.scripts.torch_export",
        preload=("torch", "torch._inductor.compile_fx", "xbench.runtimes.torch_export"),
    ),
    "torchscript": Row(
        "xbench.runtimes.torch_export:TorchScript",
        ("torch",),
        "torch",
        operators="torch",
        named=True,
        options={},
        scripts="xbench.runtimes.scripts.torchscript",
        preload=("torch", "xbench.runtimes.torch_export"),
    ),
    "litert": Row(
        "xbench.runtimes.litert:LiteRT",
        ("ai-edge-litert",),
        "litert",
        note=COPIES,
        operators="tensorflow",
        lower={"int8": Lower("tf.lite.Optimize.DEFAULT", CPU, FORWARD, ("tensorflow", "tensorflow-cpu"))},
        named=True,
        ours=("tensorflow",),
        options={},
        scripts="xbench.runtimes.scripts.litert",
        copies=True,
        preload=("tensorflow", "xbench.runtimes.litert"),
        without=("jax", "scipy", *BESIDE_KERAS),
    ),
    "mxnet": _original("mxnet"),
    "chainer": _original("chainer"),
    "theano": _original("theano", keeps=True),
    "cntk": _original("cntk"),
    "caffe2": _original("caffe2", None),
    "null": Row("xbench.runtimes.null:Null", ("onnx",), "torch", note="test", hidden=True),
}
