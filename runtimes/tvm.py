"""TVM (Relax) by its own ONNX importer, compiled for this machine's CPU or GPU: untuned, and labelled so, or with
`tvm:tune=120` after 120 seconds of its own tuner."""

import hashlib
import json
import os
import string
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import tvm
from onnx_ir import serde
from onnx_ir.passes.common import LiftConstantsToInitializersPass
from onnxscript.optimizer import fold_constants
from tvm import relax
from tvm.relax.dpl import is_op, rewrite_call, wildcard
from tvm.relax.frontend import detach_params
from tvm.relax.frontend.onnx import from_onnx
from tvm.relax.frontend.onnx.onnx_frontend import _get_convert_map

from xbench.converters import UnsupportedOps
from xbench.converters.artifact import NEW, Artifact
from xbench.converters.codegen.program import count_operators
from xbench.runtimes import Options, Runtime, Unavailable
from xbench.runtimes.support.graph import Arrays, Call, GraphTrainer, fixed
from xbench.runtimes.support.tvm_errors import lacking

FOLDED = ("Expand", "Transpose")  # what may be computed from a parameter: the importer supports no Expand of one


def make(artifact: Artifact, options: Options) -> Runtime:
    os.environ["TVM_NUM_THREADS"] = str(options.threads)
    if options.device == "cuda" and not tvm.cuda().exist:
        raise Unavailable("this tvm sees no CUDA device")
    return Training(artifact, options) if options.trains else Inference(artifact, options)


def _device(options: Options) -> Any:
    return tvm.cuda() if options.device == "cuda" else tvm.cpu()


def _kind(device: Any) -> str:
    return "cuda" if device.dlpack_device_type() == 2 else "cpu"


def _compiled(
    module: Any, device: Any, artifact: Artifact, options: Options, shapes: Mapping[str, Sequence[int]]
) -> tuple[Any, str | None]:
    """The library, and the cost of the search for its schedules, if there was one, in words.

    Raises:
        Unavailable: the seconds of the search are no number.
    """
    if "tune" not in options.extra:
        module = relax.transform.DecomposeOpsForInference()(module)
        if _kind(device) == "cpu":
            return tvm.compile(module, target="llvm"), None
        from xbench.runtimes.support.tvm_cuda import pipeline

        target = tvm.target.Target.from_device(device)
        return tvm.compile(module, target=target, relax_pipeline=pipeline(target)), None
    try:
        seconds = float(options.extra["tune"])
    except ValueError as error:
        raise Unavailable(f"tvm:tune={options.extra['tune']}: tune is a number of seconds") from error
    from xbench.runtimes.support.tvm_tuner import target_of, tuned

    target = target_of(device, options.threads)
    key = (options.mode, dict(options.extra), {name: list(shape) for name, shape in shapes.items()}, str(target))
    name = hashlib.sha256(json.dumps((*key, tvm.__version__)).encode()).hexdigest()[:16]
    module, words = tuned(module, target, artifact.folder / "tuned" / name, seconds)
    return tvm.compile(module, target=target), words


def _demand(operators: Mapping[str, int]) -> None:
    """Checks that TVM's importer knows the operators.

    Raises:
        UnsupportedOps: it does not know all of them.
    """
    known = _get_convert_map()
    if missing := {name: n for name, n in operators.items() if name not in known}:
        raise UnsupportedOps(missing)


