"""Scores operator tables and runtimes on ONNX's own node tests: python tools/pages/node_suite.py [BACKEND ...]

The tests come with the onnx package and are built in memory. The *core* row has those whose inputs and outputs are
float32, float64, integer or bool tensors, in the default domain, at opset 22 or before. A test passes if every output
has the right shape, type and values, within the test's own relative tolerance and an absolute one of 1e-5. Each backend
runs in its own process; one that dies is restarted after the test it died on.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

TABLES = ("torch", "tensorflow", "jax")
OTHERS = ("onnxruntime", "openvino", "tvm", "onnx.reference")
CORE_TYPES = {
    getattr(onnx.TensorProto, name)
    for name in ["FLOAT", "DOUBLE", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "BOOL"]
}
LAST_OPSET = 22
# Tests that no table passes, by the beginning of their name, and why.
EXCLUDED = {
    "test_bernoulli": "the outputs are random draws of onnx.reference's own generator",
    "test_training_dropout": "the outputs are random draws of onnx.reference's own generator",
    "test_scan_sum": "Scan of opset 8 has a batch axis that later ones lack, and ONNX's version converter keeps it",
}
ABSOLUTE = 1e-5
# JAX compiles every small kernel of these tests, and each runs once: optimizing them is most of the work.
QUICK_XLA = "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0"
Run = Callable[[onnx.ModelProto, Sequence[Any]], Sequence[Any]]


def is_core(model: onnx.ModelProto) -> bool:
    values = [*model.graph.input, *model.graph.output]
    return all(i.domain in ("", "ai.onnx") and i.version <= LAST_OPSET for i in model.opset_import) and all(
        v.type.HasField("tensor_type") and v.type.tensor_type.elem_type in CORE_TYPES for v in values
    )


def core_tests() -> list[Any]:
    """ONNX's TestCase objects of the core row, in ONNX's order."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return [test for test in load_model_tests(kind="node") if is_core(test.model)]


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def _compare(results: Sequence[Any], expected: Sequence[Any], relative: float, absolute: float) -> None:
    assert len(results) == len(expected), f"{len(results)} outputs for {len(expected)}"
    for each, right in zip(results, expected, strict=True):
        actual, truth = np.asarray(each), _array(right)
        assert actual.shape == truth.shape, f"shape {actual.shape} for {truth.shape}"
        assert actual.dtype == truth.dtype, f"type {actual.dtype} for {truth.dtype}"
        np.testing.assert_allclose(
            actual.astype(np.float64), truth.astype(np.float64), rtol=relative, atol=absolute, err_msg="values"
        )


def judge(test: Any, run: Run) -> str:
    """`passed`, or why not, in one line."""
    try:
        for inputs, outputs in test.data_sets:
            results = run(test.model, [_array(value) for value in inputs])
            _compare(results, outputs, test.rtol, max(test.atol, ABSOLUTE))
    except AssertionError as error:
        return "wrong: " + " ".join(str(error).split())[:150]
    except Exception as error:  # a backend may raise anything; it is counted
        return f"error: {type(error).__name__}: {' '.join(str(error).split())[:150]}"
    return "passed"


# ***** our tables: the printed program, run eagerly *****


def _program(model: onnx.ModelProto, table: dict[str, Any]) -> tuple[Any, dict[str, np.ndarray]]:
    from xbench.converters.codegen.program import convert
    from xbench.converters.frontends.onnx_file import canonical

    program = convert(canonical(model), [])
    return program.bind(table), program.state


