"""A layer of a decoder in ONNX Runtime's own operators: weights of four bits, grouped attention, rotary positions."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, HEADS, FEW, SIZE, INNER, LENGTH, BLOCK = 64, 4, 2, 16, 128, 6, 32
FLOAT = TensorProto.FLOAT


class Layer:
    """With `past` it makes one step behind that many positions; `apart` turns queries and keys by their own nodes."""

    def __init__(self, past=0, apart=False):
        self.draw, self.nodes, self.weights, self.known = np.random.default_rng(0), [], {}, []
        self.past, self.apart, self.length = past, apart, 1 if past else LENGTH
        self.total = self.past + self.length
        self.inputs = [self.tensor("x", self.length, WIDTH), self.tensor("mask", self.total, kind=TensorProto.INT64)]
        if past:
            self.inputs += [self.tensor(name, FEW, past, SIZE) for name in ("past_k", "past_v")]
        self.weights |= {"gain0": self.gain(), "gain1": self.gain()}
        self.of_onnx("SimplifiedLayerNormalization", "x gain0", "h", epsilon=1e-6, axis=-1)
        self.attention()
        self.linear("mixed", HEADS * SIZE, "projected", WIDTH)
        self.own("SkipSimplifiedLayerNormalization", "x projected gain1", "n - - rest", epsilon=1e-6)
        self.linear("n", WIDTH, "up", INNER)
        self.of_onnx("Sigmoid", "up", "gate")
        self.of_onnx("Mul", "up gate", "act")
        self.linear("act", INNER, "down", WIDTH)
        self.of_onnx("Add", "rest down", "y")

    def tensor(self, name, *sizes, kind=FLOAT):
        return helper.make_tensor_value_info(name, kind, ["N", *sizes])

    def gain(self):
        return (1 + 0.1 * self.draw.normal(size=WIDTH)).astype(np.float32)

    def node(self, operator, inputs, outputs, domain, **words):
        names = [["" if name == "-" else name for name in text.split()] for text in (inputs, outputs)]
        self.nodes.append(helper.make_node(operator, *names, domain=domain, **words))

    def of_onnx(self, operator, inputs, outputs, **words):
        self.node(operator, inputs, outputs, "", **words)

    def own(self, operator, inputs, outputs, **words):
        self.node(operator, inputs, outputs, "com.microsoft", **words)

    def linear(self, source, columns, target, rows):
        blocks = columns // BLOCK
        self.weights[f"{target}_codes"] = self.draw.integers(0, 256, (rows, blocks, BLOCK // 2)).astype(np.uint8)
        self.weights[f"{target}_steps"] = (self.draw.uniform(0.01, 0.03, rows * blocks)).astype(np.float32)
        inputs = f"{source} {target}_codes {target}_steps"
        self.own("MatMulNBits", inputs, target, K=columns, N=rows, bits=4, block_size=BLOCK)
        self.known.append(self.tensor(target, self.length, rows))

    def attention(self):
        angles = np.outer(np.arange(64), 1 / 10000 ** (np.arange(SIZE // 2) / (SIZE // 2)))
        self.weights |= {"cosines": np.cos(angles).astype(np.float32), "sines": np.sin(angles).astype(np.float32)}
        self.weights |= {"one": np.array([1]), "at": np.array(1)}
        self.of_onnx("ReduceSum", "mask one", "count", keepdims=0)
        self.of_onnx("Sub", "count one", "last_")
        self.of_onnx("Cast", "last_", "last", to=TensorProto.INT32)
        self.of_onnx("Shape", "mask", "area")
        self.of_onnx("Gather", "area at", "all_")
        self.of_onnx("Cast", "all_", "all", to=TensorProto.INT32)
        past, words = "past_k past_v" if self.past else "- -", {"num_heads": HEADS, "kv_num_heads": FEW}
        if not self.apart:
            self.linear("h", WIDTH, "qkv", (HEADS + 2 * FEW) * SIZE)
            inputs = f"qkv - - {past} last all cosines sines"
            self.own("GroupQueryAttention", inputs, "mixed keys values", do_rotary=1, **words)
            return
        for name, heads in (("q", HEADS), ("k", FEW), ("v", FEW)):
            self.linear("h", WIDTH, name, heads * SIZE)
        self.inputs.append(self.tensor("places", self.length, kind=TensorProto.INT64))
        for name in "qk":
            self.own("RotaryEmbedding", f"{name} places cosines sines", f"{name}_turned")
        self.own("GroupQueryAttention", f"q_turned k_turned v {past} last all", "mixed keys values", **words)

    def save(self, path):
        outputs = [self.tensor("y", self.length, WIDTH)]
        outputs += [self.tensor(name, FEW, self.total, SIZE) for name in ("keys", "values")]
        weights = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, "g", self.inputs, outputs, weights, value_info=self.known)
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
        return path


def change(model, name, made):
    """Writes other numbers into a weight."""
    (tensor,) = (each for each in model.graph.initializer if each.name == name)
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(made(numpy_helper.to_array(tensor))), name))


def shifted(model):
    """The tables of angles begin one position late: the keys to keep are others, and their products are not."""
    for name in ("cosines", "sines"):
        change(model, name, lambda table: np.roll(table, -1, axis=0))


def half_shifted(model):
    change(model, "cosines", lambda table: np.roll(table, -1, axis=0))


def rescaled(model):
    (match,) = (each for each in model.graph.node if each.op_type == "GroupQueryAttention")
    match.attribute.append(helper.make_attribute("scale", 1 / SIZE))


def longer_blocks(model):
    """The scales of one product are read as if each were of twice as many weights."""
    (match,) = (each for each in model.graph.node if "projected" in each.output)
    for each in match.attribute:
        if each.name == "block_size":
            each.i = 2 * BLOCK
    change(model, "projected_codes", lambda codes: codes.reshape(codes.shape[0], 1, -1))
    change(model, "projected_steps", lambda steps: steps[: len(steps) // 2])
