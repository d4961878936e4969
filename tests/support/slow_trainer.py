"""PyTorch, slowed down by known amounts: `fault_kit` installs a copy as the module `xbench_slow`."""

import time

from xbench.runtimes.torch import Torch

PUT, FORWARD, BACKWARD, UPDATE = 0.006, 0.04, 0.08, 0.12  # seconds; putting is less than a quarter of a step


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
