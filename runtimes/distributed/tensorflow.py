"""TensorFlow's engine: `tf.distribute.MultiWorkerMirroredStrategy` around a custom training loop."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from xbench.converters.artifact import Artifact
from xbench.runtimes import Options
from xbench.runtimes.distributed import Engine
from xbench.runtimes.tensorflow import TensorFlow


class TensorFlowEngine(Engine, TensorFlow):
    """Variables are made under the strategy, so that all workers begin with those of the first; a step runs as a
    replica, in whose context the gradients are averaged. It assigns to the worker's own copy of a variable, as the
    strategy's `update` does."""

    def __init__(self, artifact: Artifact, options: Options) -> None:
        tf.config.threading.set_intra_op_parallelism_threads(options.threads)  # before the strategy starts its server
        tf.config.threading.set_inter_op_parallelism_threads(options.threads)
        _, self.world = self.place()
        self.strategy = tf.distribute.MultiWorkerMirroredStrategy()
        self.alone = self.averages = False
        with self.strategy.scope():
            super().__init__(artifact, options)
        self.params, self.state = self._own(self.params), self._own(self.state)
        self.memory = {slot: self._own(kept) for slot, kept in self.memory.items()}
        self.count, self.active = self._own({"": self.count})[""], self._own({"": self.active})[""]

    def _own(self, variables: dict[str, Any]) -> dict[str, Any]:
        return {name: self.strategy.experimental_local_results(each)[0] for name, each in variables.items()}

    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        compiled = super().prepare(inputs, labels, dropout)
        if compiled:
            signature = [tf.TensorSpec(array.shape, array.dtype) for array in (*inputs, labels)]
            derived = tf.function(self._gradients, signature, autograph=False)
            self.own = {"step": self.call, "gradient": derived}
            self.together = {
                "step": self._averaged(self._step, signature),
                "gradient": self._averaged(self._gradients, signature),
            }
        return compiled

    def _averaged(self, body: Callable[..., Any], signature: Sequence[Any]) -> Any:
        def replica(*arrays):
            self.averages = True
            try:
                return body(*arrays)
            finally:
                self.averages = False

        return tf.function(lambda *arrays: self.strategy.run(replica, args=arrays), signature, autograph=False)

    def _differentiated(self, params, state, arrays):
        loss, grads, changed = super()._differentiated(params, state, arrays)
        if self.averages:
            grads = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, grads)
        return loss, grads, changed

    def apart(self, active: bool) -> None:
        self.alone = active

    @property
    def functions(self) -> dict[str, Any]:
        return self.own if self.alone or self.world == 1 else self.together

    def gradients(self, inputs: Sequence[Any], labels: Any) -> tuple[Any, Any]:
        return self.functions["gradient"](*inputs, labels)

    def step(self, inputs: Sequence[Any], labels: Any) -> Any:
        return (self.functions["step"](*inputs, labels),)

    def messages(self) -> list[int]:
        """One: without bytes_per_pack the strategy packs all gradients into one collective."""
        return [sum(4 * each.shape.num_elements() for each in self.params.values())]

    def reduction(self) -> Callable[[], object]:
        return self._averaging([tf.zeros_like(each) for each in self.params.values()])

    def exchange(self, count: int) -> Callable[[], object]:
        return self._averaging([tf.zeros(count)])

    def _averaging(self, arrays: list[Any]) -> Callable[[], object]:
        def replica(*given):
            placed = [tf.identity(each) for each in given]  # on the replica's device, unlike an argument
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, placed)

        signature = [tf.TensorSpec(each.shape, each.dtype) for each in arrays]
        mean = tf.function(lambda *given: self.strategy.run(replica, args=given), signature, autograph=False)
        return lambda: mean(*arrays)
