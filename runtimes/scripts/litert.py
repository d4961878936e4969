"""LiteRT without xbench."""

from collections.abc import Mapping

from xbench.runtimes.scripts import Form

REPRODUCE = """
def run_litert(given):
    import subgraph_tensorflow as network
    import tensorflow as tf
    from ai_edge_litert.interpreter import Interpreter

    params, state = network.load()
    inputs = [given[name] for name in INPUTS]
    traced = tf.function(lambda *arrays: [tf.identity(each) for each in network.apply(params, state, *arrays)[0]])
    concrete = traced.get_concrete_function(*(tf.TensorSpec(array.shape, array.dtype) for array in inputs))
    made = tf.lite.TFLiteConverter.from_concrete_functions([concrete]).convert()
    interpreter = Interpreter(model_content=made, num_threads=THREADS)
    interpreter.allocate_tensors()

    def call():
        for each, array in zip(interpreter.get_input_details(), inputs):
            interpreter.set_tensor(each["index"], array)
        interpreter.invoke()

    measured(call)
    found = [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]
    return dict(zip(OUTPUTS, found))
"""
DEPLOY = """interpreter = Interpreter(str(HERE / "$name.tflite"), num_threads=$threads)
interpreter.allocate_tensors()
for each, array in zip(interpreter.get_input_details(), inputs):
    interpreter.set_tensor(each["index"], array)
interpreter.invoke()
outputs = [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]"""


def reproduce(mode: str, options: Mapping[str, str], device: str) -> str:
    return REPRODUCE


def deploy(options: Mapping[str, str]) -> Form:
    imports = "from ai_edge_litert.interpreter import Interpreter"
    return Form((("ai-edge-litert",), ("numpy",)), imports, DEPLOY, {}, each=4, lower={"int8": {}})
