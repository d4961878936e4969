"""PyTorch, eager: the network's own `nn.Module`, or for an ONNX file the printed program as a module."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from xbench import models
from xbench.converters import Program
from xbench.converters.artifact import Artifact
from xbench.converters.autodiff.loss import loss_of
from xbench.converters.autodiff.optimizer import rate
from xbench.converters.codegen import standalone
from xbench.converters.codegen.free_variables import released
from xbench.converters.frontends.torch_call import flat
from xbench.converters.ops import torch as ops
from xbench.converters.ops.torch_dropout import switch
from xbench.converters.ops.torch_types import from_numpy, to_numpy
from xbench.runtimes import Layer, Options, Trainer, Unavailable
from xbench.runtimes.support.calibration import batches
from xbench.runtimes.support.torch_exported import exported_program
from xbench.runtimes.support.torch_layers import layers_of

MODULES = ("zoo", "module")  # origins of artifacts that were exported from a module
HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class ProgramModule(nn.Module):
    """A converted model as an `nn.Module`; its parameters keep the names of the ONNX file."""

    def __init__(self, program: Program, table: Mapping[str, Callable[..., Any]] = ops.TABLE) -> None:
        super().__init__()
        self.dropout = True
        self.apply_program = dataclasses.replace(program, source=released(program.source)).bind(table)
        self.arrays = nn.ParameterList(from_numpy(a.copy()) for a in program.params.values())
        self.names, self.state_names = list(program.params), list(program.state)
        for index, array in enumerate(program.state.values()):
            self.register_buffer(f"state{index}", from_numpy(array.copy()))

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        params = dict(zip(self.names, self.arrays, strict=True))
        state = {name: getattr(self, f"state{index}") for index, name in enumerate(self.state_names)}
        rng = 1 if self.training and self.dropout else None
        outputs, changed = self.apply_program(params, state, *inputs, training=self.training, rng=rng)
        for name, value in changed.items():
            state[name].copy_(value)
        return outputs


def module_of(artifact: Artifact) -> nn.Module:
    """The network as PyTorch runs it: the zoo's or the user's module, or the ONNX file's program.

    A user's module is made again and gets the weights it was exported with: a factory may return different ones.
    Parameters that no output depends on are not trained.
    """
    if artifact.info["origin"] not in MODULES:
        return ProgramModule(artifact.program())
    if artifact.info["origin"] == "zoo":
        return models.build(models.find(artifact.name), artifact.info["seed"])
    names = [each["name"] for each in artifact.info["inputs"]]
    loss = artifact.info["loss_function"]
    module = flat(models.make(**artifact.info["made"]), names, models.function(loss) if loss else None)
    program = artifact.program()
    arrays = {**program.state, **program.params}
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(parameter.requires_grad and name not in artifact.info["unused"])
    with torch.no_grad():
        for name, value in (*module.named_parameters(), *module.named_buffers()):
            if name in arrays:
                value.copy_(torch.from_numpy(arrays[name]))
    return module


def named_tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and floating buffers by the names of the ONNX graph."""
    if isinstance(module, ProgramModule):
        buffers = {name: getattr(module, f"state{index}") for index, name in enumerate(module.state_names)}
        return {**dict(zip(module.names, module.arrays, strict=True)), **buffers}
    return {**dict(module.named_parameters()), **{n: b for n, b in module.named_buffers() if b.is_floating_point()}}


def trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    """The trained parameters, by the names of the ONNX graph, without those that a user has frozen."""
    tensors = named_tensors(module)
    return {name: p for name, p in tensors.items() if isinstance(p, nn.Parameter) and p.requires_grad}


def set_dropout(module: nn.Module, active: bool) -> None:
    """Switches all dropout of this process off or on: layers, functions, and those inside recurrent layers."""
    switch(active)
    for layer in module.modules():
        if isinstance(layer, ProgramModule):
            layer.dropout = active
        if isinstance(layer, nn.RNNBase):
            layer.defined = getattr(layer, "defined", layer.dropout)
            layer.dropout = layer.defined if active else 0.0


