"""JAX without xbench."""

from collections.abc import Mapping

from xbench.runtimes.scripts import Form

FORWARD = """
def run_jax(given):
    import jax
    import subgraph_jax as network

    jax.config.update("jax_default_matmul_precision", "highest")
    params, state = network.load()
    call = jax.jit(lambda params, state, *inputs: network.apply(params, state, *inputs)[0])
    inputs = [given[name] for name in INPUTS]
    return dict(zip(OUTPUTS, measured(lambda: jax.block_until_ready(call(params, state, *inputs)))))
"""
GRADIENT = """
def run_jax(given):
    import jax
    import subgraph_jax as network

    jax.config.update("jax_default_matmul_precision", "highest")
    params, state = network.load()

    def loss(params):
        outputs, _ = network.apply(params, state, *(given[name] for name in INPUTS), training=True)
        return network.loss(outputs, given[LABELS])

    value, grads = jax.jit(jax.value_and_grad(loss))(params)
    return {"loss": [value], **getattr(network, "in_onnx_order", dict)(grads)}
"""
DEPLOY = """jax.config.update("jax_default_matmul_precision", "highest")
${optimize}model = runpy.run_path(str(HERE / "$name.py"))
params, state = model["load"]()
forward = jax.jit(lambda *arrays: model["apply"](*arrays)[0]).lower(params, state, *inputs).compile()
outputs = forward(params, state, *map(jax.numpy.asarray, inputs))"""
OPTIMIZE_OFF = 'jax.config.update("jax_disable_most_optimizations", True)\n'


def reproduce(mode: str, options: Mapping[str, str], device: str) -> str:
    return GRADIENT if mode == "gradient" else FORWARD


def deploy(options: Mapping[str, str]) -> Form:
    words = {"optimize": OPTIMIZE_OFF if options.get("optimize") == "off" else ""}
    packages = (("jax",), ("jaxlib",), ("numpy",), ("safetensors",))
    return Form(packages, "import runpy, jax", DEPLOY, words, {"JAX_PLATFORMS": "cpu"}, each=1)
