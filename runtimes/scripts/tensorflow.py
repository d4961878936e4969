"""TensorFlow without xbench."""

from collections.abc import Mapping
from string import Template

from xbench.runtimes.scripts import Form

FORWARD = """
def run_tensorflow(given):
    import subgraph_tensorflow as network
    import tensorflow as tf

    params, state = network.load()
    call = tf.function(lambda *inputs: network.apply(params, state, *inputs)[0], autograph=False$xla)
    inputs = [tf.constant(given[name]) for name in INPUTS]
    return dict(zip(OUTPUTS, measured(lambda: call(*inputs))))
"""
GRADIENT = """
def run_tensorflow(given):
    import subgraph_tensorflow as network
    import tensorflow as tf

    params, state = network.load()

    @tf.function(autograph=False$xla)
    def gradients(*inputs):
        with tf.GradientTape() as tape:
            outputs, _ = network.apply(params, state, *inputs, training=True)
            loss = network.loss(outputs, tf.constant(given[LABELS]))
        return loss, tape.gradient(loss, params, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    loss, grads = gradients(*(tf.constant(given[name]) for name in INPUTS))
    grads = {name: tf.convert_to_tensor(each) for name, each in grads.items()}
    return {"loss": [loss], **getattr(network, "in_onnx_order", dict)(grads)}
"""
DEPLOY = """tf.config.threading.set_intra_op_parallelism_threads($threads)
tf.config.threading.set_inter_op_parallelism_threads($threads)
${grappler}model = tf.saved_model.load(str(HERE / "saved_model"))
call = tf.function(model.forward, autograph=False, jit_compile=$xla)
answer = call.get_concrete_function(*(tf.TensorSpec(x.shape, x.dtype) for x in inputs))(*map(tf.constant, inputs))
outputs = [answer[name] for name in $outputs]"""
GRAPPLER_OFF = 'tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})\n'


def reproduce(mode: str, options: Mapping[str, str], device: str) -> str:
    text = GRADIENT if mode == "gradient" else FORWARD
    return Template(text).substitute(xla=", jit_compile=True" if "xla" in options else "")


def deploy(options: Mapping[str, str]) -> Form:
    words = {"grappler": GRAPPLER_OFF if options.get("grappler") == "off" else "", "xla": str("xla" in options or None)}
    environment = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    packages = (("tensorflow-cpu", "tensorflow"), ("numpy",))
    return Form(packages, "import tensorflow as tf", DEPLOY, words, environment, (".py", ".safetensors"), each=2)
