"""What `xbench since` says of releases of ONNX Runtime that others found to be slower.

    python tools/since/reported.py > tools/since/reported.txt

The networks are of one operator, as in the reports: ReduceL1 along the first axis (microsoft/onnxruntime#27093, 24.6 %
slower in 1.21.0 than in 1.20.0), a GRU of one time step (#27188, 7 to 21 %; its sizes are not in the report) and
GridSample (#27155, 7 to 15 % in 1.23.0).
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def tensor(name: str, *shape: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, shape)


def weights(name: str, *shape: int) -> onnx.TensorProto:
    """Small random numbers."""
    return numpy_helper.from_array(np.random.default_rng(0).normal(0, 0.1, shape).astype(np.float32), name)


def reduce_l1() -> onnx.ModelProto:
    axes = numpy_helper.from_array(np.array([0], np.int64), "axes")
    node = helper.make_node("ReduceL1", ["x", "axes"], ["y"], keepdims=1)
    return model([node], [tensor("x", 2, 64, 56, 56)], [tensor("y", 1, 64, 56, 56)], [axes], 18)


def gru() -> onnx.ModelProto:
    """One time step, two samples, as many hidden units as inputs."""
    size = 64
    node = helper.make_node("GRU", ["x", "w", "r"], ["y"], hidden_size=size)
    arrays = [weights("w", 1, 3 * size, size), weights("r", 1, 3 * size, size)]
    return model([node], [tensor("x", 1, 2, size)], [tensor("y", 1, 1, 2, size)], arrays, 21)


def grid_sample() -> onnx.ModelProto:
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode="linear", padding_mode="zeros")
    inputs = [tensor("x", 2, 3, 56, 56), tensor("grid", 2, 56, 56, 2)]
    return model([node], inputs, [tensor("y", 2, 3, 56, 56)], [], 21)


def model(nodes: list, inputs: list, outputs: list, arrays: list, opset: int) -> onnx.ModelProto:
    """A network of one operator."""
    graph = helper.make_graph(nodes, "network", inputs, outputs, arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


CASES = [
    (reduce_l1, ["--from", "1.20.0", "--to", "1.22"]),
    (reduce_l1, ["--from", "1.20.0", "--to", "1.22", "--range", "x=0:1.7"]),
    (gru, ["--from", "1.20.0", "--to", "1.22", "--slower", "5%"]),
    (grid_sample, ["--from", "1.22.0", "--to", "1.24", "--slower", "5%"]),
]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for make, options in CASES:
            file = f"{make.__name__}.onnx"
            onnx.save(make(), Path(folder, file))
            command = ["since", file, "onnxruntime", *options, "--threads", "1"]
            print(f"$ xbench {' '.join(command)}", flush=True)
            program = [sys.executable, "-P", "-c", "from xbench.cli import main; main()"]
            answer = subprocess.run([*program, *command], cwd=folder, stderr=subprocess.PIPE, text=True, check=False)
            print(*answer.stderr.splitlines()[-1:] if answer.returncode == 2 else (), flush=True)


if __name__ == "__main__":
    main()
