"""The network of examples/digits.py by each runtime's own API, without xbench: what a user would write.

python plain_scripts.py RUNTIME FOLDER  prints {precision: share of right answers} for digits.onnx and digits.npz, of
the images that are not for calibration: every eighth is, up to 128.
"""

import json
import sys

import numpy as np

BATCH, SHAPE = 16, (16, 1, 8, 8)
FILE, DATA = "digits.onnx", "digits.npz"


def batches(images):
    return [images[first : first + BATCH] for first in range(0, len(images), BATCH)]


def weights():
    import onnx

    return {each.name: onnx.numpy_helper.to_array(each) for each in onnx.load(FILE).graph.initializer}


def fixed():
    """The file with a batch of 16, for runtimes that take one size."""
    import onnx

    model = onnx.load(FILE)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = BATCH
    del model.graph.value_info[:]
    onnx.save(model, "fixed.onnx")
    return "fixed.onnx"


def padded(run):
    """A function of 16 images as one of fewer, too."""

    def called(images):
        filled = np.zeros(SHAPE, np.float32)
        filled[: len(images)] = images
        return run(filled)[: len(images)]

    return called


# ***** PyTorch *****


def module():
    import torch
    from torch import nn

    layers = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    net.load_state_dict({n: torch.tensor(a) for n, a in weights().items() if not n.startswith("val_")})
    return net.eval()


def torch_call(net, dtype=None):
    import torch

    def run(images):
        with torch.no_grad(), torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None):
            return net(torch.tensor(images)).float().numpy()

    return run


def torch_(ranges):
    import torch

    net = module()
    halves = {"bf16": torch.bfloat16, "fp16": torch.float16}
    return {"fp32": torch_call(net), **{name: torch_call(net, dtype) for name, dtype in halves.items()}}


def torch_compile(ranges):
    import torch
    import torch._inductor.config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    net = module()
    exported = torch.export.export(net, (torch.zeros(SHAPE),), strict=True).module()
    settings = x86.get_default_x86_inductor_quantization_config(reduce_range=True)
    prepared = prepare_pt2e(exported, x86.X86InductorQuantizer().set_global(settings))
    for each in batches(ranges):
        prepared(torch.tensor(each))
    torch._inductor.config.freezing = True
    small = torch.compile(convert_pt2e(prepared))
    halves = {"bf16": torch.bfloat16, "fp16": torch.float16}
    made = {name: torch_call(torch.compile(net), dtype) for name, dtype in halves.items()}
    return {"fp32": torch_call(torch.compile(net)), "int8": padded(torch_call(small)), **made}


def torch_export(ranges):
    import torch

    program = torch.export.export(module(), (torch.zeros(SHAPE),))
    package = torch._inductor.aoti_compile_and_package(program, package_path="digits.pt2")
    return {"fp32": padded(torch_call(torch._inductor.aoti_load_package(package)))}


def torchscript(ranges):
    import torch

    return {"fp32": torch_call(torch.jit.freeze(torch.jit.trace(module(), torch.zeros(SHAPE))))}


# ***** those that read the file *****


def onnxruntime(ranges):
    import onnx
    import onnxruntime as ort
    from onnxruntime import quantization
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
    from onnxruntime.quantization.onnx_model import ONNXModel
    from onnxruntime.transformers.float16 import convert_float_to_float16

    class Images(quantization.CalibrationDataReader):
        def __init__(self):
            self.left = batches(ranges)

        def get_next(self):
            return {"image": self.left.pop(0)} if self.left else None

    onnx.save(convert_float_to_float16(onnx.load(FILE), keep_io_types=True), "half.onnx")
    quantization.quant_pre_process(FILE, "ready.onnx", skip_symbolic_shape=True)
    settings = {"per_channel": True, "reduce_range": True, "activation_type": quantization.QuantType.QUInt8}
    quantization.quantize_static("ready.onnx", "int8.onnx", Images(), **settings)
    products = ONNXModel(onnx.load(FILE))
    products.replace_gemm_with_matmul()
    tiny = MatMulNBitsQuantizer(products.model, block_size=32)
    tiny.process()
    onnx.save(tiny.model.model, "int4.onnx")

    def call(file):
        session = ort.InferenceSession(file)
        return lambda images: session.run(None, {"image": images})[0]

    files = {"fp32": FILE, "fp16": "half.onnx", "int8": "int8.onnx", "int4": "int4.onnx"}
    return {precision: call(file) for precision, file in files.items()}