def optimizer_of(rule: dict[str, Any], parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
    if rule["name"] == "sgd":
        names = ("lr", "momentum", "weight_decay", "nesterov")
        return torch.optim.SGD(parameters, **{name: rule[name] for name in names})
    make = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[rule["name"]]
    betas = (rule["beta1"], rule["beta2"])
    return make(parameters, lr=rule["lr"], betas=betas, eps=rule["eps"], weight_decay=rule["weight_decay"])


def update(optimizer: torch.optim.Optimizer, rule: dict[str, Any], count: int) -> None:
    """The update of step `count`, counted from 1, with the parameters' gradients. A parameter without one gets a
    gradient of zero, as in all other runtimes: PyTorch by itself would not decay it."""
    for group in optimizer.param_groups:
        group["lr"] = rate(rule, count)
        for p in group["params"]:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        if rule["clip"]:
            torch.nn.utils.clip_grad_norm_(group["params"], rule["clip"])
    optimizer.step()


# torch.optim's names for what converters/autodiff/optimizer.py calls slots.
SLOTS = {"momentum_buffer": "momentum", "exp_avg": "mean", "exp_avg_sq": "square"}


def optimizer_state(optimizer: torch.optim.Optimizer, named: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The arrays an optimizer keeps, by `<slot>.<parameter>`; none before the first step."""
    return {
        f"{slot}.{name}": optimizer.state[p][key]
        for name, p in named.items()
        for key, slot in SLOTS.items()
        if optimizer.state[p].get(key) is not None
    }


def multiplying(device: str, threads: int, size: int) -> Callable[[], object]:
    """A float32 product of square matrices, complete on return, for the probe of a machine's peaks."""
    torch.set_num_threads(threads)
    a, b = (torch.full((size, size), 0.5, device=device) for _ in range(2))
    result = torch.empty_like(a)
    return _complete(device, lambda: torch.mm(a, b, out=result))


def copying(device: str, threads: int, count: int) -> Callable[[], object]:
    """A copy of `count` float32 numbers, complete on return."""
    torch.set_num_threads(threads)
    source, target = (torch.full((count,), 0.5, device=device) for _ in range(2))
    return _complete(device, lambda: target.copy_(source))


def _complete(device: str, step: Callable[[], object]) -> Callable[[], object]:
    def synchronized() -> None:
        step()
        torch.cuda.synchronize()

    return synchronized if device == "cuda" else step


class Torch(Trainer):
    """`transform` wraps the function that is called: nothing for eager, `torch.compile` for the compiled runtime."""

    def __init__(self, artifact: Artifact, options: Options, transform: Callable[[Any], Any] | None = None) -> None:
        if options.device == "cuda" and not torch.cuda.is_available():
            raise Unavailable("this torch sees no CUDA device: install a CUDA build of torch")
        torch.set_num_threads(options.threads)
        tf32 = options.precision == "tf32"
        torch.backends.cudnn.allow_tf32 = tf32  # cuDNN's default is TF32, which is not float32
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.benchmark = "benchmark" in options.extra
        self.half = HALVES.get(options.precision)
        self.device, self.options = torch.device(options.device), options
        self.transform, self.rule = transform or (lambda function: function), artifact.info["optimizer"]
        if options.trains:
            self.loss = loss_of(ops, artifact.info["loss"])
        self.compiled = transform is not None
        self.artifact = artifact
        self.memory = torch.channels_last if options.layout == "nhwc" else torch.contiguous_format
        self.module = module_of(artifact).to(self.device).train(options.trains)
        if options.layout == "nhwc":
            self.module = self.module.to(memory_format=self.memory)
        self.initial = {name: value.detach().clone() for name, value in named_tensors(self.module).items()}
        self.named = trainable(self.module)
        self.parameters = list(self.named.values())
        self.optimizer = optimizer_of(self.rule, self.parameters) if options.mode == "step" else None
        self.count = 0

    def reset(self) -> None:
        with torch.no_grad():
            for name, value in named_tensors(self.module).items():
                value.copy_(self.initial[name])
        self.count = 0
        if self.optimizer is not None:
            self.optimizer = optimizer_of(self.rule, self.parameters)

    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        set_dropout(self.module, dropout)
        self.traced, small = self.module, self.options.precision == "int8"
        # Dynamo treats NumPy arrays of shape arithmetic as tensors; a graph traced by export has none left.
        exported = self.compiled and isinstance(self.module, ProgramModule) and not self.options.trains
        if exported or small:
            self.traced = exported_program(self.module, self.put(inputs))
        if small:
            from xbench.runtimes.support.torch_int8 import quantised

            given = batches(self.options.calibration, inputs, "torch_compile in int8")
            self.traced = quantised(self.traced, [self.put(batch) for batch in given])
        self.outputs = self._lowered if self.half else self._outputs
        self.answer = self.transform(self.outputs)
        self.call = self.transform(self._loss)
        return exported or small

    def _outputs(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if self.memory is torch.channels_last:
            inputs = tuple(x.contiguous(memory_format=self.memory) if x.ndim == 4 else x for x in inputs)
        outputs = self.traced(*inputs)
        return outputs if isinstance(outputs, tuple) else (outputs,)

    def _lowered(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """By autocast, which rounds operands of products; outputs are float32, so that the loss is computed in it."""
        with torch.autocast(self.device.type, self.half):
            outputs = self._outputs(*inputs)
        return tuple(value.float() if value.dtype == self.half else value for value in outputs)

    def _loss(self, inputs: Sequence[torch.Tensor], labels: torch.Tensor) -> torch.Tensor:
        return self.loss(self.outputs(*inputs), labels)

    def put(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        return tuple(from_numpy(array).to(self.device) for array in arrays)

    def forward(self, *inputs: Any) -> Any:
        if self.options.trains:
            self.module.eval()
        with torch.inference_mode():
            outputs = self.answer(*inputs)
        if self.options.trains:
            self.module.train()
        return outputs

    def gradients(self, inputs: Sequence[Any], labels: Any) -> tuple[Any, Any]:
        for p in self.parameters:
            p.grad = None
        loss = self.call(inputs, labels)
        loss.backward()
        return loss.detach(), self.parameters

    def step(self, inputs: Sequence[Any], labels: Any) -> Any:
        loss, _ = self.gradients(inputs, labels)
        assert self.optimizer is not None, "step was not the mode this runtime was made for"
        self.count += 1
        update(self.optimizer, self.rule, self.count)
        return (loss,)

    def wait(self, result: Any) -> None:
        if self.options.device == "cuda":  # to query PyTorch's own device takes 7 us
            torch.cuda.synchronize(self.device)

    def get(self, outputs: Any) -> list[np.ndarray]:
        return [to_numpy(each) for each in outputs]

    def fetch(self, result: Any) -> tuple[float, dict[str, np.ndarray]]:
        grads = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in self.named.items()}
        return float(result[0]), {name: grad.detach().cpu().numpy() for name, grad in grads.items()}

    def recalled(self) -> bool:
        """By Inductor's own count of cache hits."""
        return self.compiled and torch._dynamo.utils.counters["inductor"]["fxgraph_cache_hit"] > 0

    def layers(self, inputs: Sequence[Any], count: int) -> list[Layer]:
        return layers_of(self.module, lambda: self.wait(self.forward(*inputs)), lambda: self.wait(None), count)

    def save(self, folder: Path, name: str) -> tuple[str, ...]:
        if self.options.precision == "int8":
            return ()  # what is printed is the network before it was quantised
        return standalone.write(self.artifact.program(), "torch", name, folder, self.artifact.info["loss"])

    def optimizer_state(self) -> dict[str, np.ndarray]:
        assert self.optimizer is not None, "step was not the mode this runtime was made for"
        return {n: a.cpu().numpy().copy() for n, a in optimizer_state(self.optimizer, self.named).items()}

    def placed(self) -> dict[str, int]:
        return dict(Counter(value.device.type for value in named_tensors(self.module).values()))

    def by_events(self, step: Callable[[], object]) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        step()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3  # it is in milliseconds

    def device_memory(self) -> int | None:
        return torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else None

    def weights(self) -> dict[str, np.ndarray]:
        return {name: to_numpy(value).copy() for name, value in named_tensors(self.module).items()}
