"""The text of `run.py` in a deployment folder: how each runtime loads and runs its own form without xbench, told what
it was told while it was measured."""

from collections.abc import Mapping, Sequence
from string import Template
from typing import NamedTuple

from xbench.case import Case
from xbench.converters.printable import docstring, file_name, python
from xbench.errors import XBenchError
from xbench.runtimes import parse

SCRIPT = '''"""$title. Needs no xbench."""
import os
import sys
from pathlib import Path

os.environ |= $environment
hasattr(os, "sched_setaffinity") and os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:$threads])
import numpy as np
$imports

HERE, DATA, ALLOWED = Path(__file__).parent, np.load(Path(__file__).parent / "expected.npz"), $allowed
inputs, expected = ([DATA[f"{n}.npy"] for n in DATA.files if n.startswith(kind)] for kind in ("input/", "output/"))
$lines
pairs = [(np.asarray(y), w) for y, w in zip(outputs, expected, strict=True)]
off = [np.linalg.norm(np.float64(y) - w) / np.linalg.norm(w) if y.shape == w.shape else np.inf for y, w in pairs]
print("outputs", [y.shape for y, _ in pairs], "relative errors", [float(f"{e:.2g}") for e in off], "allowed", ALLOWED)
sys.exit(not all(error <= most for error, most in zip(off, ALLOWED, strict=True)))
'''


class Form(NamedTuple):
    """How a runtime's own form is run: the packages it takes, each by one of its names, what it imports, the lines that
    make `outputs` of `inputs`, the words in them, what the environment says, and files of the form it does not need."""

    packages: Sequence[tuple[str, ...]]
    imports: str
    lines: str
    words: Mapping[str, str]
    environment: Mapping[str, str] = {}
    needless: tuple[str, ...] = ()


ONNXRUNTIME = """options = onnxruntime.SessionOptions()
options.intra_op_num_threads, options.inter_op_num_threads = $threads, 1
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_$level
session = onnxruntime.InferenceSession(HERE / "$name.onnx", options, providers=["CPUExecutionProvider"])
outputs = session.run($outputs, dict(zip($inputs, inputs)))"""
LEVELS = {"disable": "DISABLE_ALL", "basic": "ENABLE_BASIC", "extended": "ENABLE_EXTENDED", "all": "ENABLE_ALL"}

OPENVINO = """core, given = openvino.Core(), dict(zip($inputs, inputs))
model = core.read_model(HERE / "$name.xml")
model.reshape({name: list(array.shape) for name, array in given.items()})
told = {"PERFORMANCE_HINT": $hint, "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": $threads}
told["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 0  # else activations are quantised where weights are
answer = core.compile_model(model, "CPU", told)(given)
outputs = [answer[place] for place in range(len(answer))]"""

TENSORFLOW = """tf.config.threading.set_intra_op_parallelism_threads($threads)
tf.config.threading.set_inter_op_parallelism_threads($threads)
${grappler}model = tf.saved_model.load(str(HERE / "saved_model"))
call = tf.function(model.forward, autograph=False, jit_compile=$xla)
answer = call.get_concrete_function(*(tf.TensorSpec(x.shape, x.dtype) for x in inputs))(*map(tf.constant, inputs))
outputs = [answer[name] for name in $outputs]"""
GRAPPLER_OFF = 'tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})\n'

JAX = """jax.config.update("jax_default_matmul_precision", "highest")
${optimize}model, given = runpy.run_path(str(HERE / "$name.py")), [jax.numpy.asarray(x) for x in inputs]
params, state = model["load"]()
forward = jax.jit(lambda *arrays: model["apply"](*arrays)[0]).lower(params, state, *given).compile()
outputs = forward(params, state, *given)"""
OPTIMIZE_OFF = 'jax.config.update("jax_disable_most_optimizations", True)\n'

TORCH = """torch.set_num_threads($threads)
model = runpy.run_path(str(HERE / "$name.py"))
params, state = model["load"]()
${compiled}with torch.inference_mode():
    outputs = model["apply"](params, state, *map(torch.from_numpy, inputs))[0]"""
COMPILED = 'model["apply"] = torch.compile(model["apply"], dynamic=False, mode={mode}, backend={backend})\n'

