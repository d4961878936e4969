"""The text of the script that runs a part of a model without xbench (`reproduce.py`), one function a runtime.

A function takes the inputs by name and returns what it computed by name. Words in capitals are replaced: THREADS,
GRAPH, PROVIDERS and XLA by what the runtime was told. All that is put in is a literal, or text of a docstring, by
`converters/printable.py`.
"""

SCRIPT = '''"""{title}

Written by xbench, which it does not need; it needs numpy and the runtimes below. Exit code 1 while the difference is
there, else 0.
"""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
INPUTS = {inputs}
OUTPUTS = {outputs}
LIMIT = {limit}  # noise floors; float32 that adds in another order stays below


def arrays(name):
    with np.load(HERE / name) as file:
        return {{key: file[f"{{key}}.npy"] for key in file.files}}


{functions}

RUNS = [
{rows}]


def errors(found, expected, noise):
    """The largest error, and the worse of the L2 norm and the largest error in noise floors."""
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    if found.size == expected.size == 1:
        found = found.reshape(expected.shape)
    if found.shape != expected.shape:
        return np.inf, np.inf
    with np.errstate(invalid="ignore"):
        off = np.where(found == expected, 0.0, np.abs(found - expected))
    off[~np.isfinite(off)] = np.inf
    sizes = np.linalg.norm(off), off.max(initial=0.0)
    return sizes[1], max(0.0 if not e else np.inf if not n else e / n for e, n in zip(sizes, noise))


def main():
    given, expected = arrays("inputs.npz"), arrays("expected.npz")
    worst = 0.0
    for runtime, run in RUNS:
        try:
            found = run(given)
        except Exception as error:
            print(f"{{runtime}}: {{error!a}}")
            worst = np.inf
            continue
        for name in (name for name in expected if not name.startswith("noise/")):
            value = found.get(name, found.get("gradient." + name, np.zeros_like(expected[name])))
            largest, floors = errors(value, expected[name], expected["noise/" + name])
            of = np.abs(expected[name]).max(initial=0.0)
            shown = ascii(name)[1:-1]
            print(f"{{runtime}} {{shown}}: largest error {{largest:.3g}} of {{of:.3g}}, {{floors:.1f}} noise floors")
            worst = max(worst, floors)
    print(f"{{worst:.1f}} noise floors: " + ("the difference is there" if worst > LIMIT else "no difference"))
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
'''

RECORDED = '''
def recorded_LETTER(given):
    """What WORD gave; it cannot be run from here."""
    return arrays("LETTER.npz")
'''

FAILED = '''
def failed_LETTER(given):
    """What WORD gave is nothing; it cannot be run from here."""
    return {name: np.full_like(a, np.nan) for name, a in arrays("expected.npz").items()}
'''

# Runtimes that read ONNX.
READERS = {
    "onnx.reference": """
def run_reference(given):
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(str(HERE / GRAPH))
    return dict(zip(evaluator.output_names, evaluator.run(None, given)))
""",
    "onnxruntime": """
def run_onnxruntime(given):
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads = THREADS, 1
    session = onnxruntime.InferenceSession(str(HERE / GRAPH), settings, providers=PROVIDERS)
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(names, {each.name: given[each.name] for each in session.get_inputs()})))
""",
    "openvino": """
def run_openvino(given):
    import openvino

    core = openvino.Core()
    model = core.read_model(HERE / GRAPH)
    told = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": THREADS}
    told["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 0  # else activations are quantised where weights are
    request = core.compile_model(model, "CPU", told).create_infer_request()
    found = request.infer({each.any_name: given[each.any_name] for each in model.inputs})
    return {name: value for output, value in found.items() for name in output.get_names()}
""",
    "tvm": """
def run_tvm(given):
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    model = onnx.load(HERE / GRAPH)
    module = relax.transform.DecomposeOpsForInference()(from_onnx(model))
    main = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())["main"]
    found = main(*(tvm.runtime.tensor(given[each.name]) for each in model.graph.input))
    found = [found] if isinstance(found, tvm.runtime.Tensor) else found
    return {each.name: value.numpy() for each, value in zip(model.graph.output, found)}
""",
}

TORCH = """
def run_RUNTIME(given):
    import subgraph_torch as network
    import torch

    torch.set_num_threads(THREADS)
    params, state = network.load()
    call = COMPILE(lambda *inputs: network.apply(params, state, *inputs)[0])
    with torch.no_grad():
        found = call(*(torch.from_numpy(given[name]) for name in INPUTS))
    return dict(zip(OUTPUTS, found))
"""

TORCH_GRADIENT = """
def run_RUNTIME(given):
    import subgraph_torch as network
    import torch

    torch.set_num_threads(THREADS)
    params, state = network.load()
    call = COMPILE(lambda *inputs: network.apply(params, state, *inputs, training=True)[0])
    outputs = call(*(torch.from_numpy(given[name]) for name in INPUTS))
    loss = network.loss(outputs, torch.from_numpy(given["labels"]))
    loss.backward()
    return {"loss": [loss.item()]} | {name: p.grad for name, p in params.items() if p.grad is not None}
"""

JAX = """
def run_jax(given):
    import jax
    import subgraph_jax as network

    jax.config.update("jax_default_matmul_precision", "highest")
    params, state = network.load()
    call = jax.jit(lambda params, state, *inputs: network.apply(params, state, *inputs)[0])
    return dict(zip(OUTPUTS, call(params, state, *(given[name] for name in INPUTS))))
"""

JAX_GRADIENT = """
def run_jax(given):
    import jax
    import subgraph_jax as network

    jax.config.update("jax_default_matmul_precision", "highest")
    params, state = network.load()

    def loss(params):
        outputs, _ = network.apply(params, state, *(given[name] for name in INPUTS), training=True)
        return network.loss(outputs, given["labels"])

    value, grads = jax.jit(jax.value_and_grad(loss))(params)
    return {"loss": [value], **getattr(network, "in_onnx_order", dict)(grads)}
"""

TENSORFLOW = """
def run_tensorflow(given):
    import subgraph_tensorflow as network
    import tensorflow as tf

    params, state = network.load()
    call = tf.function(lambda *inputs: network.apply(params, state, *inputs)[0], autograph=FalseXLA)
    return dict(zip(OUTPUTS, call(*(tf.constant(given[name]) for name in INPUTS))))
"""

TENSORFLOW_GRADIENT = """
def run_tensorflow(given):
    import subgraph_tensorflow as network
    import tensorflow as tf

    params, state = network.load()

    @tf.function(autograph=FalseXLA)
    def gradients(*inputs):
        with tf.GradientTape() as tape:
            outputs, _ = network.apply(params, state, *inputs, training=True)
            loss = network.loss(outputs, tf.constant(given["labels"]))
        return loss, tape.gradient(loss, params, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    loss, grads = gradients(*(tf.constant(given[name]) for name in INPUTS))
    grads = {name: tf.convert_to_tensor(each) for name, each in grads.items()}
    return {"loss": [loss], **getattr(network, "in_onnx_order", dict)(grads)}
"""

# Runtimes that run the text: forward, and trained.
FRAMEWORKS = {
    **{
        name: tuple(
            text.replace("RUNTIME", name).replace("COMPILE(", f"{wrapped}(") for text in (TORCH, TORCH_GRADIENT)
        )
        for name, wrapped in {"torch": "", "torch_compile": "torch.compile"}.items()
    },
    "jax": (JAX, JAX_GRADIENT),
    "tensorflow": (TENSORFLOW, TENSORFLOW_GRADIENT),
}