def openvino(ranges):
    import os

    os.environ["NNCF_CI"] = "1"
    import nncf
    import openvino as ov

    core, model = ov.Core(), ov.convert_model(FILE)
    small = nncf.quantize(model, nncf.Dataset([{0: each} for each in batches(ranges)]), subset_size=7)
    adjusted = nncf.AdvancedCompressionParameters(group_size_fallback_mode=nncf.GroupSizeFallbackMode.ADJUST)
    tiny = nncf.compress_weights(model.clone(), mode=nncf.CompressWeightsMode.INT4_ASYM, advanced_parameters=adjusted)

    def call(model, hint):
        how = {"INFERENCE_PRECISION_HINT": hint, "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
        compiled = core.compile_model(model, "CPU", how)
        return lambda images: compiled(images)[0]

    made = {"fp32": call(model, "f32"), "int8": call(small, "f32"), "int4": call(tiny, "f32")}
    return {**made, "bf16": call(model, "bf16"), "fp16": call(model, "f16")}


def opencv(ranges):
    import cv2

    net = cv2.dnn.readNetFromONNX(FILE)

    def run(images):
        net.setInput(images, "image")
        return np.array(net.forward())

    return {"fp32": run}


def tract(ranges):
    import tract as engine

    runnable = engine.onnx().load(fixed()).into_model().into_runnable()
    return {"fp32": padded(lambda images: runnable.run([images])[0].to_numpy())}


def mnn(ranges):
    import _tools
    from MNN import expr, nn

    words = ["mnnconvert", "-f", "ONNX", "--modelFile", fixed(), "--MNNModel", "digits.mnn", "--bizCode", "x"]
    _tools.mnnconvert(words)
    net = nn.load_module_from_file("digits.mnn", ["image"], ["score"])

    def run(images):
        given = expr.const(images, SHAPE, expr.NCHW)
        return np.array(expr.convert(net.forward([given])[0], expr.NCHW).read())

    return {"fp32": padded(run)}


def tvm(ranges):
    import onnx
    import tvm as compiler
    from tvm import relax, runtime
    from tvm.relax.frontend.onnx import from_onnx

    module = from_onnx(onnx.load(fixed()))
    machine = relax.VirtualMachine(relax.build(module, target="llvm"), compiler.cpu())

    def run(images):
        made = machine["main"](runtime.tensor(images))
        return (made if hasattr(made, "numpy") else made[0]).numpy()

    return {"fp32": padded(run)}


# ***** TensorFlow, Keras, JAX: written out *****


def network_of_tensorflow():
    import tensorflow as tf

    w = weights()

    def kernel(name):
        return w[name].transpose(2, 3, 1, 0)

    @tf.function(input_signature=[tf.TensorSpec((None, 1, 8, 8), tf.float32)])
    def net(images):
        x = tf.transpose(images, (0, 2, 3, 1))
        x = tf.nn.relu(tf.nn.conv2d(x, kernel("0.weight"), 1, "SAME") + w["0.bias"])
        x = tf.nn.max_pool2d(x, 2, 2, "VALID")
        x = tf.nn.relu(tf.nn.conv2d(x, kernel("3.weight"), 1, "VALID") + w["3.bias"])
        x = tf.reshape(tf.transpose(x, (0, 3, 1, 2)), (-1, 128))
        x = tf.nn.relu(x @ w["6.weight"].T + w["6.bias"])
        return x @ w["8.weight"].T + w["8.bias"]

    return net


def tensorflow(ranges):
    import tensorflow as tf

    def call(options):
        def run(images):
            tf.config.optimizer.set_experimental_options(options)
            return net(images).numpy()

        net = network_of_tensorflow()
        return run

    word = "auto_mixed_precision_onednn_bfloat16"
    return {"fp32": call({word: False}), "bf16": call({word: True})}


def litert(ranges):
    import tensorflow as tf
    from ai_edge_litert.interpreter import Interpreter

    net = network_of_tensorflow()

    def call(data):
        concrete = tf.function(net.python_function).get_concrete_function(tf.TensorSpec(SHAPE, tf.float32))
        converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete])
        if data is not None:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = lambda: ([each] for each in data)
        interpreter = Interpreter(model_content=converter.convert())
        interpreter.allocate_tensors()
        (given,), (made,) = interpreter.get_input_details(), interpreter.get_output_details()

        def run(images):
            interpreter.set_tensor(given["index"], images)
            interpreter.invoke()
            return interpreter.get_tensor(made["index"])

        return padded(run)

    return {"fp32": call(None), "int8": call(batches(ranges))}


def keras(ranges):
    from keras import Sequential, layers

    w = weights()
    net = Sequential([
        layers.Input((1, 8, 8)), layers.Permute((2, 3, 1)),
        layers.Conv2D(16, 3, padding="same", activation="relu"), layers.MaxPooling2D(2),
        layers.Conv2D(32, 3, activation="relu"), layers.Permute((3, 1, 2)), layers.Flatten(),
        layers.Dense(64, "relu"), layers.Dense(10),
    ])  # fmt: skip
    arrays = [w["0.weight"].transpose(2, 3, 1, 0), w["0.bias"], w["3.weight"].transpose(2, 3, 1, 0), w["3.bias"]]
    net.set_weights([*arrays, w["6.weight"].T, w["6.bias"], w["8.weight"].T, w["8.bias"]])
    return {"fp32": lambda images: np.asarray(net(images))}


def jax(ranges):
    import jax.numpy as jnp
    from jax import jit, lax

    w = weights()

    def conv(x, name, padding):
        return lax.conv_general_dilated(x, w[f"{name}.weight"], (1, 1), padding) + w[f"{name}.bias"][:, None, None]

    @jit
    def net(x):
        x = jnp.maximum(conv(x, "0", "SAME"), 0)
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        x = jnp.maximum(conv(x, "3", "VALID"), 0).reshape(len(x), -1)
        x = jnp.maximum(x @ w["6.weight"].T + w["6.bias"], 0)
        return x @ w["8.weight"].T + w["8.bias"]

    return {"fp32": lambda images: np.asarray(net(images))}


SCRIPTS = {"torch": torch_} | {
    each.__name__: each
    for each in (torch_compile, torch_export, torchscript, onnxruntime, openvino, opencv, tract, mnn, tvm, tensorflow)
    + (litert, keras, jax)
}


def main(runtime, folder):
    import os

    os.chdir(folder)
    data = np.load(DATA)
    images, labels = data["image"].astype(np.float32), data["label"]
    aside = np.zeros(len(images), bool)
    aside[7 : 8 * 128 : 8] = True
    shares = {}
    for precision, run in SCRIPTS[runtime](images[aside]).items():
        answers = np.concatenate([run(each) for each in batches(images[~aside])]).argmax(1)
        shares[precision] = float(np.mean(answers == labels[~aside]))
    print(json.dumps(shares))


if __name__ == "__main__":
    main(*sys.argv[1:])