TVM = """params = tvm.runtime.load_param_dict_from_file(str(HERE / "$name.params"))
main = tvm.relax.VirtualMachine(tvm.runtime.load_module(str(HERE / "$name.so")), tvm.cpu())["main"]
answer = main(*map(tvm.runtime.tensor, inputs), *(params[f"p{place}"] for place in range(len(params))))
outputs = [y.numpy() for y in ([answer] if isinstance(answer, tvm.runtime.Tensor) else answer)]"""


def form(case: Case) -> Form:
    """How a cell is run; its word says every setting that it was opened with.

    Raises:
        XBenchError: there is no script for it.
    """
    runtime, told = parse(case.runtime)
    if (case.mode, case.device, case.precision) != ("forward", "cpu", "fp32"):
        words = f"mode {case.mode} on {case.device} in {case.precision}"
        raise XBenchError(
            f"{case.runtime} is not deployed: the script is one of forward on the cpu in fp32, not {words}"
        )
    if "python" in told:
        raise XBenchError(f"{case.runtime} is not deployed: its form would be written by this Python, not by that one")
    forms = {
        "onnxruntime": _onnxruntime,
        "openvino": _openvino,
        "tensorflow": _tensorflow,
        "jax": _jax,
        "torch": _torch,
        "torch_compile": _torch_compile,
        "tvm": _tvm,
    }
    if runtime not in forms:
        raise XBenchError(f"{runtime} is not deployed: there is a script of {', '.join(forms)}")
    return forms[runtime](told)


def script(
    case: Case, how: Form, title: str, name: str, names: Mapping[str, list[str]], allowed: Sequence[float]
) -> str:
    """The text of `run.py`. `name` is that of the model's files, `names` those of its `inputs` and `outputs`, `allowed`
    the relative error that each output may have."""
    threads = {"OMP_NUM_THREADS": str(case.threads)}
    lists = {word: python(list(each)) for word, each in names.items()}
    told = {"threads": python(case.threads), "name": file_name(name), **lists}
    return Template(SCRIPT).substitute(
        told,
        title=docstring(title),
        environment=python(threads | dict(how.environment)),
        imports=how.imports,
        allowed=python(tuple(float(f"{each:.2e}") for each in allowed)),
        lines=Template(how.lines).substitute(told, **how.words),
    )


def _onnxruntime(told: Mapping[str, str]) -> Form:
    level = told.get("level", "all")
    if level not in LEVELS:
        raise XBenchError(f"onnxruntime is not deployed: it has no level {level!r}, but {', '.join(LEVELS)}")
    words = {"level": LEVELS[level]}
    return Form((("onnxruntime",), ("numpy",)), "import onnxruntime", ONNXRUNTIME, words)


def _openvino(told: Mapping[str, str]) -> Form:
    words = {"hint": python(told.get("hint", "latency").upper())}
    return Form((("openvino",), ("numpy",)), "import openvino", OPENVINO, words)


def _tensorflow(told: Mapping[str, str]) -> Form:
    words = {"grappler": GRAPPLER_OFF if told.get("grappler") == "off" else "", "xla": str("xla" in told or None)}
    environment = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    packages = (("tensorflow-cpu", "tensorflow"), ("numpy",))
    return Form(packages, "import tensorflow as tf", TENSORFLOW, words, environment, (".py", ".safetensors"))


def _jax(told: Mapping[str, str]) -> Form:
    words = {"optimize": OPTIMIZE_OFF if told.get("optimize") == "off" else ""}
    packages = (("jax",), ("jaxlib",), ("numpy",), ("safetensors",))
    return Form(packages, "import runpy, jax", JAX, words, {"JAX_PLATFORMS": "cpu"})


def _torch(told: Mapping[str, str], compiled: str = "") -> Form:
    packages = (("torch",), ("numpy",), ("safetensors",))
    return Form(packages, "import runpy, torch", TORCH, {"compiled": compiled})


def _torch_compile(told: Mapping[str, str]) -> Form:
    return _torch(told, COMPILED.format(mode=python(told.get("mode")), backend=python(told.get("backend", "inductor"))))


def _tvm(told: Mapping[str, str]) -> Form:
    return Form((("apache-tvm",), ("apache-tvm-ffi",), ("numpy",)), "import tvm, tvm.relax", TVM, {})
