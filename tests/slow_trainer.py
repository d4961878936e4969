"""PyTorch, slowed down where it is known by how much: `fault_kit` installs a copy as the module `xbench_slow`."""

import time

from xbench.runtimes.torch import Torch

PUT, FORWARD, BACKWARD, UPDATE = 0.02, 0.03, 0.06, 0.09  # seconds


class Slow(Torch):
    def put(self, arrays):
        time.sleep(PUT)
        return super().put(arrays)

    def forward(self, *inputs):
        time.sleep(FORWARD)
        return super().forward(*inputs)

    def gradients(self, inputs, labels):
        time.sleep(FORWARD + BACKWARD)
        return super().gradients(inputs, labels)

    def step(self, inputs, labels):
        time.sleep(UPDATE)
        return super().step(inputs, labels)
