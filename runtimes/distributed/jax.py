"""JAX's engine: `jax.distributed`, and `jax.shard_map` over a mesh of all processes with a pmean of the gradients."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from xbench.converters.artifact import Artifact
from xbench.runtimes import Options
from xbench.runtimes.distributed import Engine
from xbench.runtimes.jax import Jax

WORKERS = "workers"  # the axis of the mesh
SAME, SHARDS = PartitionSpec(), PartitionSpec(WORKERS)


class JaxEngine(Engine, Jax):
    """Alone it is `runtimes/jax.py` on this process's device, step by step the same program. Together its arrays are
    those of the mesh, one copy per process: switching moves no data."""

    def __init__(self, artifact: Artifact, options: Options) -> None:
        rank, world = self.place()
        if options.device == "cpu":
            jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(num_processes=world, process_id=rank)  # the address is in the environment
        self.mesh = Mesh(np.array(jax.devices()), (WORKERS,))
        self.world, self.alone, self.averages = world, True, False
        super().__init__(artifact, options)

    def reset(self) -> None:
        super().reset()
        if not self.alone:
            self._moved(self._spread)

    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        self.apart(True)
        compiled = super().prepare(inputs, labels, dropout)
        if compiled:
            self.derived = jax.jit(self._differentiated)
            self.together = {
                "gradient": self._mapped(self._differentiated, ()),
                "step": self._mapped(self._step, (0, 1, 2, 3)),
            }
        self.apart(self.world == 1)
        return compiled

    def _differentiated(self, params, state, rng, inputs, labels):
        (value, changed), grads = super()._differentiated(params, state, rng, inputs, labels)
        if self.averages:
            value, grads = jax.lax.pmean((value, grads), WORKERS)
        return (value, changed), grads

    def _mapped(self, function: Callable[..., Any], donated: tuple[int, ...]) -> Callable[..., Any]:
        """A function of the model's arrays, inputs and labels, on the mesh; traced when it is first called."""

        def averaged(*arrays):
            self.averages = True
            try:
                return function(*arrays)
            finally:
                self.averages = False

        def mapped(*arrays):
            shards = (SAME,) * (len(arrays) - 2) + (SHARDS, SHARDS)
            return jax.shard_map(averaged, mesh=self.mesh, in_specs=shards, out_specs=SAME, check_vma=False)(*arrays)

        return jax.jit(mapped, donate_argnums=donated)

    def apart(self, active: bool) -> None:
        active = active or self.world == 1
        if active != self.alone:
            self.alone = active
            self._moved((lambda array: array.addressable_data(0)) if active else self._spread)
            self.rng = jax.tree.map(self._spread if not active else lambda a: a.addressable_data(0), self.rng)

    def _moved(self, change: Callable[[Any], Any]) -> None:
        kept = self.params, self.state, self.memory, self.count
        self.params, self.state, self.memory, self.count = jax.tree.map(change, kept)

    def _spread(self, array):
        return jax.make_array_from_single_device_arrays(array.shape, NamedSharding(self.mesh, SAME), [array])

    def _shard(self, array):
        shape = (self.world * array.shape[0], *array.shape[1:])
        return jax.make_array_from_single_device_arrays(shape, NamedSharding(self.mesh, SHARDS), [array])

    def gradients(self, inputs: Sequence[Any], labels: Any) -> tuple[Any, Any]:
        if self.alone:
            (loss, _), grads = self.derived(self.params, self.state, self.rng, inputs, labels)
        else:
            given = jax.tree.map(self._shard, (inputs, labels))
            (loss, _), grads = self.together["gradient"](self.params, self.state, self.rng, *given)
        return loss, grads

    def step(self, inputs: Sequence[Any], labels: Any) -> Any:
        if self.alone:
            return super().step(inputs, labels)
        arguments = (self.params, self.state, self.memory, self.count, self.rng)
        given = jax.tree.map(self._shard, (inputs, labels))
        loss, self.params, self.state, self.memory, self.count = self.together["step"](*arguments, *given)
        return loss, self.params, self.state

    def messages(self) -> list[int]:
        """One instruction reads all gradients and the loss, and XLA's CPU runtime sends them array by array."""
        return [4, *(array.nbytes for array in self.params.values())]

    def reduction(self) -> Callable[[], object]:
        arrays = {
            name: self._spread(jnp.zeros(a.shape, a.dtype, device=self.device)) for name, a in self.params.items()
        }
        return self._averaging(arrays)

    def exchange(self, count: int) -> Callable[[], object]:
        return self._averaging(self._spread(jnp.zeros(count, jnp.float32, device=self.device)))

    def _averaging(self, arrays: Any) -> Callable[[], object]:
        mean = jax.shard_map(
            lambda each: jax.lax.pmean(each, WORKERS), mesh=self.mesh, in_specs=SAME, out_specs=SAME, check_vma=False
        )
        compiled = jax.jit(mean).lower(arrays).compile()
        return lambda: jax.block_until_ready(compiled(arrays))