class Inference(Runtime):
    def __init__(self, artifact: Artifact, options: Options) -> None:
        self.device, self.artifact, self.options = _device(options), artifact, options
        _demand({name: n for name, n in artifact.info["operators"].items() if name != "Dropout"})
        self.model = onnx.load(artifact.inference)
        self.names, self.parameters = [item["name"] for item in artifact.info["inputs"]], set(artifact.parameters)

    @lacking
    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        shapes = {name: array.shape for name, array in zip(self.names, inputs, strict=True)}
        model = fixed(self.model, shapes)
        model, known = _numbered(_written(_folded(model, self.parameters), self.parameters))
        module = from_onnx(model, keep_params_in_input=True)
        names = [known[variable.name] for variable in module["main"].params[len(self.names) :]]
        module, params = detach_params(module)
        self.library, self.search = _compiled(module, self.device, self.artifact, self.options, shapes)
        self.vm = relax.VirtualMachine(self.library, self.device)
        self.params = [tvm.runtime.tensor(p.numpy(), self.device) for p in params.get("main", ())]
        self.params_by_name = dict(zip(names, self.params, strict=True))
        self.main = self.vm["main"]
        return True

    def put(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        return tuple(tvm.runtime.tensor(array, self.device) for array in arrays)

    def forward(self, *inputs: Any) -> Any:
        return self.main(*inputs, *self.params)

    def wait(self, result: Any) -> None:
        self.device.sync()

    def get(self, outputs: Any) -> list[np.ndarray]:
        single = isinstance(outputs, tvm.runtime.Tensor)
        return [value.numpy() for value in ([outputs] if single else outputs)]

    def tuned(self) -> str | None:
        return self.search

    def placed(self) -> dict[str, int]:
        return dict(Counter(_kind(tensor.device) for tensor in self.params))

    def held(self) -> dict[str, np.ndarray]:
        """The parameters, with the operations of folding undone."""
        arrays = {name: value.numpy() for name, value in self.params_by_name.items()}
        shapes = {tensor.name: tensor.dims for tensor in self.model.graph.initializer}
        for made, node in reversed(_undone(self.model, self.parameters).items()):
            name = node.input[0]
            if made not in arrays or name in arrays:
                continue
            if node.op_type == "Expand":
                arrays[name] = arrays[made][tuple(slice(n) for n in shapes[name])]
            else:
                perm = next((a.ints for a in node.attribute if a.name == "perm"), range(arrays[made].ndim)[::-1])
                arrays[name] = arrays[made].transpose(np.argsort(perm))
        return arrays

    def save(self, folder: Path, name: str) -> tuple[str, ...]:
        """A library whose `main` takes the inputs and then the parameters `p0`, `p1`, ... of the `.params` file."""
        self.library.export_library(str(folder / f"{name}.so"))
        params = {f"p{i}": value for i, value in enumerate(self.params)}
        tvm.runtime.save_param_dict_to_file(params, str(folder / f"{name}.params"))
        return f"{name}.so", f"{name}.params"


class Training(GraphTrainer):
    """Its results are new arrays, which replace the old state."""

    def __init__(self, artifact: Artifact, options: Options) -> None:
        super().__init__(artifact, options)
        self.device = _device(options)
        _demand(count_operators(serde.deserialize_model(self.model)))

    @lacking
    def compile(self, model: onnx.ModelProto) -> tuple[Any, list[str], list[str]]:
        """The function, and the names of its inputs and outputs."""
        arguments = (self.device, self.artifact, self.options, self.shapes)
        module = from_onnx(_folded(model))
        if _kind(self.device) == "cpu" and "tune" not in self.options.extra:  # others have schedules for products
            module = _by_rows(module)
        library, self.search = _compiled(module, *arguments)
        main = relax.VirtualMachine(library, self.device)["main"]
        return main, [value.name for value in model.graph.input], [value.name for value in model.graph.output]

    def put(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        return tuple(self.buffer(array) for array in arrays)

    def buffer(self, array: np.ndarray) -> Any:
        return tvm.runtime.tensor(np.asarray(array), self.device)

    def fill(self, buffer: Any, array: np.ndarray) -> None:
        buffer.copyfrom(np.asarray(array))

    def bind(self, compiled: tuple[Any, list[str], list[str]], given: Arrays, made: Arrays) -> Call:
        main, takes, gives = compiled

        def call(inputs: Mapping[str, Any]) -> None:
            outputs = main(*(inputs[n] if n in inputs else given[n] for n in takes))
            made.update(zip(gives, [outputs] if isinstance(outputs, tvm.runtime.Tensor) else outputs, strict=True))
            self.sides[self.side - 1].update({name: made[NEW + name] for name in self.kept if NEW + name in made})

        return call

    def wait(self, result: Any) -> None:
        self.device.sync()

    def host(self, buffer: Any) -> np.ndarray:
        return buffer.numpy()

    def tuned(self) -> str | None:
        return self.search

    def placed(self) -> dict[str, int]:
        return dict(Counter(_kind(tensor.device) for tensor in self.sides[self.side].values()))


def _undone(model: onnx.ModelProto, parameters: Set[str]) -> dict[str, onnx.NodeProto]:
    """The nodes on parameters that may be computed beforehand, as `held` can undo them, by the names of their outputs:
    transposes, also of transposes, and an Expand of a parameter itself."""
    nodes: dict[str, onnx.NodeProto] = {}
    for node in model.graph.node:
        again = node.op_type == "Transpose" and node.input[0] in nodes
        if node.op_type in FOLDED and (again or node.input[0] in parameters):
            nodes[node.output[0]] = node
    return nodes


def _folded(model: onnx.ModelProto, parameters: Set[str] = frozenset()) -> onnx.ModelProto:
    """The model with its shape arithmetic computed: the importer requires constants there. On parameters only
    operations that can be undone are computed."""
    result, undone = serde.deserialize_model(model), _undone(model, parameters)
    owned = parameters | undone.keys()

    def should_fold(node: ir.Node) -> bool | None:
        known = node.outputs[0].name in undone or owned.isdisjoint(v.name for v in node.inputs if v is not None)
        return None if known else False

    fold_constants(result, onnx_shape_inference=True, should_fold=should_fold)
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(result)  # no Constant(value_ints) in TVM
    return serde.serialize_model(result)


def _written(model: onnx.ModelProto, parameters: Set[str]) -> onnx.ModelProto:
    """The model with integers that are no parameter, such as the shape of an Expand, in nodes: the importer reads them
    there. As inputs of the function they would be known too late to compile its operators."""
    result = serde.deserialize_model(model)
    for name, value in list(result.graph.initializers.items()):
        if name in parameters or value.const_value is None or not value.const_value.dtype.is_integer():
            continue
        node = ir.node("Constant", [], {"value": value.const_value})
        result.graph.insert_before(result.graph[0], node)
        node.outputs[0].shape, node.outputs[0].type = value.shape, value.type
        result.graph.initializers.pop(name)
        value.replace_all_uses_with(node.outputs[0], replace_graph_outputs=True)
    return serde.serialize_model(result)


def _numbered(model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, str]]:
    """The model with numbered names for its initializers, and a map from these to the original names: TVM changes names
    that are no identifiers, such as the `onnx::MatMul_749` of PyTorch's older exporter."""
    graph, prefix = model.graph, "parameter_"
    while any(name.startswith(prefix) for node in graph.node for name in (*node.input, *node.output)):
        prefix += "_"
    kept = {value.name for value in graph.output}
    names = {tensor.name: f"{prefix}{i}" for i, tensor in enumerate(graph.initializer) if tensor.name not in kept}
    for named in (*graph.initializer, *graph.input):
        named.name = names.get(named.name, named.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
    return model, {new: name for name, new in names.items()} | {name: name for name in kept}


def _by_rows(module: Any) -> Any:
    """The module with `x @ transpose(w)` as sums over the rows of `w`.

    Without a schedule TVM computes each element of a product on its own, down a column of the right operand. If
    weights are inputs their transposes are not computed beforehand, and a gradient transposes them again: columns of
    50,000 elements, with which GPT-2's gradient ran into its time-out. TVM's own pass for that, FuseTransposeMatmul,
    fails on that graph ('TupleType' object has no attribute 'dtype').
    """
    left, right = wildcard(), wildcard()
    turned = is_op("relax.permute_dims")(right)

    def along_rows(product: Any, matches: Mapping[Any, Any]) -> Any:
        x, w = _lengths(matches[left]), _lengths(matches[right])
        axes, rank = matches[turned].attrs.axes, len(w)
        last_two = [*(range(rank)[::-1] if axes is None else axes)] == [*range(rank - 2), rank - 1, rank - 2]
        if len(x) < 2 or rank < 2 or not last_two or w[:-2] not in ([], x[:-2]):
            return product
        batch = string.ascii_lowercase[: len(x) - 2]
        return relax.op.einsum((matches[left], matches[right]), f"{batch}xz,{batch[: rank - 2]}yz->{batch}xy")

    main = rewrite_call(is_op("relax.matmul")(left, turned), along_rows, module["main"])
    module.update_func(module.get_global_var("main"), main)
    return relax.transform.DeadCodeElimination()(module)  # the transposes that are no longer read


def _lengths(value: Any) -> list[str]:
    """The lengths of the axes, empty if they are unknown."""
    shape = value.ty.shape
    return [str(length) for length in shape.values] if isinstance(shape, relax.ShapeExpr) else []