def torch() -> Run:
    import torch

    from xbench.converters.ops.torch import TABLE, arrays

    def run(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[Any]:
        apply, state = _program(model, TABLE)
        outputs, _ = apply({}, {k: arrays.asarray(v) for k, v in state.items()}, *map(arrays.asarray, inputs))
        return [y.numpy() if isinstance(y, torch.Tensor) else y for y in outputs]

    return run


def tensorflow() -> Run:
    from xbench.converters.ops.tensorflow import TABLE, arrays

    def run(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[Any]:
        apply, state = _program(model, TABLE)
        outputs, _ = apply({}, {k: arrays.asarray(v) for k, v in state.items()}, *map(arrays.asarray, inputs))
        return [np.asarray(y) for y in outputs]

    return run


def jax() -> Run:
    os.environ["XLA_FLAGS"] = QUICK_XLA
    import jax

    jax.config.update("jax_enable_x64", True)  # without it JAX has neither int64 nor float64
    from xbench.converters.ops.jax import TABLE, arrays

    def run(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[Any]:
        apply, state = _program(model, TABLE)
        outputs, _ = apply({}, {k: arrays.asarray(v) for k, v in state.items()}, *map(arrays.asarray, inputs))
        return [np.asarray(y) for y in outputs]

    return run


# ***** runtimes that read ONNX with their own importer *****


def onnxruntime() -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4

    def run(model: onnx.ModelProto, inputs: Sequence[Any]) -> Any:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, {i.name: v for i, v in zip(session.get_inputs(), inputs)})

    return run


def openvino() -> Run:
    import openvino

    core = openvino.Core()

    def run(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[Any]:
        compiled = core.compile_model(
            core.read_model(model.SerializeToString()), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
        )
        results = compiled([np.asarray(v) for v in inputs], share_inputs=False)
        return [results[output] for output in compiled.outputs]

    return run


def tvm() -> Run:
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    def run(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[Any]:
        module = relax.transform.DecomposeOpsForInference()(from_onnx(model, keep_params_in_input=False))
        machine = relax.VirtualMachine(tvm.compile(module, tvm.target.Target("llvm")), tvm.cpu())
        result = machine["main"](*[tvm.runtime.tensor(np.asarray(v)) for v in inputs])
        return [y.numpy() for y in (result if isinstance(result, list | tuple | tvm.ir.Array) else [result])]

    return run


def onnx_reference() -> Run:
    from onnx.reference import ReferenceEvaluator

    def run(model: onnx.ModelProto, inputs: Sequence[Any]) -> Any:
        return ReferenceEvaluator(model).run(None, {i.name: v for i, v in zip(model.graph.input, inputs)})

    return run


# ***** one process per backend *****


def _work(backend: str, first: int) -> None:
    """Prints a JSON line before and after every test from `first` on."""
    run = globals()[backend.replace(".", "_")]()
    for index, test in enumerate(core_tests()[first:], first):
        print(json.dumps({"begun": index}), flush=True)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            print(json.dumps({"done": index, "test": test.name, "verdict": judge(test, run)}), flush=True)


def score(backend: str, names: Sequence[str]) -> dict[str, str]:
    """The verdict of every core test, by name."""
    verdicts: dict[str, str] = {}
    while len(verdicts) < len(names):
        command = [sys.executable, __file__, "--work", backend, "--first", str(len(verdicts))]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith('{"done"'):
                row = json.loads(line)
                verdicts[row["test"]] = row["verdict"]
                if sys.stderr.isatty():
                    print(f"\r{backend}: {len(verdicts)} of {len(names)}", end="", file=sys.stderr, flush=True)
        if process.wait() and len(verdicts) < len(names):
            verdicts[names[len(verdicts)]] = f"crash: exit code {process.returncode}"
    print(f"\r{backend}: {len(verdicts)} of {len(names)}", file=sys.stderr)
    return verdicts


def excluded(name: str) -> str | None:
    """Why a test is not expected to pass in our tables; None if it is."""
    return next((why for start, why in EXCLUDED.items() if name.startswith(start)), None)


def table(verdicts: dict[str, dict[str, str]]) -> str:
    """The scores as a Markdown table, the best first."""
    lines = ["| backend | version | passed | wrong | error | crash |", "| --- | --- | --: | --: | --: | --: |"]
    counts = {b: collections.Counter(v.partition(":")[0] for v in count.values()) for b, count in verdicts.items()}
    for backend in sorted(verdicts, key=lambda b: -counts[b]["passed"]):
        count, total = counts[backend], len(verdicts[backend])
        name = f"{backend} (our table)" if backend in TABLES else backend
        rest = " | ".join(str(count[kind]) for kind in ("wrong", "error", "crash"))
        share = f"{count['passed']} ({count['passed'] / total:.1%})"
        lines.append(f"| {name} | {_version(backend)} | {share} | {rest} |")
    return "\n".join(lines)


def _version(backend: str) -> str:
    for package in (backend, f"{backend}-cpu", f"apache-{backend}", backend.partition(".")[0]):
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return ""


def document(verdicts: dict[str, dict[str, str]]) -> str:
    """docs/node-suite.md."""
    total = len(next(iter(verdicts.values())))
    failing = {t: v for b in TABLES for t, v in verdicts.get(b, {}).items() if v != "passed"}
    lines = [
        "# ONNX's node tests",
        "",
        f"Printed by `make node-suite` with onnx {onnx.__version__}: the {total} tests of the core row (tensors of",
        f"float32, float64, integers and bool, the default domain, opset {LAST_OPSET} or before). Inputs are",
        "given at run time, axes and shapes too: a compiler that wants those as constants is at a disadvantage here.",
        "",
        table(verdicts),
        "",
        "## What our tables do not pass",
        "",
        "| test | torch | tensorflow | jax | why |",
        "| --- | --- | --- | --- | --- |",
    ]
    for test in sorted(failing):
        marks = " | ".join(verdicts.get(b, {}).get(test, "").partition(":")[0] for b in TABLES)
        lines.append(f"| {test} | {marks} | {excluded(test) or failing[test].replace('|', ' ')} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("backends", nargs="*", metavar="BACKEND", help=f"of {', '.join([*TABLES, *OTHERS])}")
    parser.add_argument("--json", type=Path, help="write every verdict there")
    parser.add_argument("--markdown", type=Path, help="write the document there")
    parser.add_argument("--failures", action="store_true", help="print what did not pass")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return _work(options.work, options.first)
    names = [test.name for test in core_tests()]
    verdicts = {backend: score(backend, names) for backend in options.backends or [*TABLES, *OTHERS]}
    print(f"onnx {onnx.__version__}: {len(names)} core node tests\n\n{table(verdicts)}")
    if options.failures:
        failed = [f"{b}: {t}: {v}" for b, tests in verdicts.items() for t, v in tests.items() if v != "passed"]
        print("\n".join(failed))
    if options.json:
        options.json.write_text(json.dumps({"onnx": onnx.__version__, "tests": len(names), "verdicts": verdicts}))
    if options.markdown:
        options.markdown.write_text(document(verdicts))
    return None


if __name__ == "__main__":
    main()
